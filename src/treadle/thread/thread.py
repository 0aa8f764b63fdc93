"""Thread: a durable conversation with a coding agent.

Owns how a thread is found, made and given back, and what a host can ask of it: `run`
a turn, `steer` or `interrupt` it, `answer` its questions, `send`, `compact`, `fork`, `reset`.
Invariant: one writer per thread and one turn at a time; a second `run` waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from ..core.aio import finish_uncancelled
from ..core.entries import Reason, Recipe
from ..core.errors import ConfigError, NothingToSend
from ..core.ids import new_id
from ..core.items import Message, decode_item, encode_item
from ..core.provenance import InputProvenance, InternalEvent
from ..core.wire import Json
from ..prompt.input import UserPart, user_message
from ..store.contract import Post
from .opening import Options, gathered, opened_child
from .workplace import Workplace

if TYPE_CHECKING:
    from ..context.request import Request
    from ..context.view import View
    from ..delivery.route import Origin
    from ..engines.linear import Compacted
    from ..harness.events import Event
    from ..policy.turn_plan import TurnPlan
    from ..prompt.registry import Registry
    from ..sandbox.approvals import Decision
    from ..store.contract import Index, Store
    from ..tools.contract import Answers
    from .agent import Input

__all__ = ["Thread"]

_log = logging.getLogger(__name__)

_PLAIN = ("linear", "legacy")
"""Names of the engine that needs no looking for."""


class Thread(Workplace):
    """A conversation that this process writes.

    `Thread.open` takes the lease and gives it back. What it needs to run turns (the
    model's connection, tools, the sandbox) is made at the first `run`.
    """

    _turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    _task: asyncio.Task[None] | None = None
    _interrupted: bool = False

    def __post_init__(self) -> None:
        from ..subagents import AgentLimits, Subagents

        self.log.setup.extend_context = self._extend_context
        self.lent = self.executor
        self.subagents = Subagents(
            parent=self.log,
            opened=partial(opened_child, self),
            limits=self.agents or AgentLimits(depth=0),
            emit=self._hear,
        )
        if self.engine not in _PLAIN:
            # From now on, so that it misses nothing that happens before the first turn.
            self._engaged()

    @property
    def id(self) -> str:
        """Its name."""
        return self.log.id

    @property
    def store(self) -> Store:
        """Where its log lives."""
        return self.log.store

    @property
    def index(self) -> Index:
        """Where its requests and its words are found."""
        return self.log.index

    @property
    def registry(self) -> Registry:
        """The fragments that it knows."""
        return self.log.registry

    @property
    def view(self) -> View:
        """What the model sees."""
        return self.log.view

    @property
    def model(self) -> str:
        """The model that it asks."""
        return self.log.setup.model

    def request(self) -> Request:
        """Return the request that would be sent now, byte for byte."""
        return self.log.requests.render()

    async def rollback(self, turns: int = 1) -> None:
        """Hide the last `turns` turns. Raises `IllegalCut` when there are fewer."""
        await self.log.epochs.rollback(turns)

    async def revert(self, seq: int) -> int:
        """Hide everything after entry `seq`, or after the step before it when it lies inside one.

        Returns the last entry that stays.
        """
        return await self.log.epochs.revert(seq)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, thread: str | None = None, **options: Unpack[Options]
    ) -> AsyncIterator[Self]:
        """Open a thread for writing, or make a new one.

        A thread goes on with the model it asked last unless there is a `model`; one that
        has asked none, such as an imported one, takes the `default_model`.
        Commands may write in `cwd` and below unless `sandbox` or `settings` say otherwise,
        and `tools` are the built-in ones unless you bring your own. With `agents` the model
        also gets tools to start others. A `harness` runs the turns: one by name, ``auto`` for
        what the model's provider and the `harness_rules` want, or one of the host's own,
        which the thread leaves and does not close. Where the model does not answer, other
        profiles in the `wallet` are tried, then the models among the `fallbacks`, unless it
        is `strict`. `overlays` add to prompts, by default those of installed packages; `params`
        are what requests say besides, by provider or model. Replies go to the `channel` too,
        once or at least once as it promises, also those that a crash held up; of several, by
        name, the first takes what has no origin. Without a `store`, threads live in `home` (by
        default `TREADLE_HOME`, or the platform's data directory).
        Raises `ThreadBusy` when someone else writes the thread.
        """
        async with AsyncExitStack() as stack:
            opened = cls(**await gathered(stack, thread, options))
            opened._offer(options.get("tools"))
            stack.push_async_callback(opened._close)
            await opened._open_desk()
            yield opened

    async def run(
        self,
        *said: UserPart | Message,
        turn_id: str | None = None,
        schema: Json | UnsetType = UNSET,
        provenance: InputProvenance | None = None,
        events: Sequence[InternalEvent] = (),
        origin: Origin | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run a turn and hear what happens, until `TurnCompleted`.

        A second `run` waits for the first. With a `schema` the answer is JSON that fits
        it. Leaving the loop early interrupts the turn. With nothing said, the turn is
        about what waits in the inbox, or about what the first agent to end has to tell;
        without either it raises `NothingToSend`. `origin` says by which channel and to whom
        the reply goes back.
        """
        from ..harness.hearing import Heard
        from .agent import Input

        given = None
        if said:
            message = await _message(said)
            given = Input(said=message, turn_id=turn_id, provenance=provenance, events=events)
        async with self._turns:
            heard = Heard()
            usual = self.log.setup.choices
            if schema is not UNSET:
                self.log.setup.choices = msgspec.structs.replace(usual, output_schema=schema)
            self._hearing.listener = heard.put
            self._interrupted = False
            for question in self.subagents.open_questions:
                heard.put(question)
            self._task = asyncio.create_task(self._turn(given, turn_id, origin))
            self._task.add_done_callback(lambda _: heard.end())
            try:
                while came := await heard.next():
                    for event in came:
                        yield event
                if self._interrupted and self._task.cancelled():
                    yield never_began(turn_id)
                else:
                    await self._task
            finally:
                await self._settle()
                self.log.setup.choices = usual
                self._hearing.listener = self._task = None

    async def steer(self, *said: UserPart) -> None:
        """Say something to the turn under way; the model reads it before its next step."""
        if self._task is None:
            raise NothingToSend(f"no turn of thread {self.log.id!r} is under way; use run()")
        message = await _message(said)
        await self.log.store.post(
            self.log.id, Post(key=new_id("post"), kind="input", body=Raw(encode_item(message)))
        )
        self.subagents.wake()

    async def send(
        self, thread: str, *said: UserPart, channel: str | None = None, key: str | None = None
    ) -> str:
        """Leave a message in the inbox of another thread; its key.

        The other reads that this thread sent it. The same `key` is left once.
        """
        from ..subagents import post_message

        message = await _message(said)
        left = await post_message(
            self.log.store, thread, message, source=self.log.id, channel=channel, key=key
        )
        return left.key

    async def expects(self) -> bool:
        """Whether `run` with nothing said has, or will have, something to be about."""
        await self.subagents.recover()
        return bool(self.subagents.working) or bool(await self.log.inbox())

    async def settled(self, seconds: float) -> None:
        """Wait, no longer than `seconds`, for what the engine does beside the turns.

        Closing breaks it off; a later process takes it up again after its own first turn.
        """
        if self._lifecycle is not None:
            await self._lifecycle.wait_idle(seconds)

    def interrupt(self) -> None:
        """Break the turn off. Every open call gets its result; harmless when nothing runs."""
        if self._task is not None and not self._task.done() and not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer an approval or a question, also an agent's, by the id of its event."""
        if self.subagents.answer(question, answer):
            return
        if self._agent is None:
            raise NothingToSend(f"thread {self.log.id!r} has asked nothing")
        self._agent.answer(question, answer)

    async def foresee(self) -> TurnPlan:
        """The plan of a turn that began now; nothing is sent, recorded or let go of.

        Where no request could be sent, its `auth` says what is missing. Waits for a turn
        under way.
        """
        async with self._turns:
            return await self._foreseen()

    async def compact(self) -> Compacted:
        """Fold the view into a summary now. Waits for a turn under way."""
        async with self._turns:
            done = await (await self._ready()).compact()
            await self._cooled()
            return done

    async def fork(self, at: int | None = None, *, title: str = "") -> str:
        """A new thread that shares this one up to entry `at`; its id.

        Inside a step, the cut moves to the step's start.
        """
        return await self.log.fork(at, title=title)

    async def reset(self) -> None:
        """Start from an empty view. The log keeps everything."""
        async with self._turns:
            await self.log.epochs.publish(Recipe(), epoch=self.log.view.epoch, reason=Reason.RESET)
            await self.served.forget(self.log)
            await self.routes.released()

    def use(self, model: str | None = None, *, harness: str | None = None) -> None:
        """Ask another model, or run on another harness, from the next turn on.

        Built-in tools become those that the model knows; ``auto`` leaves the harness to what
        the thread was opened with. Raises `ConfigError`, and then nothing has changed.
        """
        if model is not None and self.client is not None:
            raise ConfigError(
                f"the host brought {self.client.name!r}; open the thread with {model!r}"
            )
        self.served.select(model or self.log.setup.model, harness)
        self.served.pin = self.served.pin if harness is None else harness
        self._ask(model or self.log.setup.model)

    async def _turn(self, given: Input | None, turn_id: str | None, origin: Origin | None) -> None:
        agent = await self._ready()
        await self.subagents.recover()
        given = given or await self._mailed(turn_id)
        if self._desk is not None:
            self._desk.expect(origin, given.provenance)
        try:
            ended = await agent.turn(given)
            if self._desk is not None:
                await self._desk.send()
            self._hear(ended)
        except asyncio.CancelledError:
            if self._desk is not None:
                await finish_uncancelled(self._desk.send())
            if not self._interrupted:
                raise
        finally:
            self._return()
            await self._cooled()

    async def _mailed(self, turn_id: str | None) -> Input:
        """The input of a turn about what others left; waits for agents to leave something."""
        from .agent import Input

        turns = await self.log.store.turns(self.log.id) if turn_id else []
        for turn in turns:
            if turn.id == turn_id and await self.log.turns.was_opened(turn):
                return Input(said=_of_mail(turn.input), turn_id=turn_id)
        while True:
            # Looked at before the mail: who ended meanwhile has left some.
            working = self.subagents.working
            if mail := await self.log.inbox():
                break
            if not working:
                raise NothingToSend(
                    f"nothing waits for thread {self.log.id!r}; say something to it"
                )
            await self.subagents.next_ended()
        first = mail[0]
        return Input(
            said=_of_mail(first.body),
            turn_id=turn_id,
            provenance=first.provenance,
            events=first.events,
            mail=mail,
        )

    async def _settle(self) -> None:
        task = self._task
        if task is not None and not task.done():
            self.interrupt()
            await finish_uncancelled(_ended(task))

    async def _close(self) -> None:
        await self._settle()
        await finish_uncancelled(self.subagents.close())
        if self._desk is not None:
            await finish_uncancelled(self._desk.close())
        if self._lifecycle is not None:
            await finish_uncancelled(self._lifecycle.close())
        if self._agent is not None:
            await self._agent.executor.close()
            await self._close_model()
        await finish_uncancelled(self.served.close())  # while the thread is still ours


def never_began(turn_id: str | None) -> Event:
    """What is heard of a turn that was interrupted before it could do anything."""
    from ..harness.events import TurnCompleted

    return TurnCompleted(turn=turn_id or "", status="interrupted")


def _of_mail(body: Json) -> Message:
    item = decode_item(body)
    assert isinstance(item, Message), "what is left in an inbox as input is a message"
    return item


async def _message(said: Sequence[UserPart | Message]) -> Message:
    if len(said) == 1 and isinstance(said[0], Message):
        return said[0]
    parts = [part for part in said if not isinstance(part, Message)]
    if len(parts) == 1 and isinstance(parts[0], str):
        return user_message(parts[0])
    return await asyncio.to_thread(user_message, *parts)


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for a turn that nobody listens to any more."""
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("a turn that was left failed: %s", error)
