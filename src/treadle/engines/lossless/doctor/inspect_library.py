"""Read everything that a library and the logs hold, to check or to show it.

Owns looking at ``lossless.db`` from outside, the walk through the logs of a store, and
the figures of each thread. Invariants: a library is read as one snapshot and nothing is
changed, also where nothing can be written; each part of a log is read once, however many
forks share it, without what was rolled back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from ....context.head import named_model
from ....context.view import View, load_view
from ....context.visible import hidden_stretches, outside
from ....core.entries import Entry, Epoch, Flags, Node, Range
from ....core.errors import StoreCorrupt, StoreTooNew
from ....models.catalog import Catalog
from ....prompt.registry import Registry
from ....store.contract import OutboxRow, Span, Store, ThreadInfo
from ....store.database import close_on_error, connect, sqlite_errors
from ...advance import topic_of
from ...call_context import answer_reserve
from ..nodes import SummaryNode
from ..sqlite_file import APPLICATION_ID, VERSION

__all__ = [
    "ENGINE",
    "KnownTurns",
    "LibraryContents",
    "LoggedRecipe",
    "LoggedThread",
    "PendingJob",
    "ThreadStatus",
    "open_library",
    "read_library",
    "read_logs",
    "thread_statuses",
]

ENGINE = "lossless"
"""The engine whose recipes and outbox rows count."""

_PAGE = 1_000
_NOT_CONVERSATION = Flags.CONTEXTUAL | Flags.VOLATILE
_node_decoder = msgspec.msgpack.Decoder(SummaryNode)


class PendingJob(Struct, frozen=True, kw_only=True):
    """A summary that a model still has to write."""

    key: str
    thread: str
    first: int
    last: int
    depth: int
    attempts: int
    error: str | None
    created: int
    """Milliseconds since 1970, like the others."""
    leased: bool
    until: int
    """When its lease runs out."""
    after: int
    """It is not tried before."""


class KnownTurns(Struct, frozen=True):
    """How far the engine knows the turns of a thread."""

    turns: int = 0
    last: int = 0


class LibraryContents(Struct, frozen=True, kw_only=True):
    """Everything that a library holds."""

    nodes: dict[str, SummaryNode] = {}
    jobs: tuple[PendingJob, ...] = ()
    """Oldest first."""
    turns: dict[str, KnownTurns] = {}
    notes: dict[str, int] = {}
    """How many notes each thread has."""
    guided: frozenset[str] = frozenset()
    """Threads whose guidance on recall is pinned."""

    @property
    def threads(self) -> set[str]:
        """Every thread that the library knows something of."""
        of_nodes = {node.thread for node in self.nodes.values()}
        of_jobs = {job.thread for job in self.jobs}
        return of_nodes | of_jobs | self.turns.keys() | self.notes.keys() | self.guided


def read_library(path: Path) -> LibraryContents:
    """Return everything in the file; empty contents where there is none."""
    if not path.exists():
        return LibraryContents()
    with open_library(path) as db:
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            return LibraryContents()
        db.execute("BEGIN")
        nodes = [_node_decoder.decode(row[0]) for row in db.execute("SELECT node FROM nodes")]
        return LibraryContents(
            nodes={node.id: node for node in nodes},
            jobs=tuple(_read_jobs(db)),
            turns={
                thread: KnownTurns(turns, last)
                for thread, turns, last in db.execute(
                    "SELECT thread, count(*), max(last) FROM turns GROUP BY thread"
                )
            },
            notes=dict(db.execute("SELECT thread, count(*) FROM notes GROUP BY thread")),
            guided=frozenset(row[0] for row in db.execute("SELECT DISTINCT thread FROM told")),
        )


@contextmanager
def open_library(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for reading only. Raises `StoreError`."""
    with sqlite_errors(path), closing(_connect_to_read(path)) as db:
        yield db


def _connect_to_read(path: Path) -> sqlite3.Connection:
    try:
        return _connect_and_check(path, "mode=ro")
    except sqlite3.OperationalError:
        # Where the shared memory of a WAL can neither be found nor made, a file without
        # a pending one is complete by itself.
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            raise
        return _connect_and_check(path, "mode=ro&immutable=1")


def _connect_and_check(path: Path, query: str) -> sqlite3.Connection:
    connection = connect(path, query)
    with close_on_error(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if version > VERSION:
            raise StoreTooNew(
                f"{str(path)!r} was written by a newer Treadle; upgrade to look at it"
            )
        if version and application != APPLICATION_ID:
            raise StoreCorrupt(f"{str(path)!r} is no library of summaries; move it away")
    return connection


def _read_jobs(db: sqlite3.Connection) -> Iterator[PendingJob]:
    rows = db.execute(
        "SELECT key, thread, first, last, depth, attempts, error, created, "
        "owner IS NOT NULL, until, after FROM jobs ORDER BY created, first"
    )
    for key, thread, first, last, depth, attempts, error, created, leased, until, after in rows:
        yield PendingJob(
            key=key,
            thread=thread,
            first=first,
            last=last,
            depth=depth,
            attempts=attempts,
            error=error,
            created=created,
            leased=bool(leased),
            until=until,
            after=after,
        )


@dataclass(frozen=True, slots=True)
class LoggedRecipe:
    """A recipe in a log, and the entry that holds it."""

    seq: int
    by: str
    parts: tuple[Range | Node, ...]
    """The parts that stand for entries, in order."""

    @property
    def nodes(self) -> list[Node]:
        """The summaries that it shows."""
        return [part for part in self.parts if isinstance(part, Node)]


@dataclass(frozen=True, slots=True)
class LoggedThread:
    """A thread as its log shows it."""

    info: ThreadInfo
    lineage: tuple[Span, ...]
    hidden: tuple[tuple[int, int], ...]
    recipes: tuple[LoggedRecipe, ...]
    """Every visible recipe, oldest first."""
    conversation: tuple[int, ...]
    """The visible entries that are conversation."""


@dataclass(slots=True)
class _WrittenEntries:
    """What one thread wrote, as far as it was read."""

    upto: int = 0
    recipes: list[LoggedRecipe] = field(default_factory=list)
    conversation: list[int] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Note an entry if it is conversation or has a recipe."""
        if entry.kind == "item" and not entry.flags & _NOT_CONVERSATION:
            self.conversation.append(entry.seq)
        elif entry.kind == "epoch":
            control = entry.control
            if isinstance(control, Epoch) and control.recipe is not None:
                parts = tuple(p for p in control.recipe.parts if isinstance(p, Range | Node))
                self.recipes.append(LoggedRecipe(entry.seq, control.by, parts))


async def read_logs(
    store: Store, progress: Callable[[str], None] = lambda _: None
) -> list[LoggedThread]:
    """Return every thread of a store, as its log shows it."""
    writers: dict[str, _WrittenEntries] = {}
    found: list[LoggedThread] = []
    for info in await store.threads():
        progress(f"reading {info.id}")
        lineage = await store.lineage(info.id) if info.last else []
        hidden = await hidden_stretches(store, info.id)
        for span in lineage:
            written = writers.setdefault(span.thread, _WrittenEntries())
            await _read_span(store, info.id, span, written)
        found.append(_logged_thread(info, lineage, hidden, writers))
    return found


async def _read_span(store: Store, thread: str, span: Span, written: _WrittenEntries) -> None:
    """Read what a thread wrote up to the end of `span`, where it was not read before."""
    first = max(span.first, written.upto + 1)
    while first <= span.last:
        last = min(first + _PAGE - 1, span.last)
        for entry in await store.read(thread, first, last):
            written.add(entry)
        first = last + 1
    written.upto = max(written.upto, span.last)


def _logged_thread(
    info: ThreadInfo,
    lineage: list[Span],
    hidden: list[tuple[int, int]],
    writers: dict[str, _WrittenEntries],
) -> LoggedThread:
    recipes: list[LoggedRecipe] = []
    conversation: list[int] = []
    for span in lineage:
        written = writers[span.thread]
        for first, last in outside([(span.first, span.last)], hidden):
            recipes += [one for one in written.recipes if first <= one.seq <= last]
            conversation += [seq for seq in written.conversation if first <= seq <= last]
    return LoggedThread(info, tuple(lineage), tuple(hidden), tuple(recipes), tuple(conversation))


class ThreadStatus(Struct, frozen=True, kw_only=True):
    """How far the engine is with one thread; the log and the library side by side."""

    thread: str
    title: str
    turns_in_log: int
    turns_known: int
    """Turns that reached the engine; of a fork only its own."""
    turns_waiting: int
    """Turns that are over and have not reached it yet."""
    last_in_log: int
    last_known: int
    """The newest entry that reached it."""
    summaries: int
    degraded: int
    notes: int
    jobs: tuple[PendingJob, ...] = msgspec.field(name="debts")
    shown: int
    """Summaries in the view."""
    view_tokens: int
    budget: int | None
    """Tokens that the view's conversation may take; None where no model is known."""
    model: str | None


async def thread_statuses(
    store: Store,
    contents: LibraryContents,
    catalog: Catalog,
    registry: Registry,
    *,
    thread: str | None = None,
) -> list[ThreadStatus]:
    """Return the status of one thread, or of every one that the engine knows or that waits."""
    rows = await store.outbox(topic=topic_of(ENGINE))
    known = contents.threads | {row.thread for row in rows} if thread is None else {thread}
    return [
        _thread_status(info, await load_view(store, info.id, registry), contents, catalog, rows)
        for info in await store.threads()
        if info.id in known
    ]


def _thread_status(
    info: ThreadInfo,
    view: View,
    contents: LibraryContents,
    catalog: Catalog,
    waiting: Sequence[OutboxRow],
) -> ThreadStatus:
    own = [node for node in contents.nodes.values() if node.thread == info.id]
    known = contents.turns.get(info.id)
    model = None if view.head is None else named_model(view.head)
    tokens = sum(row.tokens for row in view.rows if not row.contextual)
    return ThreadStatus(
        thread=info.id,
        title=info.title,
        turns_in_log=info.turns,
        turns_known=known.turns if known else 0,
        turns_waiting=sum(row.thread == info.id and row.state != "admitted" for row in waiting),
        last_in_log=info.last,
        last_known=known.last if known else 0,
        summaries=len(own),
        degraded=sum(node.degraded for node in own),
        notes=contents.notes.get(info.id, 0),
        jobs=tuple(job for job in contents.jobs if job.thread == info.id),
        shown=sum(row.node is not None for row in view.rows),
        view_tokens=tokens,
        budget=_budget(catalog, model, view.tokens - tokens),
        model=model,
    )


def _budget(catalog: Catalog, model: str | None, around: int) -> int | None:
    """Return what is left of a model's window for the conversation."""
    window = None if model is None else catalog.profile(model).effective_window
    return None if window is None else max(1, window - answer_reserve(window) - around)
