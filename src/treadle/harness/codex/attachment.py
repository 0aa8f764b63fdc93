"""Attachments: the Codex threads that show our views now.

Owns what a living Codex thread knows, who answers what it asks, and how a view reaches
it. Invariant: rows go over once, in the order of the log, and a thread counts as knowing
them only after Codex has taken them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from ...context.row import Row, shape_of
from ...core.items import InputImage, Message, Part, text_of
from ...log.journal import Journal
from ..contract import TurnRun
from .binding import Binding, bound
from .connection import Connection
from .errors import ProtocolError
from .mirror import Mirror
from .protocol.asks import Answer, Ask
from .protocol.requests import ImageInput, TextInput, ThreadInject, UserInput
from .rollout import size_of
from .shown import RowKey, carried, items_of, keys, typed
from .subscription import Subscription
from .text.projection import fit, project_text

__all__ = ["Attachment", "Carried", "as_text", "is_input", "previewed"]

_CALLS = ("_call", "_output")


@dataclass(frozen=True, slots=True)
class Carried:
    """What a turn is started with, once the rest has been carried over."""

    typed: tuple[UserInput, ...]
    items: int
    """How many items were injected, or told as text."""


@dataclass(slots=True, eq=False)
class Attachment:
    """A Codex thread that this process has started."""

    binding: Binding
    connection: Connection
    mirror: Mirror
    subscription: Subscription = field(init=False)
    known: list[RowKey] = field(default_factory=list)
    """The rows that the thread shows, or need not."""
    offset: int = 0
    """How long its rollout was when the newest turn began."""
    bearer: str = field(default="", repr=False)
    """What its newest turn was paid with, if that is ours to renew."""
    spent: str = ""
    """Why it cannot be used again, if so."""
    answers: Callable[[Ask], Awaitable[Answer]] | None = None
    """Who answers what it asks; None between turns."""

    async def answer(self, ask: Ask) -> Answer:
        """Answer what Codex asks."""
        if self.answers is None:
            raise ProtocolError("the Codex app-server asked something outside a turn")
        return await self.answers(ask)

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        return self.connection.ended is None

    def shows(self, rows: Sequence[Row]) -> bool:
        """Whether `rows` begin with what the thread knows, and go on with words alone.

        Calls and outputs come from Codex; where the log has others, the thread missed them.
        """
        count = len(self.known)
        behind = rows[count:]
        return keys(rows[:count]) == self.known and not any(
            row.shape.type.endswith(_CALLS) for row in behind
        )

    def pending(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows that the thread does not know yet."""
        return rows[len(self.known) :]

    async def carry(self, run: TurnRun, *, fresh: bool, budget: int | None) -> Carried:
        """Bring the thread up to the view; what is left is to be typed."""
        journal = run.journal
        rows = journal.view.rows
        pending = self.pending(rows)
        if self.binding.mode == "text":
            return as_text(pending, journal, fresh=fresh, budget=budget)
        given = await self._inject(run, pending, fresh=fresh)
        self.know(rows[:-1] if given.typed else rows)
        return given

    def know(self, rows: Sequence[Row]) -> None:
        """Whatever the view shows now, the thread knows."""
        self.known = keys(rows)

    def input_at(self, journal: Journal) -> int:
        """Where the input of the present turn stands in the view."""
        rows = journal.view.rows
        inputs = (at for at, row in enumerate(rows) if is_input(row, journal.turn))
        return max(inputs, default=len(rows))

    async def begin(self, journal: Journal) -> None:
        """A turn begins: what the rollout holds from here on belongs to it."""
        self.offset = await asyncio.to_thread(size_of, self.binding.path)
        await self.rebound(journal)

    async def rebound(self, journal: Journal) -> None:
        """Keep where the thread stands, for whoever comes after a crash."""
        self.binding = msgspec.structs.replace(
            self.binding, base=journal.view.base, turn=journal.turn, offset=self.offset
        )
        await journal.queue(bound(self.binding))

    async def _inject(self, run: TurnRun, rows: Sequence[Row], *, fresh: bool) -> Carried:
        journal = run.journal
        last = rows[-1] if rows and is_input(rows[-1], journal.turn) else None
        parts = typed(last) if last is not None else None
        shown = carried(rows[:-1] if parts else rows, journal.registry, fresh=fresh)
        head = journal.view.head
        assert head is not None, "an admitted turn has a head"
        items = items_of(shown, head, journal.id)
        if items:
            await self.connection.call(ThreadInject(thread_id=self.binding.codex, items=items))
            self.mirror.seen.update(filter(None, (shape_of(item).id for item in items)))
        return Carried(parts or (), len(items))

    def bare(self, run: TurnRun) -> Carried:
        """The input alone."""
        journal = run.journal
        self.know(journal.view.rows)
        inputs = [row for row in journal.view.rows if is_input(row, journal.turn)]
        return Carried((typed(inputs[-1]) if inputs else None) or (), 0)


def previewed(rows: Sequence[Row], request: str, journal: Journal) -> str:
    """What `rows` and a request would be told as, as text."""
    shown = carried(rows, journal.registry, fresh=True)
    budget = journal.profile.effective_window
    return fit(project_text(shown, request, budget=budget, mode="preserve"))


def as_text(rows: Sequence[Row], journal: Journal, *, fresh: bool, budget: int | None) -> Carried:
    """`rows` quoted before the request among them, what hooks added behind it."""
    inputs = [at for at, row in enumerate(rows) if is_input(row, journal.turn)]
    at = inputs[-1] if inputs else len(rows)
    after = rows[at + 1 :]
    behind = [row for row in after if row.contextual]
    quoted = [*rows[:at], *(row for row in after if not row.contextual)]
    content = _content(rows[at]) if inputs else ()
    projected = project_text(
        carried(quoted, journal.registry, fresh=fresh),
        text_of(content),
        budget=budget,
        # A new thread knows nothing else of what was done.
        mode="preserve" if fresh else "elide",
    )
    text = fit(projected, appended="\n\n".join(text_of(_content(row)) for row in behind))
    images = [part for part in (*projected.images, *content) if isinstance(part, InputImage)]
    told = tuple(ImageInput(url=part.image_url, detail=part.detail) for part in images)
    return Carried((TextInput(text=text), *told), projected.carried)


def _content(row: Row) -> tuple[Part, ...]:
    item = row.item
    return item.content if isinstance(item, Message) else ()


def is_input(row: Row, turn: int) -> bool:
    """Whether `row` is what someone said in `turn`."""
    return row.turn == turn and row.shape.role == "user" and not row.contextual
