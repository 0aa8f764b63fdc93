"""A model whose credential may expire while it is used.

Owns when a request is sent again because its credential was refused. Invariants: each
request is sent with a credential that is valid as far as we know; a refused request is sent
again once, with another credential, and only if no part of an answer was handed out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

from ...core.items import Item
from ...models.contract import (
    AuthFailed,
    Capabilities,
    DescribesModel,
    Model,
    ModelEvent,
    ModelRequest,
    RemoteCompaction,
    WireFormat,
)
from ..failures import UNUSABLE
from .credential import AuthError

__all__ = ["BearerSource", "RefreshingModel"]

_UNAUTHORIZED = 401


class BearerSource(Protocol):
    """Gives the bearers of one profile."""

    async def __call__(self, *, rejected: str = "") -> str:
        """Return the bearer for the next request. Raises `AuthError`."""
        ...


class RefreshingModel:
    """A model that is opened again whenever its credential is another one.

    `open_with` opens the model with a bearer; without one it only tells its capabilities.
    """

    def __init__(self, bearers: BearerSource, open_with: Callable[[str], Model]) -> None:
        self._bearers = bearers
        self._open_with = open_with
        self._bearer = ""
        self._model = open_with("")
        self._older: list[Model] = []
        """The models before; others may still read their answers."""

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        """What its endpoint understands."""
        return self._model.capabilities

    @property
    def metadata(self) -> Mapping[str, object]:
        """What the model says of itself, if it does."""
        model = self._model
        return model.metadata if isinstance(model, DescribesModel) else {}

    @property
    def format(self) -> WireFormat:
        """The wire format of its requests."""
        return self._model.format

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Send `request`, at most twice, and yield the events of the answer."""
        model, bearer = await self._prepare()
        has_begun = again = False
        try:
            async with aclosing(model.stream(request)) as batches:
                async for batch in batches:
                    has_begun = True
                    yield batch
        except AuthFailed as error:
            again = not has_begun and await self._renew(error, bearer)
            if not again:
                raise
        if again:
            async with aclosing(self._model.stream(request)) as batches:
                async for batch in batches:
                    yield batch

    async def compact(self, request: ModelRequest) -> list[Item]:
        """Return the items that replace the conversation; where the capabilities say so."""
        model, bearer = await self._prepare()
        try:
            return await _compacting(model).compact(request)
        except AuthFailed as error:
            if not await self._renew(error, bearer):
                raise
        return await _compacting(self._model).compact(request)

    async def close(self) -> None:
        """Close all connections."""
        older, self._older = self._older, []
        for model in (*older, self._model):
            await model.close()

    async def _prepare(self) -> tuple[Model, str]:
        """Return the model and the valid bearer it was opened with. Raises `AuthFailed`."""
        try:
            self._use(await self._bearers())
        except AuthError as error:
            raise AuthFailed(str(error), code=UNUSABLE) from error
        return self._model, self._bearer

    async def _renew(self, error: AuthFailed, refused: str) -> bool:
        """Get a new bearer; return whether it is another one than the one that was refused."""
        if error.status != _UNAUTHORIZED:
            return False
        try:
            bearer = await self._bearers(rejected=refused)
        except AuthError:
            return False
        self._use(bearer)
        return bearer != refused

    def _use(self, bearer: str) -> None:
        if bearer != self._bearer:
            self._older.append(self._model)
            self._model, self._bearer = self._open_with(bearer), bearer


def _compacting(model: Model) -> RemoteCompaction:
    assert isinstance(model, RemoteCompaction), "its capabilities say that it can"
    return model
