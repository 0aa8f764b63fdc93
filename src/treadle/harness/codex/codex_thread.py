"""A Codex thread that this process has started, and how a view reaches it.

Owns what the thread knows of the view, and who answers its requests. Invariant: rows are
sent once, in the order of the log, and a thread counts as knowing them only after Codex
has accepted them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from ...context.row import Row, shape_of
from ...core.items import InputImage, Message, Part, text_of
from ...log.thread_log import ThreadLog
from .binding import Binding, binding_draft
from .errors import CodexProtocolError
from .mirror import Mirror
from .native_projection import (
    RowKey,
    history_items,
    is_input,
    row_keys,
    rows_to_send,
    typed_row,
)
from .protocol.client_requests import ImageInput, InjectItems, TextInput, UserInput
from .protocol.server_requests import ClientReply, ServerRequest
from .rollout_reader import rollout_size
from .server_connection import AppServerConnection
from .start_requests import SentSettings
from .subscription import Handler, Subscription
from .text_projection import fit_text, project_text

__all__ = ["CodexThread", "TypedInput", "preview_text"]

_CALLS = ("_call", "_output")


@dataclass(frozen=True, slots=True)
class TypedInput:
    """The input of a turn, after the rest of the view has been sent."""

    parts: tuple[UserInput, ...]
    sent_rows: int
    """How many rows were injected, or quoted as text."""


@dataclass(slots=True, eq=False)
class CodexThread:
    """A Codex thread that this process has started."""

    binding: Binding
    connection: AppServerConnection
    mirror: Mirror
    sent_settings: SentSettings
    subscription: Subscription = field(init=False)
    known_rows: list[RowKey] = field(default_factory=list)
    """The rows that the thread shows, or does not need."""
    offset: int = 0
    """The size of its rollout when the newest turn started."""
    bearer: str = field(default="", repr=False)
    """The credential that pays for its newest turn, if Treadle can refresh it."""
    replace_reason: str = ""
    """Why another thread must replace it; empty while it can be used."""
    handler: Handler | None = None
    """Answers its requests; None between turns."""

    @property
    def id(self) -> str:
        """Return the id that Codex gave the thread."""
        return self.binding.codex

    @property
    def is_alive(self) -> bool:
        """Say whether its process still runs."""
        return self.connection.ended is None

    async def handle_request(self, request: ServerRequest) -> ClientReply:
        """Answer a request of Codex."""
        if self.handler is None:
            raise CodexProtocolError("the Codex app-server asked something outside a turn")
        return await self.handler(request)

    def can_show(self, rows: Sequence[Row]) -> bool:
        """Say whether `rows` begin with the known rows and continue without calls.

        Calls and outputs come from Codex; if the log has others, the thread missed them.
        """
        count = len(self.known_rows)
        return row_keys(rows[:count]) == self.known_rows and not any(
            row.shape.type.endswith(_CALLS) for row in rows[count:]
        )

    def pending_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows that the thread does not know yet."""
        return rows[len(self.known_rows) :]

    async def project_view(self, log: ThreadLog, *, fresh: bool, budget: int | None) -> TypedInput:
        """Send the thread what it does not know of the view; return the input of the turn."""
        rows = log.view.rows
        pending = self.pending_rows(rows)
        if self.binding.mode == "text":
            return _text_input(pending, log, fresh=fresh, budget=budget)
        typed = await self._inject(log, pending, fresh=fresh)
        self.mark_known(rows[:-1] if typed.parts else rows)
        return typed

    def input_only(self, log: ThreadLog) -> TypedInput:
        """Return the bare input of the turn, and count the whole view as known."""
        self.mark_known(log.view.rows)
        inputs = [row for row in log.view.rows if is_input(row, log.turn)]
        return TypedInput((typed_row(inputs[-1]) if inputs else None) or (), 0)

    def mark_known(self, rows: Sequence[Row]) -> None:
        """Count `rows` as known."""
        self.known_rows = row_keys(rows)

    def input_position(self, log: ThreadLog) -> int:
        """Return the position of the present turn's input in the view."""
        rows = log.view.rows
        inputs = (at for at, row in enumerate(rows) if is_input(row, log.turn))
        return max(inputs, default=len(rows))

    async def begin_turn(self, log: ThreadLog) -> None:
        """Note where the turn begins in the rollout."""
        self.offset = await asyncio.to_thread(rollout_size, self.binding.path)
        await self.save_binding(log)

    async def save_binding(self, log: ThreadLog) -> None:
        """Write the state of the binding, for a process that starts after a crash."""
        self.binding = msgspec.structs.replace(
            self.binding, base=log.view.base, turn=log.turn, offset=self.offset
        )
        await log.queue(binding_draft(self.binding))

    async def _inject(self, log: ThreadLog, rows: Sequence[Row], *, fresh: bool) -> TypedInput:
        last = rows[-1] if rows and is_input(rows[-1], log.turn) else None
        parts = typed_row(last) if last is not None else None
        sent = rows_to_send(rows[:-1] if parts else rows, log.registry, fresh=fresh)
        head = log.view.head
        assert head is not None, "an admitted turn has a head"
        items = history_items(sent, head, log.id)
        if items:
            await self.connection.call(InjectItems(thread_id=self.id, items=items))
            self.mirror.seen_ids.update(filter(None, (shape_of(item).id for item in items)))
        return TypedInput(parts or (), len(items))


def preview_text(rows: Sequence[Row], request: str, log: ThreadLog) -> str:
    """Return the text that a thread in text mode would get for `rows` and a request."""
    sent = rows_to_send(rows, log.registry, fresh=True)
    budget = log.setup.profile.effective_window
    return fit_text(project_text(sent, request, budget=budget, mode="preserve"))


def _text_input(
    rows: Sequence[Row], log: ThreadLog, *, fresh: bool, budget: int | None
) -> TypedInput:
    """Return the input among `rows` after the quoted others; the text of hooks comes last."""
    inputs = [at for at, row in enumerate(rows) if is_input(row, log.turn)]
    at = inputs[-1] if inputs else len(rows)
    after = rows[at + 1 :]
    appended = [row for row in after if row.contextual]
    quoted = [*rows[:at], *(row for row in after if not row.contextual)]
    content = _content(rows[at]) if inputs else ()
    projection = project_text(
        rows_to_send(quoted, log.registry, fresh=fresh),
        text_of(content),
        budget=budget,
        # A new thread knows nothing else of the tools.
        mode="preserve" if fresh else "elide",
    )
    text = fit_text(projection, appended="\n\n".join(text_of(_content(row)) for row in appended))
    images = [part for part in (*projection.images, *content) if isinstance(part, InputImage)]
    image_parts = tuple(ImageInput(url=part.image_url, detail=part.detail) for part in images)
    return TypedInput((TextInput(text=text), *image_parts), projection.carried)


def _content(row: Row) -> tuple[Part, ...]:
    item = row.item
    return item.content if isinstance(item, Message) else ()
