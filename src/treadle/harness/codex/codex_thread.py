"""A Codex thread of this process, and what it knows of the view.

Owns how the view reaches it. Invariant: rows are sent once, in the order of the log, and
count as known only after Codex has accepted them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...context.row import Row, shape_of
from ...context.shown_images import shown_row
from ...log.thread_log import ThreadLog
from ...store.contract import OutboxDraft
from .binding import Binding, binding_draft
from .call_guard import CallGuard
from .errors import CodexProtocolError, RequestFailed
from .hook_server import HookEvent, deny
from .injectable_items import refused_position
from .mirror import Mirror
from .native_projection import (
    RowKey,
    history_items,
    is_input,
    may_call_skill,
    row_keys,
    rows_to_send,
    typed_row,
)
from .protocol.client_requests import InjectItems
from .protocol.server_requests import ClientReply, ServerRequest
from .resumption import note_shown
from .rollout_reader import rollout_size
from .server_connection import AppServerConnection
from .start_requests import SentSettings
from .text_input import TypedInput, text_input
from .thread_events import Handler, Subscription

__all__ = ["CodexThread"]

_CALLS = ("_call", "_output")


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
    base_url: str = ""
    """Where its provider is; empty if only Codex knows."""
    replace_reason: str = ""
    """Why another thread must replace it; empty while it can be used."""
    handler: Handler | None = None
    """Answers its requests; None between turns."""
    guard: CallGuard | None = None
    """Asks hooks about Codex's own calls; None between turns."""
    asks_hooks: bool = False
    """Whether Codex has been seen to run the hooks that it was started with."""

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

    async def answer_hook(self, event: HookEvent) -> dict[str, Any]:
        """Answer an event of Codex's hooks."""
        match event.hook_event_name:
            case "SessionStart":
                self.asks_hooks = True
            case "PreToolUse":
                return await self.guard.ask(event) if self.guard else deny("no turn is running")
            case "PostToolUse" if self.guard is not None:
                return await self.guard.replace_output(event)
        return {}

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
        pending = [_hide_refused(row, log) for row in self.pending_rows(rows)]
        if self.binding.mode == "text":
            return text_input(pending, log, fresh=fresh, budget=budget)
        typed = await self._inject(log, pending, fresh=fresh)
        self.mark_known(rows[:-1] if typed.parts else rows)
        return typed

    def input_only(self, log: ThreadLog) -> TypedInput:
        """Return the bare input of the turn, and count the whole view as known."""
        self.mark_known(log.view.rows)
        inputs = [row for row in log.view.rows if is_input(row, log.turn)]
        return TypedInput((typed_row(_hide_refused(inputs[-1], log)) if inputs else None) or (), 0)

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
        mode = log.setup.settings.collaboration_mode if log.setup.settings else None
        self.binding = msgspec.structs.replace(
            self.binding,
            base=log.view.base,
            turn=log.turn,
            offset=self.offset,
            collaboration=mode.name if mode else "",
            rows=0,
            shown="",
            end=0,
        )
        await log.queue(binding_draft(self.binding))

    async def final_row(self, log: ThreadLog) -> OutboxDraft:
        """Return the row that notes what the thread shows at the end of a turn."""
        binding = msgspec.structs.replace(self.binding, base=log.view.base)
        self.binding = await asyncio.to_thread(note_shown, binding, log.view.rows)
        return binding_draft(self.binding)

    async def _inject(self, log: ThreadLog, rows: Sequence[Row], *, fresh: bool) -> TypedInput:
        last = rows[-1] if rows and is_input(rows[-1], log.turn) else None
        parts = typed_row(last) if last is not None else None
        if log.setup.tells_skills and may_call_skill(parts or ()):
            parts = None
        sent = rows_to_send(rows[:-1] if parts else rows, log.registry, fresh=fresh)
        head = log.view.head
        assert head is not None, "an admitted turn has a head"
        told: set[int] = set()
        while items := history_items(sent, head, log.id, told=told):
            # Codex names the first item that it cannot read, and takes none of the others.
            try:
                await self.connection.call(InjectItems(thread_id=self.id, items=items))
                break
            except RequestFailed as error:
                at = refused_position(error.reason)
                if at is None or at in told:
                    raise
                told.add(at)
        self.mirror.seen_ids.update(filter(None, (shape_of(item).id for item in items)))
        return TypedInput(parts or (), len(items))


def _hide_refused(row: Row, log: ThreadLog) -> Row:
    """Return `row` without images that a provider refuses."""
    return row if log.view.head is None else shown_row(row, log.view.head)
