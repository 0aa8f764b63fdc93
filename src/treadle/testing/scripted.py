"""A model that answers from a script, over real HTTP.

Owns a fake server on the loopback interface, started with the first request and
stopped with `close`. Invariant: requests and answers take the same way as
with a real provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal

from ..core.aio import finish_uncancelled
from ..core.items import Item
from ..core.loopback import LoopbackRequest
from ..models.contract import (
    Capabilities,
    Model,
    ModelEvent,
    ModelRequest,
    RemoteCompaction,
    WireFormat,
)
from ..models.formats import format_named
from ..models.profile import ModelProfile
from ..models.providers import OpenerContext, ProviderConfig, connect
from ..models.transport import AsyncTransport
from .fake import FakeServer
from .script import Answer, Script, load_script

__all__ = ["PROVIDER", "ScriptedModel", "open_scripted"]

PROVIDER = "scripted"
DEMO = "demo"
"""The name of the script that is part of Treadle."""


class ScriptedModel:
    """Answers from a script; `requests` are those it was sent."""

    def __init__(
        self,
        script: Script | Sequence[Answer],
        name: str = "script",
        *,
        idle_timeout: float | None = 300.0,
        remote_compaction: Literal["none", "endpoint", "trigger"] = "none",
        deferred_tools: bool = False,
    ) -> None:
        if not isinstance(script, Script):
            script = Script(answers=tuple(script))
        self._script, self._slug = script, name
        self._idle_timeout, self._remote_compaction = idle_timeout, remote_compaction
        self._deferred_tools = deferred_tools
        self._server = FakeServer(script)
        self._starting = asyncio.Lock()
        self._model: Model | None = None

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.name!r}>"

    @property
    def name(self) -> str:
        """Return ``scripted:`` and the name of the script."""
        return f"{PROVIDER}:{self._slug}"

    @property
    def capabilities(self) -> Capabilities:
        """Return what the script's API supports."""
        if self._model is not None:
            return self._model.capabilities
        responses = self._script.api == "responses"
        return Capabilities(
            reasoning_summaries=True,
            output_schema=True,
            prompt_cache_key=responses,
            remote_compaction=self._remote_compaction if responses else "none",
            images=True,
            freeform_tools=responses,
            deferred_tools=self._deferred_tools,
        )

    @property
    def format(self) -> WireFormat:
        """Return the format of the script's API."""
        return format_named(self._script.api)

    @property
    def requests(self) -> list[LoopbackRequest]:
        """Return every request so far."""
        return self._server.requests

    @property
    def left(self) -> tuple[Answer, ...]:
        """Return the answers that were not given yet; empty when the script is over."""
        return self._server.left

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Send `request` and yield the events of its answer."""
        model = await self._start_once()
        async with aclosing(model.stream(request)) as batches:
            async for batch in batches:
                yield batch

    async def compact(self, request: ModelRequest) -> list[Item]:
        """Return the items that replace the conversation in `request`."""
        model = await self._start_once()
        assert isinstance(model, RemoteCompaction), "only the Responses API compacts conversations"
        return await model.compact(request)

    async def close(self) -> None:
        """Stop the server and close the connections."""
        async with self._starting:
            model, self._model = self._model, None
            if model is not None:
                await model.close()
                await self._server.__aexit__(None, None, None)

    async def _start_once(self) -> Model:
        async with self._starting:
            if self._model is None:
                # If it were cancelled halfway, it would listen and nobody could stop it.
                await finish_uncancelled(self._start())
            assert self._model is not None
            return self._model

    async def _start(self) -> None:
        await self._server.__aenter__()
        self._model = self._connect()

    def _connect(self) -> Model:
        config = ProviderConfig(
            api=self._script.api,
            base_url=self._server.base_url,
            key_required=False,
            idle_timeout=self._idle_timeout,
            remote_compaction=self._remote_compaction,
            deferred_tools=self._deferred_tools,
        )
        profile = ModelProfile(
            slug=self._slug, provider=PROVIDER, images=True, deferred_tools=self._deferred_tools
        )
        return connect(profile, config, {}, AsyncTransport())


def open_scripted(opening: OpenerContext) -> ScriptedModel:
    """Open the model ``scripted:FILE``, or ``scripted:demo``. Raises `ConfigError`."""
    own = Path(__file__).with_name("demo.toml")
    script = load_script(own if opening.model == DEMO else Path(opening.model).expanduser())
    return ScriptedModel(script, opening.model)
