"""The contract of stores and indexes.

Owns the `Store` and `Index` Protocols and their values. Invariants of every store:
`commit` returns only when its change is durable, applies it whole or not at all,
and refuses a writer whose lease was replaced; what is stored holds no known secret, and
what is returned is what was stored. `treadle.testing.contracts` holds the
suite that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ..core.entries import Draft, Entry, Kind
from ..core.provenance import InputProvenance, InternalEvent
from ..core.usage import TokenUsage
from ..core.wire import Json
from .search.query import Hit, HitReasons, Hits, Search, SearchMode

__all__ = [
    "ENDED_STATES",
    "THIS_TURN",
    "Admission",
    "Change",
    "ChangeResult",
    "FindsKinds",
    "Hit",
    "HitReasons",
    "Hits",
    "Holder",
    "InboxDraft",
    "InboxMessage",
    "Index",
    "Lease",
    "LedgerRow",
    "MeasuresThreads",
    "OutboxDraft",
    "OutboxRow",
    "OutboxState",
    "PastTurn",
    "Progress",
    "Search",
    "SearchMode",
    "Segment",
    "SegmentKind",
    "Span",
    "Store",
    "ThreadInfo",
    "Turn",
    "TurnEnd",
    "TurnState",
]

TurnState: TypeAlias = Literal["admitted", "running", "completed", "failed", "aborted"]
ENDED_STATES: frozenset[TurnState] = frozenset({"completed", "failed", "aborted"})
"""The states that a turn never leaves."""
OutboxState: TypeAlias = Literal["admitted", "accepted", "ready", "blocked"]


class ThreadInfo(Struct, frozen=True, kw_only=True):
    """A thread, without its entries."""

    id: str
    root: str
    """The first thread of its family; forks share its prompt cache key."""
    parent: str | None = None
    cut: int = 0
    """The last entry shared with `parent`; 0 for a thread of its own."""
    cwd: str = ""
    title: str = ""
    created: int
    updated: int
    last: int = 0
    """The newest sequence number, the shared prefix included."""
    turns: int = 0
    """The newest turn's number, the shared prefix included."""


class Span(Struct, frozen=True):
    """The entries `first` to `last` of a log, and the thread that wrote them."""

    thread: str
    first: int
    last: int


class Turn(Struct, frozen=True, kw_only=True):
    """One admitted input and how its turn went."""

    id: str
    number: int
    input: Json
    state: TurnState
    admitted: int
    first: int = 0
    """Where its entries begin: the newest entry's successor when it was admitted."""
    ended: int | None = None
    outcome: Json | None = None
    usage: TokenUsage | None = None


class Holder(Struct, frozen=True, kw_only=True):
    """Who writes a thread."""

    pid: int
    host: str
    command: str
    since: int
    address: str = ""
    """Where its live events can be read; empty where nobody serves them."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.command})"


class Lease(Protocol):
    """The right to write one thread, until `release` or the end of the process."""

    thread: str
    fence: int

    async def release(self) -> None:
        """Release the thread. Harmless when called twice."""
        ...


class Admission(Struct, frozen=True, kw_only=True):
    """A turn to admit. The same id with the same input is admitted once.

    Only the newest turn of a thread is ever open: the transaction that admits one ends, as
    ``aborted``, those before it that nobody ended.
    """

    id: str
    input: Json


class TurnEnd(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    number: int
    state: TurnState
    outcome: Json | None = None
    usage: TokenUsage | None = None


class PastTurn(Struct, frozen=True, kw_only=True):
    """A turn that happened elsewhere, from its input to its end."""

    id: str
    input: Json
    entries: tuple[Draft, ...]
    state: TurnState = "completed"


class InboxDraft(Struct, frozen=True, kw_only=True):
    """A message for a thread that another process may be writing. The same key is kept once."""

    key: str
    kind: str
    body: Json
    provenance: InputProvenance | None = None
    events: tuple[InternalEvent, ...] = ()


class InboxMessage(InboxDraft, frozen=True, kw_only=True):
    """A posted message that waits to be taken."""

    number: int
    thread: str
    time: int


class OutboxDraft(Struct, frozen=True, kw_only=True):
    """Work to do after a change, at least once. The same topic and key are kept once."""

    topic: str
    key: str
    body: Json
    state: OutboxState = "admitted"


class OutboxRow(OutboxDraft, frozen=True, kw_only=True):
    """Work that waits."""

    number: int
    thread: str
    attempts: int = 0
    error: str | None = None
    created: int
    updated: int


RowName: TypeAlias = tuple[str, str]
"""The topic and the key of an outbox row."""


class Change(Struct, frozen=True, kw_only=True):
    """All that one transaction does to a thread.

    Entries whose `turn` is `THIS_TURN` belong to the turn this change admits. An entry
    with a time of its own keeps it, as long as it is neither before its
    predecessor's nor ahead of the clock; else it gets the nearer of the two.
    """

    admit: Admission | None = None
    entries: tuple[Draft, ...] = ()
    past: tuple[PastTurn, ...] = ()
    """Turns that happened elsewhere; they follow `entries`, and are not part of `ChangeResult`."""
    end: TurnEnd | None = None
    take: tuple[int, ...] = ()
    """Inbox messages that these entries answer; they leave the inbox."""
    outbox: tuple[OutboxDraft, ...] = ()
    """Rows to add; a row that exists under its topic and key gets the new state and body."""
    settle: tuple[int, ...] = ()
    """Outbox rows that are done; they leave the outbox."""
    done: tuple[RowName, ...] = ()
    """The same by their names, for whoever left them and never read them; they leave first."""
    title: str | None = None
    unless_input: bool = False
    """Nothing of it is written where a message of the kind ``input`` waits in the inbox."""
    light: bool = False
    """It survives this process at once, and a loss of power after the next change or a moment."""


THIS_TURN = -1
"""Stands for the number of the turn that a change admits."""


class ChangeResult(Struct, frozen=True):
    """The result of a commit.

    `turn` is the admitted turn. With `repeated`, that turn had been admitted before
    and the change was not applied again; it is open only if it is the thread's newest.
    `mail` says whether messages wait in the inbox, and `held_back` that nothing was written
    because an input does.
    """

    entries: tuple[Entry, ...] = ()
    turn: Turn | None = None
    repeated: bool = False
    mail: bool = False
    held_back: bool = False


class Store(Protocol):
    """Durable threads. Safe to use from many tasks; any number of processes may read.

    Every method may raise `StoreError`; those that name a thread raise `NotFound`
    for one that does not exist or was deleted.
    """

    async def create(self, *, cwd: str = "", title: str = "") -> ThreadInfo:
        """Create an empty thread."""
        ...

    async def fork(self, thread: str, cut: int, *, title: str = "") -> ThreadInfo:
        """Create a thread that shares the entries up to `cut` without copying them.

        Sequence and turn numbers go on from there. A turn that is open is its parent's to
        go on with: in the fork it is ``aborted``. Raises `IllegalCut` when `cut` lies
        outside the log.
        """
        ...

    async def delete(self, thread: str) -> None:
        """Delete a thread. What its forks share stays until the last of them is deleted.

        Raises `ThreadBusy` while someone writes it.
        """
        ...

    async def info(self, thread: str) -> ThreadInfo:
        """Return one thread."""
        ...

    async def threads(self, *, limit: int | None = None) -> list[ThreadInfo]:
        """Return all threads, the most recently written first."""
        ...

    async def acquire(self, thread: str) -> Lease:
        """Acquire the lease for writing `thread`. Raises `ThreadBusy` with its holder."""
        ...

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        """Apply `change` atomically and durably.

        Raises `LeaseLost` when a newer lease exists, `TurnConflict` when the turn
        id was admitted with another input or a past turn's id is taken, `NotFound` when
        it takes a message that no longer waits or ends a turn that this thread did not
        admit. After any error nothing was written. A caller that is cancelled while it waits cannot
        know whether the change landed; it landed whole or not at all.
        """
        ...

    async def read(
        self,
        thread: str,
        first: int = 1,
        last: int | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return the entries from `first` to `last` (both included), with the shared prefix.

        A shared entry is the same value in every fork: it names the thread that wrote it.
        With `reverse` the newest come first; `limit` cuts what comes first.
        """
        ...

    async def read_ranges(self, thread: str, ranges: Sequence[tuple[int, int]]) -> list[Entry]:
        """Return the entries of several ranges in the order given, from one snapshot."""
        ...

    async def rollbacks(self, thread: str) -> list[tuple[int, int]]:
        """Return every rollback of a log, oldest first, and the first entry that each hides."""
        ...

    async def lineage(self, thread: str) -> list[Span]:
        """Return who wrote the entries of a log, oldest first; one span for a root thread.

        An ancestor appears here also after it was deleted, for what is still shared.
        """
        ...

    async def turn(self, thread: str, number: int) -> Turn:
        """Return one turn by its number."""
        ...

    async def turns(self, thread: str, *, limit: int | None = None) -> list[Turn]:
        """Return the turns of a thread, oldest first; with `limit` only the newest."""
        ...

    async def put_blob(self, thread: str, data: bytes) -> str:
        """Store `data` for `thread` and return its digest (``sha256:`` and hex).

        The bytes are stored as they are: whoever has text in them blanks known secrets first.
        """
        ...

    async def blob(self, digest: str) -> bytes:
        """Return the bytes under `digest`."""
        ...

    async def blobs(self, digests: Sequence[str]) -> list[bytes]:
        """Return the bytes under several digests in the order given, from one snapshot."""
        ...

    async def post(self, thread: str, message: InboxDraft) -> InboxMessage:
        """Send a message to the thread's writer. Needs no lease.

        A key that was posted before gives the first message, also when it was taken.
        """
        ...

    async def inbox(self, thread: str) -> list[InboxMessage]:
        """Return the messages that wait, oldest first."""
        ...

    async def outbox(
        self, *, thread: str | None = None, topic: str | None = None
    ) -> list[OutboxRow]:
        """Return the rows that wait, oldest first."""
        ...

    async def retry(self, row: int, error: str) -> None:
        """Count a failed attempt at an outbox row."""
        ...

    async def close(self) -> None:
        """Finish accepted changes, then close the files."""
        ...


@runtime_checkable
class MeasuresThreads(Protocol):
    """A store that knows how much its threads take."""

    async def sizes(self, threads: Sequence[str]) -> dict[str, int]:
        """Return the bytes of entries and blobs of each thread, without what it shares."""
        ...


@runtime_checkable
class FindsKinds(Protocol):
    """A store that finds entries by their kind, without reading the bodies of others."""

    async def read_kinds(
        self, thread: str, kinds: Collection[Kind], first: int, *, limit: int
    ) -> list[Entry]:
        """Return the first entries of these kinds from `first` on, with the shared prefix."""
        ...


Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of entries done, and of all entries."""

SegmentKind: TypeAlias = Literal["params", "tools", "instructions", "item"]


class Segment(Struct, frozen=True, gc=False):
    """One piece of a request. `digest` covers this piece and all before it."""

    position: int
    kind: SegmentKind
    size: int
    digest: str
    seq: int | None = None
    """The entry an item came from; None for the head and for inline items."""


class LedgerRow(Struct, frozen=True, kw_only=True):
    """One request as the ledger knows it."""

    thread: str
    number: int
    """Counts the thread's requests from 1."""
    seq: int
    """The log's `request` entry."""
    turn: int
    step: int
    time: int
    epoch: int
    segments: int
    size: int
    digest: str
    shared_segments: int
    shared_size: int
    reason: str | None = None
    """Why the prefix of the request before did not hold; None when it did."""
    difference: str | None = None
    """A description of the first segment that differs."""
    unexplained: bool = False
    """The prefix changed and no entry of the log gives a reason: a defect."""
    input_tokens: int | None = None
    cached_tokens: int | None = None


class Index(Protocol):
    """What can be rebuilt from the log: the ledger and full-text search.

    Losing it loses nothing. Writes need not be durable, nor done when their call returns;
    but every later query sees them.
    """

    async def record(self, row: LedgerRow, segments: Sequence[Segment]) -> None:
        """Record one request; `segments` are those from `row.shared_segments` on."""
        ...

    async def record_usage(self, thread: str, seq: int, usage: TokenUsage) -> None:
        """Record what the provider reported of the request at `seq`."""
        ...

    async def rows(self, thread: str) -> list[LedgerRow]:
        """Return the requests of a thread, oldest first."""
        ...

    async def newest_row(self, thread: str) -> LedgerRow | None:
        """Return the newest request of a thread."""
        ...

    async def newest_request(self, thread: str) -> tuple[LedgerRow, list[Segment]] | None:
        """Return the newest request of a thread with all of its segments."""
        ...

    async def search(
        self,
        query: Search | str,
        *,
        thread: str | None = None,
        limit: int = 20,
        catch_up: bool = True,
    ) -> Hits:
        """Find the entries that `query` asks for, in the order of its mode.

        A text is a search for words, in `thread` and up to `limit`. What is new is
        indexed first, within bounds; without `catch_up` not even looked for. Raises
        `SearchRefused` for a regular expression that cannot be searched for, and
        `NotFound` for a thread that does not exist.
        """
        ...

    async def catch_up(
        self, threads: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> None:
        """Index all that is new in these threads, or everywhere."""
        ...

    async def forget(self, thread: str | None = None) -> None:
        """Delete what is known of a thread, or everything."""
        ...

    async def close(self) -> None:
        """Close the file."""
        ...
