"""Renewing: a connection whose credential may end while it is used.

Owns when a request is sent again because its credential was refused. Invariants: each
request is sent with a credential that is good as far as anyone knows, and one that was
refused is sent again once, with another credential, and only if nothing of an answer
was handed out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec import field

from ...core.items import Item
from ...core.service import Service, later
from ...models.contract import (
    AuthFailed,
    Capabilities,
    Model,
    ModelEvent,
    ModelRequest,
    RemoteCompaction,
)
from ...models.format import WireFormat
from ..failures import UNUSABLE
from .errors import AuthError

__all__ = ["Bearers", "Renewing"]

_UNAUTHORIZED = 401


class Bearers(Protocol):
    """Where the bearers of one profile come from."""

    async def __call__(self, *, rejected: str = "") -> str:
        """What to send the next request with. Raises `AuthError`."""
        ...


class Renewing(Service):
    """A model that is opened anew where its credential is another one."""

    bearers: Bearers
    opened: Callable[[str], Model]
    """The model with a bearer; without one it only tells what it can do."""
    bearer: str = ""
    _model: Model = later()
    _older: list[Model] = field(default_factory=list)
    """Those before; others may still listen to what they answer."""

    def __post_init__(self) -> None:
        self._model = self.opened(self.bearer)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        """What its endpoint understands."""
        return self._model.capabilities

    @property
    def format(self) -> WireFormat:
        """How requests to it are written."""
        return self._model.format

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Send `request`, at most twice, and hand out what comes back."""
        model, bearer = await self._ready()
        begun = refused = False
        try:
            async with aclosing(model.stream(request)) as batches:
                async for batch in batches:
                    begun = True
                    yield batch
        except AuthFailed as error:
            refused = not begun and await self._renewed(error, bearer)
            if not refused:
                raise
        if refused:
            async with aclosing(self._model.stream(request)) as batches:
                async for batch in batches:
                    yield batch

    async def compact(self, request: ModelRequest) -> list[Item]:
        """The items that stand for the conversation; where the capabilities say so."""
        model, bearer = await self._ready()
        try:
            return await _folding(model).compact(request)
        except AuthFailed as error:
            if not await self._renewed(error, bearer):
                raise
        return await _folding(self._model).compact(request)

    async def close(self) -> None:
        """Let go of connections."""
        older, self._older = self._older, []
        for model in (*older, self._model):
            await model.close()

    async def _ready(self) -> tuple[Model, str]:
        """The model with a bearer that is good for a request. Raises `AuthFailed`."""
        try:
            self._use(await self.bearers())
        except AuthError as error:
            raise AuthFailed(str(error), code=UNUSABLE) from error
        return self._model, self.bearer

    async def _renewed(self, error: AuthFailed, refused: str) -> bool:
        """Whether there is another bearer than the one that was refused."""
        if error.status != _UNAUTHORIZED:
            return False
        try:
            bearer = await self.bearers(rejected=refused)
        except AuthError:
            return False
        self._use(bearer)
        return bearer != refused

    def _use(self, bearer: str) -> None:
        if bearer != self.bearer:
            self._older.append(self._model)
            self._model, self.bearer = self.opened(bearer), bearer


def _folding(model: Model) -> RemoteCompaction:
    assert isinstance(model, RemoteCompaction), "its capabilities say that it can"
    return model
