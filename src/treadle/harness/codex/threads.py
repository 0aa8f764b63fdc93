"""The Codex threads of a harness: used again, or started for what is wanted now.

Owns the decision between using and replacing a Codex thread. Invariant: a new epoch, other
tools, a restart and a turn on another harness all take the same path: a new Codex thread
that gets the whole view.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...core.aio import finish_uncancelled
from ...log.thread_log import ThreadLog
from ..contract import TurnRun
from ..events import HarnessReported, NoticeRaised
from .binding import (
    TOPIC,
    Binding,
    BindingDecision,
    decide_reuse,
    fingerprint,
    policy_fingerprint,
    read_binding,
    tools_fingerprint,
)
from .codex_thread import CodexThread, TypedInput
from .errors import CodexError, Disconnected, UnknownMethod
from .mirror import Mirror
from .native_projection import thread_instructions
from .options import HARNESS, ProjectionMode
from .protocol.client_requests import (
    TURN_TEXT_LIMIT,
    ArchiveThread,
    StartThread,
    UnsubscribeThread,
)
from .request_handler import dynamic_tools
from .rollout_reader import locate_rollout
from .server_access import ServerAccess
from .server_connection import AppServerConnection
from .server_pool import ServerPool
from .start_requests import SentSettings, thread_start

__all__ = ["CodexThreads"]

_log = logging.getLogger(__name__)

_RESTARTED = "app-server-restarted"


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
            engine=run.engine.choice.name if run.engine.chosen else "linear",
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
