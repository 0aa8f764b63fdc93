"""The Codex threads of a harness: used again, resumed, or started for what is wanted now.

Owns the decision between using and replacing a Codex thread. Invariant: a new epoch, other
tools, a crash and a turn on another harness all take the same path: a new thread that gets
the whole view.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ...core.aio import finish_uncancelled
from ...core.redact import describe_error
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
from .codex_home import CodexHome
from .codex_options import HARNESS, ProjectionMode
from .codex_thread import CodexThread
from .deletion import delete_copies, delete_stale_copies
from .errors import CodexError, Disconnected, UnknownMethod
from .hook_config import WatchedTools
from .hook_server import HookServer
from .mirror import Mirror
from .native_projection import thread_instructions
from .protocol.client_requests import (
    TURN_TEXT_LIMIT,
    ArchiveThread,
    DeleteThread,
    StartThread,
    UnsubscribeThread,
)
from .resumption import UNKNOWN_SETTINGS, can_resume, resume_request
from .rollout_reader import locate_rollout, rollout_size
from .rollout_tail import RolloutTail
from .server_access import ServerAccess
from .server_connection import AppServerConnection
from .server_pool import ServerPool
from .start_requests import SentSettings, dynamic_tools, thread_start
from .text_input import TypedInput
from .version import SUPPORTED_VERSIONS, Version

__all__ = ["CodexThread", "CodexThreads"]

_log = logging.getLogger(__name__)

_RESTARTED = "app-server-restarted"
_TYPED = (
    "Codex asks no hook before it types into a running command; "
    "if a hook blocks the text, the command is killed and the turn fails"
)
_MOST_FORMER = 32
"""How many replaced threads a binding remembers; a clean-up finds the others."""


@dataclass(slots=True, kw_only=True)
class CodexThreads:
    """The Codex threads that show the threads of this process, by thread id."""

    servers: ServerPool
    mode: ProjectionMode
    live: dict[str, CodexThread] = field(default_factory=dict)
    hook_server: HookServer = field(init=False)
    """Where Codex asks about its own calls, once a thread needs it."""
    _warned: set[str] = field(default_factory=set)
    """Threads whose users know what hooks cannot prevent here."""
    _left: set[str] = field(default_factory=set)
    """Threads that were closed or given to another harness while the app-server went on."""
    _cleaning: asyncio.Task[None] | None = None
    _warned_of_version: bool = False

    def __post_init__(self) -> None:
        self.hook_server = HookServer(self.servers.home / "codex", self._find)

    async def attach(self, run: TurnRun) -> tuple[CodexThread, TypedInput]:
        """Find or start a thread, and send it the view; return it with the input of the turn."""
        log = run.log
        identity = await run.identity()
        access = self.servers.access(log.setup.profile.provider, identity)
        unlimited = run.engine.handles_compaction
        slug = log.setup.profile.slug
        server = await self.servers.server(access, unlimited=unlimited, slug=slug)
        self._clean_up(log, access)
        connection = await self.servers.connect(server, access)
        self._warn_of_version(run, server.version)
        profile = access.account.profile if access.account else ""
        wanted = self._wanted_binding(run, str(server.version or ""), profile)
        decision = await self._decide(log, connection, wanted, self.servers.home_for(access))
        if decision.resumed or decision.fresh:
            request = await self._thread_start(run, access)
            if decision.resumed:
                decision = await self._resume(log, connection, wanted, request, decision)
            if decision.fresh:
                former = await self._former_threads(log, access)
                wanted = msgspec.structs.replace(wanted, reason=decision.reason, former=former)
                await self._start(log, connection, wanted, request)
        thread = self.live[log.id]
        thread.bearer = identity.credential.bearer if identity.credential else ""
        thread.base_url = access.route.base_url if access.route else ""
        # Whether rows were injected must be known, or they would be injected again.
        typed = await finish_uncancelled(self._project_view(run, thread, fresh=decision.fresh))
        self._report(run, thread, decision, typed)
        return thread, typed

    def _warn_of_version(self, run: TurnRun, version: Version | None) -> None:
        """Warn once of a version that runs only because the user allows it."""
        if version is None or version in SUPPORTED_VERSIONS or self._warned_of_version:
            return
        self._warned_of_version = True
        known = f"Codex {version} is newer than Treadle knows ({SUPPORTED_VERSIONS})"
        _warn(run, f"{known}; it runs because `codex.allow_newer` is set")

    def _clean_up(self, log: ThreadLog, access: ServerAccess) -> None:
        """Delete old copies from the private home in the background, once."""
        if self._cleaning is None and self.servers.home_for(access).private:
            cleaning = delete_stale_copies(self.servers.home, log.store)
            self._cleaning = asyncio.create_task(cleaning, name="codex clean-up")

    async def stop_cleaning(self) -> None:
        """Wait for the clean-up, which deletes a few threads at most."""
        if self._cleaning is not None:
            await asyncio.gather(self._cleaning, return_exceptions=True)

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
        """Drop a thread and its binding, and delete Codex's copy in the private home."""
        thread = self.drop(log.id)
        if thread is not None and thread.is_alive:
            await self._try_call(thread, ArchiveThread(thread_id=thread.id))
            _log.debug("codex thread %s is archived", thread.id)
        rows = await log.store.outbox(thread=log.id, topic=TOPIC)
        if rows:
            for problem in await delete_copies(self.servers.home, log.id, rows):
                _log.debug("after a reset: %s", problem)
            await log.queue(settle=[row.number for row in rows])

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
        mode = log.setup.settings.collaboration_mode if log.setup.settings else None
        return Binding(
            thread=log.id,
            codex="",
            engine=run.engine.name,
            policy=policy_fingerprint(run.engine, model.effective_window, TURN_TEXT_LIMIT),
            tools=tools_fingerprint(log.setup.tools),
            model=f"{model.provider}:{model.slug}",
            profile=profile,
            instructions=fingerprint(thread_instructions(view, log.registry)),
            verbosity=(view.head.verbosity if view.head else None) or "",
            hooks=WatchedTools.of(run.hooks).fingerprint,
            mode=self.mode,
            base=view.base,
            plan=view.projection,
            codex_version=version,
            collaboration=mode.name if mode else "",
        )

    async def _decide(
        self, log: ThreadLog, connection: AppServerConnection, wanted: Binding, home: CodexHome
    ) -> BindingDecision:
        thread = self.live.get(log.id)
        if thread is None:
            return await self._decide_stored(log, wanted, home)
        if thread.replace_reason:
            return BindingDecision(True, thread.replace_reason)
        missing = "" if thread.connection is connection else _RESTARTED
        shows_view = thread.can_show(log.view.rows)
        return decide_reuse(thread.binding, wanted, missing=missing, shows_view=shows_view)

    async def _decide_stored(
        self, log: ThreadLog, wanted: Binding, home: CodexHome
    ) -> BindingDecision:
        """Decide whether a thread that this process does not have can be resumed."""
        known = await self._stored_binding(log)
        rows = log.view.rows
        if known is not None and await asyncio.to_thread(can_resume, known, wanted, rows, home):
            found = decide_reuse(known, wanted, missing="", shows_view=True)
            return msgspec.structs.replace(found, resumed=not found.fresh)
        return decide_reuse(known, wanted, missing=self._missing(log), shows_view=False)

    def _missing(self, log: ThreadLog) -> str:
        """Return why this process does not have the Codex thread of a log."""
        return "thread-reopened" if log.id in self._left else _RESTARTED

    async def _resume(
        self,
        log: ThreadLog,
        connection: AppServerConnection,
        wanted: Binding,
        start: StartThread,
        decision: BindingDecision,
    ) -> BindingDecision:
        """Resume the stored thread; if Codex does not do that, a new one is needed."""
        known = await self._stored_binding(log)
        assert known is not None, "it was found a moment ago"
        assert known.path is not None, "a thread without a rollout is not resumed"
        binding = msgspec.structs.replace(known, instructions=wanted.instructions)
        mirror = Mirror(log, wanted.instructions)
        thread = CodexThread(binding, connection, mirror, UNKNOWN_SETTINGS)
        size = await asyncio.to_thread(rollout_size, known.path)
        request = resume_request(known.codex, start)
        try:
            _, thread.subscription = await connection.open_thread(request, thread.handle_request)
        except Disconnected:
            raise
        except CodexError as error:
            _log.debug("codex thread %s was not resumed: %s", known.codex, error)
            return BindingDecision(True, self._missing(log))
        thread.subscription.tail = RolloutTail(known.codex, Path(known.path), size)
        thread.mark_known(log.view.rows[: known.rows])
        self.live[log.id] = thread
        self._left.discard(log.id)
        return decision

    async def _thread_start(self, run: TurnRun, access: ServerAccess) -> StartThread:
        log = run.log
        home = self.servers.home_for(access)
        decided = await asyncio.to_thread(home.has_trust_setting, log.setup.cwd)
        tools, omitted = dynamic_tools(log.setup.tools)
        for name in omitted:
            _warn(run, f"the tool {name!r} runs at a provider only and is not offered on Codex")
        request = thread_start(
            log,
            access.route.config() if access.route else {},
            tools,
            unlimited=run.engine.handles_compaction,
            use_project_settings=decided,
        )
        watched = WatchedTools.of(run.hooks)
        if watched.typing and log.id not in self._warned:
            self._warned.add(log.id)
            run.emit(NoticeRaised(level="info", text=_TYPED))
        config = {**(request.config or {}), **await self.hook_server.config(watched)}
        return msgspec.structs.replace(request, config=config)

    def _find(self, codex_id: str) -> CodexThread | None:
        return next((each for each in self.live.values() if each.id == codex_id), None)

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
        # From now on whoever deletes the thread finds this one, too.
        await log.queue(binding_draft(thread.binding))

    async def _former_threads(self, log: ThreadLog, access: ServerAccess) -> tuple[str, ...]:
        """Return the Codex threads that a new one replaces; others keep those of the user."""
        known, home = await self.load_binding(log), self.servers.home_for(access)
        if known is None or not home.private:
            return ()
        if not await asyncio.to_thread(home.holds, known.path):
            return ()
        return tuple(filter(None, (*known.former, known.codex)))[-_MOST_FORMER:]

    async def delete_former(self, thread: CodexThread) -> None:
        """Delete the Codex threads that `thread` has replaced: the log has all that they had."""
        former = thread.binding.former
        thread.binding = msgspec.structs.replace(thread.binding, former=())
        for name in former:
            await self._try_call(thread, DeleteThread(thread_id=name))

    async def _project_view(self, run: TurnRun, thread: CodexThread, *, fresh: bool) -> TypedInput:
        """Send the view; whatever fails, the bare input is better than nothing."""
        budget = run.log.setup.profile.effective_window
        try:
            try:
                return await thread.project_view(run.log, fresh=fresh, budget=budget)
            except UnknownMethod as error:
                self.mode = "text"
                thread.binding = msgspec.structs.replace(thread.binding, mode="text")
                _warn(run, f"{error}; the view is sent as text instead")
                return await thread.project_view(run.log, fresh=fresh, budget=budget)
        except Disconnected:
            raise
        except Exception as error:  # noqa: BLE001 - no fault of ours may cost the turn
            _log.warning("the view of %s could not be sent to Codex", run.log.id, exc_info=True)
            # The thread lacks what Codex did not accept: the next turn starts another.
            thread.replace_reason = "projection-failed"
            why = str(error) if isinstance(error, CodexError) else describe_error(error)
            _warn(run, f"the view could not be sent to Codex: {why}; only the input was sent")
            return thread.input_only(run.log)

    def _report(
        self, run: TurnRun, thread: CodexThread, decision: BindingDecision, typed: TypedInput
    ) -> None:
        binding = thread.binding
        reused = "thread.resumed" if decision.resumed else "thread.reused"
        what = "thread.started" if decision.fresh else reused
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
