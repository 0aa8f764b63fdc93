"""The Codex threads of a harness: found again, or started for what is wanted now.

Owns what a Codex thread is started with, and the decision between using and replacing
it. Invariant: an epoch, other tools, a restart and another harness before are one path:
a new thread, and the view carried over whole.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from ...core.aio import finish_uncancelled
from ...log.thread_log import ThreadLog
from ...prompt.observation import CollaborationMode, PromptContext
from ..contract import TurnRun
from ..events import HarnessReported, NoticeRaised
from .attachment import CodexThread, TypedInput
from .binding import (
    TOPIC,
    Binding,
    BindingDecision,
    ProjectionMode,
    decide_reuse,
    fingerprint,
    policy_fingerprint,
    read_binding,
    tools_fingerprint,
)
from .catalog import UNLIMITED
from .connection import AppServerConnection
from .errors import CodexError, Disconnected, UnknownMethod
from .mirror import HARNESS, Mirror
from .protocol.requests import (
    CommandEnvironment,
    ThreadArchive,
    ThreadStart,
    ThreadUnsubscribe,
    TurnStart,
)
from .rights import approval_of, collaboration_of, sandbox_config, sandbox_of, sandbox_policy_of
from .rollout import locate_rollout
from .route import PROVIDER
from .servers import ServerPool
from .shown import TURN_TEXT_LIMIT, thread_instructions
from .tools import dynamic_tools

__all__ = ["CodexThreads"]

_log = logging.getLogger(__name__)

_RESTARTED = "app-server-restarted"


class _TurnSettings(Struct, frozen=True):
    """What a Codex thread was last told of its rights, and how hard it is to think."""

    settings: PromptContext
    cwd: str
    mode: CollaborationMode | None = None
    effort: str | None = None
    summary: str | None = None

    @classmethod
    def of(cls, log: ThreadLog) -> _TurnSettings:
        settings, head = log.setup.settings or PromptContext(cwd=""), log.view.head
        effort, summary = (head.effort, head.summary) if head else (None, None)
        return cls(settings, str(log.setup.cwd), settings.collaboration_mode, effort, summary)


@dataclass(slots=True, kw_only=True)
class CodexThreads:
    """The Codex threads that show threads of ours now."""

    servers: ServerPool
    mode: ProjectionMode
    live: dict[str, CodexThread] = field(default_factory=dict)
    _rights: dict[str, _TurnSettings] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    """Those that were closed, or given to another harness, while the process went on."""

    async def attach(self, run: TurnRun) -> tuple[CodexThread, TypedInput]:
        """A thread that shows the view, and what is left to be typed."""
        log = run.log
        who = await run.identity()
        way = self.servers.access(log.setup.profile.provider, who)
        server = await self.servers.server(
            way, lifted=run.engine.handles_compaction, slug=log.setup.profile.slug
        )
        connection = await self.servers.connect(server, way)
        version = str(server.version or "")
        wanted = self._wanted(run, version, way.account.profile if way.account else "")
        decision = await self._decision(run, connection, wanted)
        if decision.fresh:
            route = way.route.config() if way.route else {}
            wanted = msgspec.structs.replace(wanted, reason=decision.reason)
            home = self.servers.home_for(way)
            heeded = await asyncio.to_thread(home.has_trust_setting, log.setup.cwd)
            request = self._request(run, route, heeded=heeded)
            await self._start(run, connection, wanted, request)
        attachment = self.live[log.id]
        attachment.bearer = who.credential.bearer if who.credential else ""
        # What was injected must be known to be there, or it would be injected again.
        carried = await finish_uncancelled(self._carried(run, attachment, fresh=decision.fresh))
        self._report(run, attachment, decision, carried)
        return attachment, carried

    def make_turn_start(
        self, run: TurnRun, attachment: CodexThread, carried: TypedInput
    ) -> TurnStart:
        """How a turn on it is started."""
        log = run.log
        settings = log.setup.settings or PromptContext(cwd="")
        before, now = self._rights[log.id], _TurnSettings.of(log)
        changed = (before.settings, before.cwd) != (now.settings, now.cwd)
        moved = before.mode != now.mode
        self._rights[log.id] = now
        schema, model = log.setup.choices.output_schema, log.setup.profile
        # Codex goes on as it was told last; where nobody wishes that any more, as the model would.
        effort = now.effort or (model.default_effort if before.effort else None)
        summary = now.summary or (model.reasoning_summary if before.summary else None)
        return TurnStart(
            thread_id=attachment.binding.codex,
            input=carried.parts,
            cwd=str(log.setup.cwd) if changed else None,
            effort=effort or None,
            summary=summary,  # type: ignore[arg-type]
            approval_policy=approval_of(settings) if changed else None,
            sandbox_policy=sandbox_policy_of(settings) if changed else None,
            output_schema=None if schema is UNSET else msgspec.json.decode(schema),
            collaboration_mode=collaboration_of(settings, model.slug, now.effort)
            if moved
            else None,
        )

    def detach(self, run: TurnRun) -> None:
        """The thread is gone, or of no more use."""
        self.drop(run.log.id)

    def drop(self, thread: str) -> CodexThread | None:
        """Hear no more of a thread."""
        self._rights.pop(thread, None)
        attachment = self.live.pop(thread, None)
        if attachment is not None:
            attachment.subscription.stop()
        return attachment

    async def leave(self, thread: str) -> None:
        """Let Codex unload a thread."""
        attachment = self.drop(thread)
        if attachment is not None and attachment.is_alive:
            self._left.add(thread)
            await self._quietly(attachment, ThreadUnsubscribe(thread_id=attachment.binding.codex))

    async def forget(self, log: ThreadLog) -> None:
        """Let go of a thread for good."""
        attachment = self.drop(log.id)
        rows = await log.store.outbox(thread=log.id, topic=TOPIC)
        if rows:
            await log.queue(settle=[row.number for row in rows])
        if attachment is not None and attachment.is_alive:
            await self._quietly(attachment, ThreadArchive(thread_id=attachment.binding.codex))
            _log.debug("codex thread %s is put away", attachment.binding.codex)

    async def load_binding(self, log: ThreadLog) -> Binding | None:
        """What the store knows of the thread's binding; one of a copy is nobody's."""
        found = await self._kept(log)
        return found if found is not None and found.thread == log.id else None

    async def _kept(self, log: ThreadLog) -> Binding | None:
        """The binding in the store, whosever it is."""
        rows = await log.store.outbox(thread=log.id, topic=TOPIC)
        binding = next(filter(None, map(read_binding, rows)), None)
        if binding is None:
            return None
        path = await asyncio.to_thread(locate_rollout, binding.path, self.servers.home)
        return msgspec.structs.replace(binding, path=path)

    async def _quietly(self, attachment: CodexThread, request: Any) -> None:
        with suppress(CodexError):
            await attachment.connection.call(request)

    def _wanted(self, run: TurnRun, version: str, profile: str) -> Binding:
        log, view = run.log, run.log.view
        model = log.setup.profile
        return Binding(
            thread=log.id,
            codex="",
            engine=run.engine.slot.name if run.engine.chosen else "linear",
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

    async def _decision(
        self, run: TurnRun, connection: AppServerConnection, wanted: Binding
    ) -> BindingDecision:
        log = run.log
        attachment = self.live.get(log.id)
        if attachment is None:
            absent = "thread-reopened" if log.id in self._left else _RESTARTED
            return decide_reuse(await self._kept(log), wanted, absent=absent, shows=False)
        if attachment.replace_reason:
            return BindingDecision(True, attachment.replace_reason)
        absent = "" if attachment.connection is connection else _RESTARTED
        shows = attachment.can_show(log.view.rows)
        return decide_reuse(attachment.binding, wanted, absent=absent, shows=shows)

    async def _start(
        self, run: TurnRun, connection: AppServerConnection, wanted: Binding, request: ThreadStart
    ) -> None:
        log = run.log
        await self.leave(log.id)
        attachment = CodexThread(wanted, connection, Mirror(log, wanted.instructions))
        opened, attachment.subscription = await connection.open_thread(
            request, attachment.handle_request
        )
        thread = opened.thread
        attachment.binding = msgspec.structs.replace(
            wanted, codex=thread.id, path=thread.path, since=int(time.time() * 1000)
        )
        self.live[log.id] = attachment
        self._left.discard(log.id)
        # How the work is shared, a thread is told with a turn only.
        self._rights[log.id] = msgspec.structs.replace(_TurnSettings.of(log), mode=None)

    def _request(self, run: TurnRun, route: dict[str, Any], *, heeded: bool) -> ThreadStart:
        """How a thread is begun.

        A project's own settings for Codex may start any program. They are `heeded` where the
        user said so; Codex would say so itself.
        """
        log = run.log
        cwd = str(log.setup.cwd)
        settings = log.setup.settings or PromptContext(cwd="")
        tools, left_out = dynamic_tools(log.setup.tools)
        for name in left_out:
            text = f"the tool {name!r} runs at a provider only and is not offered on Codex"
            run.emit(NoticeRaised(level="warning", text=text))
        config = {**route, **sandbox_config(settings), **_choices(log)}
        if run.engine.handles_compaction:
            config |= UNLIMITED
        return ThreadStart(
            cwd=cwd if heeded else None,
            environments=None if heeded else (CommandEnvironment.local(cwd),),
            model=log.setup.profile.slug,
            model_provider=PROVIDER if route else None,
            approval_policy=approval_of(settings),
            sandbox=sandbox_of(settings),
            developer_instructions=thread_instructions(log.view, log.registry) or None,
            config=config,
            dynamic_tools=tools or None,
            experimental_raw_events=True,
        )

    async def _carried(self, run: TurnRun, attachment: CodexThread, *, fresh: bool) -> TypedInput:
        """Carry the view over; where that fails, the bare input is better than nothing."""
        budget = run.log.setup.profile.effective_window
        try:
            return await attachment.project_view(run, fresh=fresh, budget=budget)
        except Disconnected:
            raise
        except UnknownMethod as error:
            self.mode = "text"
            attachment.binding = msgspec.structs.replace(attachment.binding, mode="text")
            _warn(run, f"{error}; the view is told as text instead")
            return await attachment.project_view(run, fresh=fresh, budget=budget)
        except (CodexError, ValueError) as error:
            # What Codex did not take it does not know: the next turn tries again.
            attachment.replace_reason = "projection-failed"
            _warn(run, f"the view could not be carried over to Codex: {error}; only the input was")
            return attachment.input_only(run)

    def _report(
        self, run: TurnRun, attachment: CodexThread, decision: BindingDecision, carried: TypedInput
    ) -> None:
        binding = attachment.binding
        what = "thread.started" if decision.fresh else "thread.reused"
        details: dict[str, str | int] = {
            "thread": binding.codex,
            "engine": binding.engine,
            "projection": binding.mode,
            "epoch": binding.base,
            "items": carried.sent_rows,
        }
        _log.debug("codex %s: %s: %s", what, decision.reason, details)
        run.emit(
            HarnessReported(harness=HARNESS, what=what, reason=decision.reason, details=details)
        )


def _choices(log: ThreadLog) -> dict[str, Any]:
    """What a thread's `config` says of the model, where the user chose."""
    head = log.view.head
    told = {
        "model_verbosity": log.setup.choices.verbosity,
        "service_tier": head.service_tier if head else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _warn(run: TurnRun, text: str) -> None:
    run.emit(NoticeRaised(level="warning", text=text))
