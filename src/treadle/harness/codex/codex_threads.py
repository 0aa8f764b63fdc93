"""The Codex threads of a harness: used again, or started for what is wanted now.

Owns what a Codex thread knows of the view, how the view reaches it, and the decision
between using and replacing it. Invariants: rows are sent once, in the order of the log, and
count as known only after Codex has accepted them; a new epoch, other tools, a restart and
a turn on another harness all take the same path: a new thread that gets the whole view.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...context.row import Row, shape_of
from ...core.aio import finish_uncancelled
from ...core.items import InputImage, Message, Part, text_of
from ...log.thread_log import ThreadLog
from ..contract import TurnRun
from ..events import HarnessReported, NoticeRaised
from .binding import (
    TOPIC,
    Binding,
    BindingDecision,
    binding_draft,
    decide_reuse,
    fingerprint,
    policy_fingerprint,
    read_binding,
    tools_fingerprint,
)
from .errors import CodexError, CodexProtocolError, Disconnected, UnknownMethod
from .mirror import Mirror
from .native_projection import (
    RowKey,
    history_items,
    is_input,
    row_keys,
    rows_to_send,
    thread_instructions,
    typed_row,
)
from .options import HARNESS, ProjectionMode
from .protocol.client_requests import (
    TURN_TEXT_LIMIT,
    ArchiveThread,
    ImageInput,
    InjectItems,
    StartThread,
    TextInput,
    UnsubscribeThread,
    UserInput,
)
from .protocol.server_requests import ClientReply, ServerRequest
from .rollout_reader import locate_rollout, rollout_size
from .server_access import ServerAccess
from .server_connection import AppServerConnection
from .server_pool import ServerPool
from .start_requests import SentSettings, dynamic_tools, thread_start
from .subscription import Handler, Subscription
from .text_projection import fit_text, project_text

__all__ = ["CodexThread", "CodexThreads", "TypedInput", "preview_text"]

_log = logging.getLogger(__name__)

_RESTARTED = "app-server-restarted"
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


@dataclass(slots=True, kw_only=True)
class CodexThreads:
    """The Codex threads that show the threads of this process, by thread id."""

    servers: ServerPool
    mode: ProjectionMode
    live: dict[str, CodexThread] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    """Threads that were closed or given to another harness while the app-server went on."""

    async def attach(self, run: TurnRun) -> tuple[CodexThread, TypedInput]:
        """Find or start a thread, and send it the view; return it with the input of the turn."""
        log = run.log
        identity = await run.identity()
        access = self.servers.access(log.setup.profile.provider, identity)
        unlimited = run.engine.handles_compaction
        slug = log.setup.profile.slug
        server = await self.servers.server(access, unlimited=unlimited, slug=slug)
        connection = await self.servers.connect(server, access)
        profile = access.account.profile if access.account else ""
        wanted = self._wanted_binding(run, str(server.version or ""), profile)
        decision = await self._decide(log, connection, wanted)
        if decision.fresh:
            wanted = msgspec.structs.replace(wanted, reason=decision.reason)
            request = await self._thread_start(run, access)
            await self._start(log, connection, wanted, request)
        thread = self.live[log.id]
        thread.bearer = identity.credential.bearer if identity.credential else ""
        # Whether rows were injected must be known, or they would be injected again.
        typed = await finish_uncancelled(self._project_view(run, thread, fresh=decision.fresh))
        self._report(run, thread, decision, typed)
        return thread, typed

    def detach(self, run: TurnRun) -> None:
        """Drop a thread that is gone, or of no more use."""
        self.drop(run.log.id)

    def drop(self, thread_id: str) -> CodexThread | None:
        """Forget a thread, and end its subscription."""
        thread = self.live.pop(thread_id, None)
        if thread is not None:
            thread.subscription.stop()
        return thread

    async def leave(self, thread_id: str) -> None:
        """Drop a thread, and let Codex unload it."""
        thread = self.drop(thread_id)
        if thread is not None and thread.is_alive:
            self._left.add(thread_id)
            await self._try_call(thread, UnsubscribeThread(thread_id=thread.id))

    async def forget(self, log: ThreadLog) -> None:
        """Drop a thread and its binding, and let Codex archive it."""
        thread = self.drop(log.id)
        rows = await log.store.outbox(thread=log.id, topic=TOPIC)
        if rows:
            await log.queue(settle=[row.number for row in rows])
        if thread is not None and thread.is_alive:
            await self._try_call(thread, ArchiveThread(thread_id=thread.id))
            _log.debug("codex thread %s is archived", thread.id)

    async def load_binding(self, log: ThreadLog) -> Binding | None:
        """Return the stored binding of a thread; not one that a copy of a thread brought along."""
        found = await self._stored_binding(log)
        return found if found is not None and found.thread == log.id else None

    async def _stored_binding(self, log: ThreadLog) -> Binding | None:
        rows = await log.store.outbox(thread=log.id, topic=TOPIC)
        binding = next(filter(None, map(read_binding, rows)), None)
        if binding is None:
            return None
        path = await asyncio.to_thread(locate_rollout, binding.path, self.servers.home)
        return msgspec.structs.replace(binding, path=path)

    async def _try_call(self, thread: CodexThread, request: Any) -> None:
        with suppress(CodexError):
            await thread.connection.call(request)

    def _wanted_binding(self, run: TurnRun, version: str, profile: str) -> Binding:
        log, view = run.log, run.log.view
        model = log.setup.profile
        return Binding(
            thread=log.id,
            codex="",
            engine=run.engine.name,
            policy=policy_fingerprint(run.engine, model.effective_window, TURN_TEXT_LIMIT),
            tools=tools_fingerprint(log.setup.tools),
            model=f"{model.provider}:{model.slug}",
            profile=profile,
            instructions=fingerprint(thread_instructions(view, log.registry)),
            mode=self.mode,
            base=view.base,
            plan=view.projection,
            codex_version=version,
        )

    async def _decide(
        self, log: ThreadLog, connection: AppServerConnection, wanted: Binding
    ) -> BindingDecision:
        thread = self.live.get(log.id)
        if thread is None:
            missing = "thread-reopened" if log.id in self._left else _RESTARTED
            known = await self._stored_binding(log)
            return decide_reuse(known, wanted, missing=missing, shows_view=False)
        if thread.replace_reason:
            return BindingDecision(True, thread.replace_reason)
        missing = "" if thread.connection is connection else _RESTARTED
        shows_view = thread.can_show(log.view.rows)
        return decide_reuse(thread.binding, wanted, missing=missing, shows_view=shows_view)

    async def _thread_start(self, run: TurnRun, access: ServerAccess) -> StartThread:
        log = run.log
        home = self.servers.home_for(access)
        decided = await asyncio.to_thread(home.has_trust_setting, log.setup.cwd)
        tools, omitted = dynamic_tools(log.setup.tools)
        for name in omitted:
            _warn(run, f"the tool {name!r} runs at a provider only and is not offered on Codex")
        return thread_start(
            log,
            access.route.config() if access.route else {},
            tools,
            unlimited=run.engine.handles_compaction,
            use_project_settings=decided,
        )

    async def _start(
        self, log: ThreadLog, connection: AppServerConnection, wanted: Binding, request: StartThread
    ) -> None:
        await self.leave(log.id)
        mirror = Mirror(log, wanted.instructions)
        thread = CodexThread(wanted, connection, mirror, SentSettings.at_start(log))
        result, thread.subscription = await connection.open_thread(request, thread.handle_request)
        thread.binding = msgspec.structs.replace(
            wanted,
            codex=result.thread.id,
            path=result.thread.path,
            since=int(time.time() * 1000),
        )
        self.live[log.id] = thread
        self._left.discard(log.id)

    async def _project_view(self, run: TurnRun, thread: CodexThread, *, fresh: bool) -> TypedInput:
        """Send the view; if that fails, the bare input is better than nothing."""
        budget = run.log.setup.profile.effective_window
        try:
            return await thread.project_view(run.log, fresh=fresh, budget=budget)
        except Disconnected:
            raise
        except UnknownMethod as error:
            self.mode = "text"
            thread.binding = msgspec.structs.replace(thread.binding, mode="text")
            _warn(run, f"{error}; the view is sent as text instead")
            return await thread.project_view(run.log, fresh=fresh, budget=budget)
        except (CodexError, ValueError) as error:
            # The thread lacks what Codex did not accept: the next turn starts another.
            thread.replace_reason = "projection-failed"
            _warn(run, f"the view could not be sent to Codex: {error}; only the input was sent")
            return thread.input_only(run.log)

    def _report(
        self, run: TurnRun, thread: CodexThread, decision: BindingDecision, typed: TypedInput
    ) -> None:
        binding = thread.binding
        what = "thread.started" if decision.fresh else "thread.reused"
        details: dict[str, str | int] = {
            "thread": binding.codex,
            "engine": binding.engine,
            "projection": binding.mode,
            "epoch": binding.base,
            "items": typed.sent_rows,
        }
        _log.debug("codex %s: %s: %s", what, decision.reason, details)
        run.emit(
            HarnessReported(harness=HARNESS, what=what, reason=decision.reason, details=details)
        )


def _warn(run: TurnRun, text: str) -> None:
    run.emit(NoticeRaised(level="warning", text=text))
