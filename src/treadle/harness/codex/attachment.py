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
from ...log.thread_log import ThreadLog
from ..contract import TurnRun
from .binding import Binding, binding_draft
from .connection import AppServerConnection
from .errors import CodexProtocolError
from .mirror import Mirror
from .protocol.asks import ClientReply, ServerRequest
from .protocol.requests import ImageInput, TextInput, ThreadInject, UserInput
from .rollout import rollout_size
from .shown import RowKey, history_items, row_keys, rows_to_send, typed_row
from .subscription import Subscription
from .text.projection import fit_text, project_text

__all__ = ["CodexThread", "TypedInput", "is_input", "preview_text", "text_input"]

_CALLS = ("_call", "_output")


@dataclass(frozen=True, slots=True)
class TypedInput:
    """What a turn is started with, once the rest has been carried over."""

    parts: tuple[UserInput, ...]
    sent_rows: int
    """How many items were injected, or told as text."""


@dataclass(slots=True, eq=False)
class CodexThread:
    """A Codex thread that this process has started."""

    binding: Binding
    connection: AppServerConnection
    mirror: Mirror
    subscription: Subscription = field(init=False)
    known_rows: list[RowKey] = field(default_factory=list)
    """The rows that the thread shows, or need not."""
    offset: int = 0
    """How long its rollout was when the newest turn began."""
    bearer: str = field(default="", repr=False)
    """What its newest turn was paid with, if that is ours to renew."""
    replace_reason: str = ""
    """Why it cannot be used again, if so."""
    handler: Callable[[ServerRequest], Awaitable[ClientReply]] | None = None
    """Who answers what it asks; None between turns."""

    async def handle_request(self, ask: ServerRequest) -> ClientReply:
        """Answer what Codex asks."""
        if self.handler is None:
            raise CodexProtocolError("the Codex app-server asked something outside a turn")
        return await self.handler(ask)

    @property
    def is_alive(self) -> bool:
        """Whether its process still runs."""
        return self.connection.ended is None

    def can_show(self, rows: Sequence[Row]) -> bool:
        """Whether `rows` begin with what the thread knows, and go on with words alone.

        Calls and outputs come from Codex; where the log has others, the thread missed them.
        """
        count = len(self.known_rows)
        behind = rows[count:]
        return row_keys(rows[:count]) == self.known_rows and not any(
            row.shape.type.endswith(_CALLS) for row in behind
        )

    def pending_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows that the thread does not know yet."""
        return rows[len(self.known_rows) :]

    async def project_view(self, run: TurnRun, *, fresh: bool, budget: int | None) -> TypedInput:
        """Bring the thread up to the view; what is left is to be typed."""
        log = run.log
        rows = log.view.rows
        pending = self.pending_rows(rows)
        if self.binding.mode == "text":
            return text_input(pending, log, fresh=fresh, budget=budget)
        given = await self._inject(run, pending, fresh=fresh)
        self.mark_known(rows[:-1] if given.parts else rows)
        return given

    def mark_known(self, rows: Sequence[Row]) -> None:
        """Whatever the view shows now, the thread knows."""
        self.known_rows = row_keys(rows)

    def input_position(self, log: ThreadLog) -> int:
        """Where the input of the present turn stands in the view."""
        rows = log.view.rows
        inputs = (at for at, row in enumerate(rows) if is_input(row, log.turn))
        return max(inputs, default=len(rows))

    async def begin_turn(self, log: ThreadLog) -> None:
        """A turn begins: what the rollout holds from here on belongs to it."""
        self.offset = await asyncio.to_thread(rollout_size, self.binding.path)
        await self.save_binding(log)

    async def save_binding(self, log: ThreadLog) -> None:
        """Keep where the thread stands, for whoever comes after a crash."""
        self.binding = msgspec.structs.replace(
            self.binding, base=log.view.base, turn=log.turn, offset=self.offset
        )
        await log.queue(binding_draft(self.binding))

    async def _inject(self, run: TurnRun, rows: Sequence[Row], *, fresh: bool) -> TypedInput:
        log = run.log
        last = rows[-1] if rows and is_input(rows[-1], log.turn) else None
        parts = typed_row(last) if last is not None else None
        shown = rows_to_send(rows[:-1] if parts else rows, log.registry, fresh=fresh)
        head = log.view.head
        assert head is not None, "an admitted turn has a head"
        items = history_items(shown, head, log.id)
        if items:
            await self.connection.call(ThreadInject(thread_id=self.binding.codex, items=items))
            self.mirror.seen_ids.update(filter(None, (shape_of(item).id for item in items)))
        return TypedInput(parts or (), len(items))

    def input_only(self, run: TurnRun) -> TypedInput:
        """The input alone."""
        log = run.log
        self.mark_known(log.view.rows)
        inputs = [row for row in log.view.rows if is_input(row, log.turn)]
        return TypedInput((typed_row(inputs[-1]) if inputs else None) or (), 0)


def preview_text(rows: Sequence[Row], request: str, log: ThreadLog) -> str:
    """What `rows` and a request would be told as, as text."""
    shown = rows_to_send(rows, log.registry, fresh=True)
    budget = log.setup.profile.effective_window
    return fit_text(project_text(shown, request, budget=budget, mode="preserve"))


def text_input(
    rows: Sequence[Row], log: ThreadLog, *, fresh: bool, budget: int | None
) -> TypedInput:
    """`rows` quoted before the request among them, what hooks added behind it."""
    inputs = [at for at, row in enumerate(rows) if is_input(row, log.turn)]
    at = inputs[-1] if inputs else len(rows)
    after = rows[at + 1 :]
    behind = [row for row in after if row.contextual]
    quoted = [*rows[:at], *(row for row in after if not row.contextual)]
    content = _content(rows[at]) if inputs else ()
    projected = project_text(
        rows_to_send(quoted, log.registry, fresh=fresh),
        text_of(content),
        budget=budget,
        # A new thread knows nothing else of what was done.
        mode="preserve" if fresh else "elide",
    )
    text = fit_text(projected, appended="\n\n".join(text_of(_content(row)) for row in behind))
    images = [part for part in (*projected.images, *content) if isinstance(part, InputImage)]
    told = tuple(ImageInput(url=part.image_url, detail=part.detail) for part in images)
    return TypedInput((TextInput(text=text), *told), projected.carried)


def _content(row: Row) -> tuple[Part, ...]:
    item = row.item
    return item.content if isinstance(item, Message) else ()


def is_input(row: Row, turn: int) -> bool:
    """Whether `row` is what someone said in `turn`."""
    return row.turn == turn and row.shape.role == "user" and not row.contextual
