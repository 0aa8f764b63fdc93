"""The crew of a thread: the agents it started, at work or at rest.

Owns their tasks: whoever is told to work has one, until the announcement is left. An
order is durable before work on it begins, and settled after its announcement is.
Invariant: an agent that nobody runs any more has been announced, or will be when the
parent is opened again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ..core.aio import finish_uncancelled
from ..core.entries import Draft, control_draft
from ..core.errors import NotFound, TreadleError
from ..core.ids import new_id
from ..harness.events import AgentReported, Event
from ..log.thread_log import ThreadLog
from ..prompt.prompt_context import PromptContext, Subagent
from ..store.contract import Change, InboxMessage
from ..tools.agents import AgentInfo, AgentRefusal, AgentStatus, SpawnRequest, WaitResult
from .asked import Asked
from .values import (
    TOPIC,
    AgentLimits,
    EndReason,
    Kin,
    Opener,
    Order,
    SpawnWatcher,
    descent_of,
    kin_of,
    kin_setting,
    told_of,
)

if TYPE_CHECKING:
    from ..sandbox.approvals import Decision
    from ..tools.contract import Answers
    from .work import Work

__all__ = ["Subagents"]

_log = logging.getLogger(__name__)


class Subagents(Struct, kw_only=True):
    """Starts agents for a thread, and sees to it that the thread hears of them."""

    parent: ThreadLog
    opened: Opener
    limits: AgentLimits
    emit: Callable[[Event], None]
    watcher: SpawnWatcher | None = None
    _works: dict[str, Work] = field(default_factory=dict)
    """Who is at work, by id."""
    _asked: Asked = field(default_factory=Asked)
    _ordering: asyncio.Lock = field(default_factory=asyncio.Lock)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next wake-up, and replaced then: nobody takes it from those who wait."""
    _closing: bool = False

    @property
    def depth(self) -> int:
        """How many generations the thread is below one that nobody started."""
        descent = descent_of(self.parent.view.settings, self.parent.id)
        return descent.depth if descent else 0

    @property
    def known(self) -> dict[str, Kin]:
        """The agents of this thread by id, oldest first."""
        return kin_of(self.parent.view.settings, self.parent.id)

    @property
    def told(self) -> tuple[Subagent, ...]:
        """What the model is told of them."""
        return told_of(self.parent.view.settings, self.parent.id)

    @property
    def working(self) -> tuple[str, ...]:
        """The agents that are at work."""
        return tuple(self._works)

    @property
    def open_questions(self) -> tuple[AgentReported, ...]:
        """What agents have asked and nobody has answered."""
        return self._asked.reports

    async def spawn(self, order: SpawnRequest) -> AgentInfo | AgentRefusal:
        """Start an agent. What it is for is durable before this returns."""
        async with self._ordering:
            if self.depth >= self.limits.depth:
                return AgentRefusal("agents here cannot start agents of their own; do it yourself")
            if (full := self._full()) is not None:
                return full
            return await finish_uncancelled(self._spawned(order))

    async def send(
        self, target: str, message: str, *, interrupt: bool = False
    ) -> str | AgentRefusal:
        """Say something to an agent: into its turn, or as a new one; the message's key."""
        from .mail import instruction

        kin = self.known.get(target)
        if kin is None:
            return _stranger(target)
        said = instruction(self.parent.id, message)
        async with self._ordering:
            while (work := await self._at_work(target)) is not None:
                if await work.tell(said, interrupt=interrupt):
                    return said.key
                await asyncio.wait({work.task})
            if (full := self._full()) is not None:
                return full
            order = Order(
                child=target,
                turn=new_id("turn"),
                message=message,
                nickname=kin.nickname,
                tool="send_input",
            )
            return await finish_uncancelled(self._ordered(order))

    async def wait(self, targets: Sequence[str], seconds: float) -> WaitResult | AgentRefusal:
        """Wait until one of `targets` is done and announced; of all agents when empty."""
        strangers = [target for target in targets if target not in self.known]
        if strangers:
            return _stranger(strangers[0])
        chosen = tuple(targets) or self.working
        patient = bool(chosen) and all(target in self._works for target in chosen)
        timed_out = patient and not await self._one_ends(chosen, seconds, _is_spoken)
        status = {each: await self._status(each) for each in chosen}
        return WaitResult(status=status, timed_out=timed_out)

    def wake(self) -> None:
        """Let whoever waits look up: somebody has spoken to the thread."""
        self._woken.set()
        self._woken = asyncio.Event()

    async def agents(self) -> list[AgentInfo]:
        """The agents of this thread, oldest first."""
        return [await self._info(child, kin) for child, kin in self.known.items()]

    async def interrupt(self, target: str) -> AgentInfo | AgentRefusal:
        """Break an agent's turn off, and wait until it is over."""
        kin = self.known.get(target)
        if kin is None:
            return _stranger(target)
        if (work := self._works.get(target)) is not None:
            work.stop()
            await asyncio.wait({work.task})
        return await self._info(target, kin)

    def answer(self, question: str, answer: Decision | Answers) -> bool:
        """Answer what an agent has asked; False when none asked that."""
        return self._asked.answer(question, answer)

    async def next_ended(self) -> None:
        """Wait until the thread has mail, as when an agent ends; not when none is at work."""
        if self._works:
            await self._one_ends(self.working, None, lambda _: True)

    def follow(self, settings: PromptContext) -> None:
        """Hold those at work to the settings of their parent."""
        for work in self._works.values():
            if work.child is not None:
                work.child.adopt(settings)

    async def recover(self) -> None:
        """Take up orders that nobody works on: announce who is done, resume who is not.

        A crash leaves such orders, and so does an announcement that could not be posted.
        """
        async with self._ordering:
            await self._take_up()

    async def _take_up(self) -> None:
        # Looked at before the rows: who ends meanwhile has seen to its own.
        busy = set(self._works)
        for row in await self.parent.store.outbox(thread=self.parent.id, topic=TOPIC):
            order = Order.of(row)
            if order.child in busy or self._closing:
                continue
            work = self._work(order)
            left = await work.unfinished()
            if left and self.limits.resume:
                self._begin(work)
            else:
                await self._announce(work, "swept" if left else "completed")

    async def close(self) -> None:
        """Interrupt whoever is at work, and wait until each of them was announced."""
        self._closing = True
        await self._stop_all()
        async with self._ordering:
            # Who was being ordered meanwhile is at work by now.
            await self._stop_all()

    async def _stop_all(self) -> None:
        works = list(self._works.values())
        for work in works:
            work.stop()
        if works:
            await asyncio.wait([work.task for work in works])

    def _full(self) -> AgentRefusal | None:
        if self._closing:
            return AgentRefusal("the thread is being closed")
        if len(self._works) >= self.limits.concurrent:
            return AgentRefusal(
                f"{len(self._works)} agents are at work and no more may be; "
                "wait for one with wait_agent, or interrupt one"
            )
        return None

    async def _at_work(self, child: str) -> Work | None:
        """What an agent works on; None when all that it ever did was announced."""
        if child not in self._works:
            # The next order takes the row of the last, so that none may be left there.
            await self._take_up()
        return self._works.get(child)

    async def _spawned(self, wanted: SpawnRequest) -> AgentInfo:
        # On one line: it is told in lists.
        from .birth import born

        nickname = " ".join(wanted.nickname.split()) or f"agent {len(self.known) + 1}"
        kin = Kin(
            owner=self.parent.id,
            nickname=nickname,
            agent_type=wanted.agent_type,
            forked=wanted.fork,
        )
        child = await born(self.parent, kin, self.depth + 1)
        order = Order(child=child, turn=new_id("turn"), message=wanted.message, nickname=nickname)
        undo = None
        try:
            if self.watcher is not None:
                undo = await self.watcher.prepare_spawn(
                    child, "fork" if wanted.fork else "isolated"
                )
            setting = control_draft(
                kin_setting(child, kin), turn=self.parent.turn, step=self.parent.step
            )
            await self._ordered(order, setting)
        except BaseException:
            if undo is not None:
                await undo()
            await self.parent.store.delete(child)
            raise
        return AgentInfo(
            agent_id=child, nickname=nickname, agent_type=kin.agent_type, status="running"
        )

    async def _ordered(self, order: Order, *entries: Draft) -> str:
        await self.parent.commit(Change(entries=entries, outbox=(order.draft,)))
        self._begin(self._work(order))
        return order.turn

    def _work(self, order: Order) -> Work:
        from .work import Work

        work = Work(
            order=order,
            parent=self.parent.id,
            store=self.parent.store,
            opened=self.opened,
            hear=lambda report: self._hear(work, report),
        )
        return work

    def _begin(self, work: Work) -> None:
        self._works[work.order.child] = work
        work.task = asyncio.create_task(self._tend(work))

    async def _tend(self, work: Work) -> None:
        """See an order through, from its first turn to its announcement."""
        try:
            await work.run()
        finally:
            await finish_uncancelled(self._over(work))

    async def _over(self, work: Work) -> None:
        try:
            await self._announce(work, "released" if self._closing else "completed")
        except TreadleError as error:
            # The row stays, so that the parent's next turn announces it.
            _log.warning("agent %r could not be announced: %s", work.order.child, error)
        finally:
            self._asked.drop(work)
            del self._works[work.order.child]

    async def _announce(self, work: Work, reason: EndReason) -> None:
        from .mail import announcement, outcome

        store, order = self.parent.store, work.order
        try:
            ended = await outcome(store, order, work.failure)
        except NotFound:
            ended, reason = ("unknown", "Its thread was deleted.", ""), "deleted"
        await store.post(self.parent.id, announcement(self.parent.id, order, ended))
        rows = await store.outbox(thread=self.parent.id, topic=TOPIC)
        done = tuple(row.number for row in rows if Order.of(row).turn == order.turn)
        await self.parent.commit(Change(settle=done))
        await self._tell(order.child, reason)

    async def _tell(self, child: str, reason: EndReason) -> None:
        if self.watcher is None:
            return
        try:
            await self.watcher.on_subagent_ended(child, reason)
        except Exception as error:  # noqa: BLE001 - who only watches must not lose an agent
            _log.warning("an engine failed at the end of agent %r: %r", child, error)

    def _hear(self, work: Work, report: AgentReported) -> None:
        self._asked.hear(work, report)
        self.emit(report)

    async def _one_ends(
        self, chosen: Sequence[str], seconds: float | None, counts: Callable[[InboxMessage], bool]
    ) -> bool:
        """Whether one of `chosen` ended before time was up, or mail came that `counts`."""
        ends = [self._works[child].task for child in chosen]
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

    async def _info(self, child: str, kin: Kin) -> AgentInfo:
        return AgentInfo(
            agent_id=child,
            nickname=kin.nickname,
            agent_type=kin.agent_type,
            status=await self._status(child),
        )

    async def _status(self, child: str) -> AgentStatus:
        from .mail import status_of

        if child in self._works:
            return "running"
        try:
            newest = await self.parent.store.turns(child, limit=1)
        except NotFound:
            return "unknown"
        return status_of(newest[0]) if newest else "unknown"


def _stranger(target: str) -> AgentRefusal:
    return AgentRefusal(f"there is no agent {target!r}; list_agents tells which there are")


def _is_spoken(message: InboxMessage) -> bool:
    """Whether somebody said it, rather than an agent having ended."""
    return not message.events
