"""The model contract: a model answers a request with a stream of events.

Owns the `Model` and `WireFormat` Protocols, what a model can do, and how it fails.
Invariants: a model knows one wire format and nothing of logs, views or tools, and sends
nothing again after a part of an answer was handed out; a format never changes what it wrote,
so that the bytes of one request start the next.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Literal, Protocol, Self, TypeAlias, runtime_checkable

from msgspec import Struct, field

from ..core.entries import Head
from ..core.errors import TreadleError
from ..core.found_text import FoundDefinition
from ..core.items import Item
from ..core.stream import HeaderSignal, StreamEvent

__all__ = [
    "AuthFailed",
    "Capabilities",
    "Connected",
    "ContextOverflow",
    "DefersTools",
    "DescribesModel",
    "HeadPart",
    "InvalidRequest",
    "ItemWriter",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "RateLimited",
    "RemoteCompaction",
    "StreamCut",
    "WireFormat",
]

HeadPart: TypeAlias = Literal["params", "tools", "instructions"]


class WireFormat(Protocol):
    """Writes request bodies for one kind of API."""

    @property
    def name(self) -> str:
        """The `api` of heads and origins: ``responses``, ``chat`` or ``messages``."""
        ...

    def head_parts(self, head: Head, cache_key: str) -> Iterator[tuple[HeadPart, bytes]]:
        """Return the body up to the first item: always the three parts, in this order."""
        ...

    def writer(self, head: Head) -> ItemWriter:
        """Return a writer for the items that follow."""
        ...

    def with_cache_marks(self, body: bytes, ends: tuple[int, ...], head: Head) -> bytes:
        """Return `body` with a cache mark behind the blocks that end at these offsets.

        Where `head` names a model without such marks it is unchanged. Marks are not part of
        the prefix.
        """
        ...


@runtime_checkable
class DefersTools(Protocol):
    """A format whose API keeps the definitions of tools that a search found outside the prefix."""

    def with_found_tools(
        self, body: bytes, ends: tuple[int, ...], found: Sequence[FoundDefinition]
    ) -> bytes:
        """Return `body` with these definitions; `ends` says where its parts end."""
        ...


class ItemWriter(Protocol):
    """Writes the items of one body, in order."""

    def write(self, item: bytes) -> bytes:
        """Return the bytes that an encoded item adds; empty if the format cannot express it."""
        ...

    def closing(self) -> bytes:
        """Return what would end the body now. Does not change the writer."""
        ...

    def copy(self) -> Self:
        """Return an independent writer that continues from here."""
        ...


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a model's endpoint takes; a request of ours has nothing else."""

    reasoning_summaries: bool = False
    output_schema: bool = False
    """Without it a turn with a schema is refused before it begins."""
    prompt_cache_key: bool = False
    remote_compaction: Literal["none", "endpoint", "trigger"] = "none"
    caches_prefixes: bool = True
    """Whether a request that extends the one before is cheaper."""
    images: bool = False
    freeform_tools: bool = False
    """Without it `apply_patch` is offered as a function, and other freeform tools are not."""
    parallel_tool_calls: bool = True
    deferred_tools: bool = False
    """Whether the provider has a form of its own for tools that a search finds."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request: the exact bytes to send, and what they were made from."""

    head: Head
    body: bytes
    thread: str = ""
    turn: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


class Connected(Struct, frozen=True):
    """The provider has begun to answer; the first event of every stream.

    `request_id` names the exchange in the provider's own logs. `turn_state` goes back,
    as the header ``x-codex-turn-state``, with the other requests of the same turn.
    """

    request_id: str = ""
    turn_state: str = ""


ModelEvent: TypeAlias = Connected | HeaderSignal | StreamEvent
"""Anything a model's stream can hold."""


class Model(Protocol):
    """An endpoint that answers requests.

    `stream` yields batches of events, never empty, as many as arrived together: first
    `Connected` and the signals in the headers, then the answer. It ends after a `Completed`;
    every other end raises a `ModelError`. Items that were complete before the error have
    already been yielded and stay valid. Cancelling the iteration, or closing the iterator,
    closes the connection. Connections are kept open between requests until `close`.
    """

    @property
    def name(self) -> str:
        """``provider:model``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the endpoint supports."""
        ...

    @property
    def format(self) -> WireFormat:
        """The format in which requests to it are written."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Send `request` and yield the events of the answer."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class DescribesModel(Protocol):
    """A model that knows facts about itself, such as its window and its efforts."""

    @property
    def metadata(self) -> Mapping[str, object]:
        """Fields of `ModelProfile` by name. The user's catalog file wins over them."""
        ...


@runtime_checkable
class RemoteCompaction(Protocol):
    """A model whose provider can compact a conversation itself."""

    async def compact(self, request: ModelRequest) -> list[Item]:
        """Return the items that replace the conversation in `request`."""
        ...


class ModelError(TreadleError):
    """A request failed.

    `retryable` shows whether the same request may succeed later, `retry_after` after how many
    seconds at the earliest. Texts never contain credentials.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        code: str = "",
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.code = code
        self.request_id = request_id


class ContextOverflow(ModelError):
    """The request is larger than the model's window."""


class RateLimited(ModelError):
    """Too many requests or tokens; see `retry_after`."""


class AuthFailed(ModelError):
    """The credentials are missing, wrong or used up."""


class InvalidRequest(ModelError):
    """The provider refuses the request as it is."""


class StreamCut(ModelError):
    """The answer ended before it was complete; the items handed out so far are whole."""
