"""Chat Completions as a model: OpenAI-compatible servers of every kind."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from .chat_reader import ChatReader
from .contract import Capabilities, ModelEvent, ModelRequest
from .endpoint import Endpoint
from .formats.chat import ChatFormat
from .formats.tools import flat_tools

__all__ = ["ChatModel"]


@dataclass(slots=True)
class ChatModel:
    """A model behind ``/chat/completions``."""

    name: str
    capabilities: Capabilities
    endpoint: Endpoint
    shared_transport: bool = False
    """Whether someone else closes the transport."""
    format: ChatFormat = field(default_factory=ChatFormat)

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        """Send `request` and hand out what comes back."""
        tools = {tool.name: tool for tool in flat_tools(request.head.tools)}
        digest = hashlib.blake2b(request.body, digest_size=12).hexdigest()
        reader = ChatReader(tools, digest)
        return self.endpoint.stream("/chat/completions", request, reader, {})

    async def close(self) -> None:
        """Let go of connections."""
        if not self.shared_transport:
            await self.endpoint.transport.close()
