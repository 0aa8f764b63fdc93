"""The agents of a thread: who runs, what they ask, and how their ends are announced.

Owns their tasks: a task is durable before its run begins, and leaves the outbox after its
end was announced. Invariants: an agent that does not run any more has been announced, or
will be when the parent is opened again; an answer goes to the agent that asked, in
whichever generation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ..core.aio import finish_uncancelled
from ..core.entries import Draft, control_draft
from ..core.errors import ConfigError, NotFound, TreadleError
from ..core.ids import new_id
from ..engines.values import EndReason
from ..harness.events import (
    AgentReported,
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    QuestionsAsked,
)
from ..log.thread_log import ThreadLog
from ..prompt.prompt_context import PromptContext, Subagent
from ..store.contract import Change, InboxMessage
from ..tools.agents import AgentInfo, AgentRefusal, AgentStatus, SpawnRequest, WaitResult
from .definition import AgentDefinition
from .kinds import AgentKinds
from .mail import TaskOutcome, announcement, instruction, status_of, task_outcome
from .records import (
    TOPIC,
    AgentLimits,
    AgentRecord,
    AgentTask,
    OpenAgent,
    SpawnWatcher,
    agent_records,
    agent_setting,
    definition_of,
    lineage_of,
    listed_agents,
)

if TYPE_CHECKING:
    from ..sandbox.approvals import Decision
    from ..tools.contract import Answers
    from .agent_run import AgentRun

__all__ = ["OpenQuestions", "Subagents"]

_log = logging.getLogger(__name__)


class OpenQuestions(Struct):
    """The approvals and questions that the agents of one thread wait for."""

    _open: dict[str, tuple[AgentRun, AgentReported]] = field(default_factory=dict)

    @property
    def reports(self) -> tuple[AgentReported, ...]:
        """The events that asked, oldest first."""
        return tuple(report for _, report in self._open.values())

    def update(self, run: AgentRun, report: AgentReported) -> None:
        """Note a question or its withdrawal."""
        event: Event = report
        while isinstance(event, AgentReported):
            event = event.event
        match event:
            case ApprovalRequested(id=question) | QuestionsAsked(id=question):
                self._open[question] = run, report
            case ApprovalWithdrawn(id=question):
                self._open.pop(question, None)

    def answer(self, question: str, answer: Decision | Answers) -> bool:
        """Pass an answer on; return False when no agent asked that."""
        run, _ = self._open.get(question, (None, None))
        if run is None or run.thread is None:
            return False
        run.thread.answer(question, answer)
        del self._open[question]
        return True

    def drop(self, run: AgentRun) -> None:
        """Forget the questions of a run that is over."""
        self._open = {name: each for name, each in self._open.items() if each[0] is not run}


class Subagents(Struct, kw_only=True):
    """Starts agents for a thread, and announces their ends to it."""

    parent: ThreadLog
    open_agent: OpenAgent
    limits: AgentLimits
    emit: Callable[[Event], None]
    kinds: AgentKinds
    """The kinds of agents that users and hosts have described."""
    check: Callable[[AgentDefinition], None] = lambda _: None
    """Raises `ConfigError` for a definition that this thread cannot follow."""
    settle_place: Callable[[str, AgentRecord], Awaitable[str]] | None = None
    """Gives up the place of an agent that has one of its own; returns what is left there."""
    watcher: SpawnWatcher | None = None
    _runs: dict[str, AgentRun] = field(default_factory=dict)
    """The agents that run, by id."""
    _questions: OpenQuestions = field(default_factory=OpenQuestions)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next wake-up, and replaced then: all who wait for it see it."""
    _closing: bool = False
    _has_none_waiting: bool = False
    """No task waits in the outbox: none was found there, and none was started since."""

    @property
    def depth(self) -> int:
        """How many generations the thread is below one that nobody started."""
        lineage = lineage_of(self.parent.view.settings, self.parent.id)
        return lineage.depth if lineage else 0

    @property
    def records(self) -> dict[str, AgentRecord]:
        """The agents of this thread by id, oldest first."""
        return agent_records(self.parent.view.settings, self.parent.id)

    @property
    def listed_agents(self) -> tuple[Subagent, ...]:
        """The agents that the prompt lists."""
        return listed_agents(self.parent.view.settings, self.parent.id)

    @property
    def working(self) -> tuple[str, ...]:
        """The ids of the agents that run."""
        return tuple(self._runs)

    @property
    def open_questions(self) -> tuple[AgentReported, ...]:
        """The questions of agents that nobody has answered."""
        return self._questions.reports

    async def spawn(self, order: SpawnRequest) -> AgentInfo | AgentRefusal:
        """Start an agent. Its task is durable before this returns."""
        async with self._starting:
            if self.depth >= self.limits.depth:
                return AgentRefusal("agents here cannot start agents of their own; do it yourself")
            if (refusal := self._limit_refusal()) is not None:
                return refusal
            definition = await asyncio.to_thread(self._definition, order.agent_type)
            if isinstance(definition, AgentRefusal):
                return definition
            return await finish_uncancelled(self._spawn(order, definition))

    async def send(
        self, target: str, message: str, *, interrupt: bool = False
    ) -> str | AgentRefusal:
        """Send a message to an agent, into its turn or as a new task; return its key."""
        record = self.records.get(target)
        if record is None:
            return _unknown_agent(target)
        post = instruction(self.parent.id, message)
        async with self._starting:
            while (run := await self._find_run(target)) is not None:
                if await run.send(post, interrupt=interrupt):
                    return post.key
                await _end_of(run)
            if (refusal := self._limit_refusal()) is not None:
                return refusal
            task = AgentTask(
                child=target,
                turn=new_id("turn"),
                message=message,
                nickname=record.nickname,
                tool="send_input",
            )
            return await finish_uncancelled(self._start_task(task))

    async def wait(self, targets: Sequence[str], seconds: float) -> WaitResult | AgentRefusal:
        """Wait until one of `targets` is done and announced; of all agents when empty."""
        unknown = [target for target in targets if target not in self.records]
        if unknown:
            return _unknown_agent(unknown[0])
        chosen = tuple(targets) or self.working
        all_run = bool(chosen) and all(target in self._runs for target in chosen)
        timed_out = all_run and not await self._wait_for_one(chosen, seconds, _is_message)
        status = {each: await self._status(each) for each in chosen}
        return WaitResult(status=status, timed_out=timed_out)

    def wake(self) -> None:
        """Wake whoever waits: the thread has a new message."""
        self._woken.set()
        self._woken = asyncio.Event()

    async def agents(self) -> list[AgentInfo]:
        """Return the agents of this thread, oldest first."""
        return [await self._info(child, record) for child, record in self.records.items()]

    async def interrupt(self, target: str) -> AgentInfo | AgentRefusal:
        """Interrupt an agent, and wait until its run is over."""
        record = self.records.get(target)
        if record is None:
            return _unknown_agent(target)
        if (run := self._runs.get(target)) is not None:
            run.stop()
            await _end_of(run)
        return await self._info(target, record)

    def answer(self, question: str, answer: Decision | Answers) -> bool:
        """Answer a question of an agent; return False when none asked that."""
        return self._questions.answer(question, answer)

    async def wait_for_mail(self) -> None:
        """Wait until the thread has mail, as when an agent ends; do not wait if none runs."""
        if self._runs:
            await self._wait_for_one(self.working, None, lambda _: True)

    def apply_settings(self, settings: PromptContext) -> None:
        """Give the agents that run the settings of their parent."""
        for run in self._runs.values():
            if run.thread is not None:
                definition = self.definition_of(run.task.child)
                run.thread.adopt(definition.narrow(settings) if definition else settings)

    async def recover(self) -> None:
        """Continue tasks that no agent runs: announce those that are done, resume the others.

        A crash leaves such tasks, and so does an announcement that could not be posted.
        """
        async with self._starting:
            await self._recover()

    async def _recover(self) -> None:
        if self._has_none_waiting:
            return
        # Read before the rows: an agent that ends meanwhile has announced itself.
        running = set(self._runs)
        rows = await self.parent.store.outbox(thread=self.parent.id, topic=TOPIC)
        self._has_none_waiting = not rows
        for row in rows:
            task = AgentTask.of_row(row)
            if task.child in running or self._closing:
                continue
            run = self._new_run(task)
            is_unfinished = await run.has_turn()
            if is_unfinished and self.limits.resume:
                self._start_run(run)
            else:
                await self._announce(run, "swept" if is_unfinished else "completed")

    async def close(self) -> None:
        """Interrupt all agents, and wait until each of them was announced."""
        self._closing = True
        await self.stop()
        async with self._starting:
            # An agent that was being started meanwhile runs by now.
            await self.stop()

    async def stop(self) -> None:
        """Interrupt all agents that run, and wait until each of them was announced."""
        runs = list(self._runs.values())
        for run in runs:
            run.stop()
        for run in runs:
            await _end_of(run)

    def _limit_refusal(self) -> AgentRefusal | None:
        if self._closing:
            return AgentRefusal("the thread is being closed")
        if len(self._runs) >= self.limits.concurrent:
            return AgentRefusal(
                f"{len(self._runs)} agents are at work and no more may be; "
                "wait for one with wait_agent, or interrupt one"
            )
        return None

    async def _find_run(self, child: str) -> AgentRun | None:
        """Return the run of an agent; None when all its tasks were announced."""
        if child not in self._runs:
            # The next task takes the outbox row of the last, so that none may be left there.
            await self._recover()
        return self._runs.get(child)

    def definition_of(self, child: str) -> AgentDefinition | None:
        """Return how an agent was defined when it was started."""
        return definition_of(self.parent.view.settings, child)

    def _definition(self, agent_type: str) -> AgentDefinition | AgentRefusal | None:
        """Return the definition of a new agent, if it has one that can be followed. Blocks."""
        found = self.kinds.find(agent_type)
        if isinstance(found, AgentDefinition):
            try:
                self.check(found)
            except ConfigError as error:
                return AgentRefusal(f"the agent_type {agent_type!r} cannot be used: {error}")
        return found

    async def _spawn(self, request: SpawnRequest, definition: AgentDefinition | None) -> AgentInfo:
        from .agent_run import create_agent

        # On one line: it is shown in lists.
        nickname = " ".join(request.nickname.split()) or f"agent {len(self.records) + 1}"
        record = AgentRecord(
            owner=self.parent.id,
            nickname=nickname,
            agent_type=request.agent_type,
            forked=request.fork,
        )
        child = await create_agent(self.parent, record, self.depth + 1)
        task = AgentTask(
            child=child, turn=new_id("turn"), message=request.message, nickname=nickname
        )
        undo = None
        try:
            if self.watcher is not None:
                undo = await self.watcher.prepare_spawn(
                    child, "fork" if request.fork else "isolated"
                )
            setting = control_draft(
                agent_setting(child, record, definition),
                turn=self.parent.turn,
                step=self.parent.step,
            )
            await self._start_task(task, setting)
        except BaseException:
            if undo is not None:
                await undo()
            await self.parent.store.delete(child)
            raise
        return AgentInfo(
            agent_id=child, nickname=nickname, agent_type=record.agent_type, status="running"
        )

    async def _start_task(self, task: AgentTask, *entries: Draft) -> str:
        self._has_none_waiting = False
        await self.parent.commit(Change(entries=entries, outbox=(task.draft,)))
        self._start_run(self._new_run(task))
        return task.turn

    def _new_run(self, task: AgentTask) -> AgentRun:
        from .agent_run import AgentRun

        def on_report(report: AgentReported) -> None:
            self._questions.update(run, report)
            self.emit(report)

        run = AgentRun(task, self.parent.id, self.parent.store, self.open_agent, on_report)
        return run

    def _start_run(self, run: AgentRun) -> None:
        self._runs[run.task.child] = run
        run.runner = asyncio.create_task(self._run_and_announce(run))

    async def _run_and_announce(self, run: AgentRun) -> None:
        try:
            await run.run()
        finally:
            await finish_uncancelled(self._end_run(run))

    async def _end_run(self, run: AgentRun) -> None:
        try:
            await self._announce(run, "released" if self._closing else "completed")
        except TreadleError as error:
            # The row stays, so that the parent's next turn announces it.
            _log.warning("agent %r could not be announced: %s", run.task.child, error)
        finally:
            self._questions.drop(run)
            del self._runs[run.task.child]

    async def _announce(self, run: AgentRun, reason: EndReason) -> None:
        store, task = self.parent.store, run.task
        try:
            ended = await task_outcome(store, task, run.failure)
            ended = await self._with_place(task, ended)
        except NotFound:
            ended, reason = ("unknown", "Its thread was deleted.", ""), "deleted"
        await store.post(self.parent.id, announcement(self.parent.id, task, ended))
        rows = await store.outbox(thread=self.parent.id, topic=TOPIC)
        done = tuple(row.number for row in rows if AgentTask.of_row(row).turn == task.turn)
        await self.parent.commit(Change(settle=done))
        if self.watcher is None:
            return
        try:
            await self.watcher.on_subagent_ended(task.child, reason)
        except Exception as error:  # noqa: BLE001 - a watcher's failure must not lose an agent
            _log.warning("an engine failed at the end of agent %r: %r", task.child, error)

    async def _with_place(self, task: AgentTask, ended: TaskOutcome) -> TaskOutcome:
        """Return how a task ended, with what is left in the agent's own place."""
        definition, record = self.definition_of(task.child), self.records.get(task.child)
        if self.settle_place is None or record is None or not (definition and definition.worktree):
            return ended
        status, result, stats = ended
        left = await self.settle_place(task.child, record)
        return status, "\n\n".join(filter(None, (result, left))), stats

    async def _wait_for_one(
        self, chosen: Sequence[str], seconds: float | None, counts: Callable[[InboxMessage], bool]
    ) -> bool:
        """Return whether one of `chosen` ended in time, or mail came that `counts`."""
        ends = [runner for child in chosen if (runner := self._runs[child].runner) is not None]
        wake_up = self._woken  # of before the look at the mail
        if any(map(counts, await self.parent.store.inbox(self.parent.id))):
            return True
        woken = asyncio.ensure_future(wake_up.wait())
        try:
            done, _ = await asyncio.wait(
                {woken, *ends}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            woken.cancel()
        return bool(done)

    async def _info(self, child: str, record: AgentRecord) -> AgentInfo:
        return AgentInfo(
            agent_id=child,
            nickname=record.nickname,
            agent_type=record.agent_type,
            status=await self._status(child),
        )

    async def _status(self, child: str) -> AgentStatus:
        if child in self._runs:
            return "running"
        try:
            newest = await self.parent.store.turns(child, limit=1)
        except NotFound:
            return "unknown"
        return status_of(newest[0]) if newest else "unknown"


async def _end_of(run: AgentRun) -> None:
    """Wait until the end of a run was announced."""
    if run.runner is not None:
        await asyncio.wait({run.runner})


def _unknown_agent(target: str) -> AgentRefusal:
    return AgentRefusal(f"there is no agent {target!r}; list_agents tells which there are")


def _is_message(message: InboxMessage) -> bool:
    """Return whether somebody sent it; the announcement of an agent has events."""
    return not message.events
