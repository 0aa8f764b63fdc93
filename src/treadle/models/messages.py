"""The Anthropic Messages API as a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from .contract import Capabilities, ModelEvent, ModelRequest
from .endpoint import Endpoint
from .formats.messages import MessagesFormat
from .formats.tools import flat_tools
from .messages_reader import MessagesReader

__all__ = ["MessagesModel"]


@dataclass(slots=True)
class MessagesModel:
    """A model behind ``/messages``."""

    name: str
    capabilities: Capabilities
    endpoint: Endpoint
    shared_transport: bool = False
    """Whether someone else closes the transport."""
    format: MessagesFormat = field(default_factory=MessagesFormat)

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        """Send `request` and hand out what comes back."""
        tools = {tool.name: tool for tool in flat_tools(request.head.tools)}
        return self.endpoint.stream("/messages", request, MessagesReader(tools), {})

    async def close(self) -> None:
        """Let go of connections."""
        if not self.shared_transport:
            await self.endpoint.transport.close()
