"""Thread: a durable conversation with a coding agent.

Owns what a host can ask of it: `run` a turn, `steer` or `interrupt` it, `answer` its
questions, `send`, `compact`, `fork`, `reset`. It has a log, an engine session, a policy and a
turn runner, and does nothing that they can do. Invariant: one writer per thread and one turn
at a time; a second `run` waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..context.head import Choices
from ..core.aio import finish_uncancelled
from ..core.entries import Reason, Recipe
from ..core.errors import ConfigError, NothingToSend
from ..core.home import home as default_home
from ..core.ids import new_id
from ..core.items import Message, encode_item
from ..core.provenance import InputProvenance, InternalEvent
from ..core.wire import Json
from ..harness.event_stream import EventQueue
from ..harness.events import TurnCompleted
from ..prompt.input import UserPart, user_message
from ..prompt.machine import OpenFile
from ..store.contract import InboxDraft
from ..subagents import AgentLimits, Subagents, post_message
from .opening import Parts, child_options, open_engine, open_parts
from .options import (
    EngineOptions,
    HarnessOptions,
    PromptOptions,
    Rights,
    Routing,
    ThreadOptions,
    ToolOptions,
)
from .policy import ThreadPolicy

if TYPE_CHECKING:
    from ..context.request import Request
    from ..context.view import View
    from ..core.specs import ToolSpec
    from ..delivery.channel import Channel, ReplyOrigin
    from ..delivery.reply_sender import ReplySender
    from ..engines.compaction import CompactionOutcome
    from ..engines.contract import ContextEngine
    from ..harness.contract import Harness
    from ..harness.events import Event
    from ..hooks import Hooks
    from ..models.contract import Model
    from ..policy.turn_plan import TurnPlan
    from ..prompt.prompt_context import PromptContext
    from ..prompt.registry import Registry
    from ..sandbox.approvals import Decision
    from ..store.contract import Index, Store
    from ..tools.contract import Answers, Tool
    from .turn import Input, TurnRunner

__all__ = ["Thread"]

_logger = logging.getLogger(__name__)


class Thread:
    """A conversation that this process writes.

    `Thread.open` acquires the lease and releases it at the end. The model's connection, the
    tools and the sandbox are created at the first `run`.
    """

    def __init__(self, parts: Parts) -> None:
        self.log = parts.log
        """What writes the thread."""
        self.observers = parts.events.observers
        """Everyone who is told what happens, also between turns."""
        self.subagents = Subagents(
            parent=parts.log,
            open_agent=self._open_child,
            limits=parts.options.agents or AgentLimits(depth=0),
            emit=parts.events.emit,
        )
        """The agents that it has started."""
        self._events = parts.events
        self.policy = ThreadPolicy(
            parts.log,
            parts.options,
            routes=parts.routes,
            harnesses=parts.harnesses,
            overlays=parts.overlays,
            subagents=self.subagents,
            warn=parts.events.warn,
        )
        """What is decided before each attempt."""
        # From now on, so that it misses nothing that happens before the first turn.
        self.engine = open_engine(parts, lambda purpose: self._turn_runner().complete(purpose))
        """The context engine of the thread."""
        self.subagents.watcher = self.engine
        self._delivery: ReplySender | None = None
        self._runner: TurnRunner | None = None
        self._turns = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._interrupted = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        thread: str | None = None,
        *,
        model: str | Model | None = None,
        cwd: Path | str | None = None,
        home: Path | None = None,
        title: str = "",
        tools: Sequence[Tool | ToolSpec] | ToolOptions | None = None,
        hooks: Hooks | None = None,
        choices: Choices | None = None,
        rights: Rights | None = None,
        engine: str | ContextEngine | EngineOptions = "linear",
        harness: str | Harness | HarnessOptions = "auto",
        routing: Routing | None = None,
        prompt: PromptOptions | None = None,
        agents: AgentLimits | None = None,
        channel: Channel | Mapping[str, Channel] | None = None,
        store: Store | None = None,
        index: Index | None = None,
    ) -> AsyncIterator[Self]:
        """Open a thread for writing, or create a new one.

        A thread goes on with the model it asked last unless there is a `model`. Commands may
        write in `cwd` and below unless `rights` say otherwise, and `tools` are the built-in
        ones unless you bring your own. The `engine` decides what the model sees of the
        conversation, the `harness` runs the turns: a name, an object of yours, or options.
        `routing` says who else may answer, and with whose credentials. With `agents` the model
        gets tools to start others. Replies go to the `channel` too, once or at least once as it
        promises, also those that a crash held up; of several, by name, the first takes what has
        no origin. Without a `store`, threads live in `home` (by default `TREADLE_HOME`, or the
        platform's data directory). Raises `ThreadBusy` when someone else writes the thread.
        """
        options = ThreadOptions(
            model=model,
            cwd=cwd,
            home=home,
            title=title,
            tools=tools if isinstance(tools, ToolOptions) else ToolOptions(tools=tools),
            hooks=hooks,
            choices=choices or Choices(),
            rights=rights or Rights(),
            engine=engine if isinstance(engine, EngineOptions) else EngineOptions(engine=engine),
            harness=harness
            if isinstance(harness, HarnessOptions)
            else HarnessOptions(harness=harness),
            routing=routing or Routing(),
            prompt=prompt or PromptOptions(),
            agents=agents,
            channels=_by_name(channel),
            store=store,
            index=index,
        )
        async with cls.open_with(options, thread) as opened:
            yield opened

    @classmethod
    @asynccontextmanager
    async def open_with(
        cls, options: ThreadOptions, thread: str | None = None
    ) -> AsyncIterator[Self]:
        """Open a thread as `open` does, with a `ThreadOptions` value."""
        async with AsyncExitStack() as stack:
            opened = cls(await open_parts(stack, thread, options))
            stack.push_async_callback(opened._close)
            await opened._open_delivery()
            yield opened

    @property
    def id(self) -> str:
        """The id of the thread; use it to open the thread again."""
        return self.log.id

    @property
    def store(self) -> Store:
        """The store of its log."""
        return self.log.store

    @property
    def index(self) -> Index:
        """The index of its requests and its texts."""
        return self.log.index

    @property
    def registry(self) -> Registry:
        """The fragments of this thread."""
        return self.log.registry

    @property
    def view(self) -> View:
        """What the model sees."""
        return self.log.view

    @property
    def model(self) -> str:
        """The current model."""
        return self.log.setup.model

    @property
    def harness(self) -> Harness:
        """The harness of the turns; `use` changes it from the next turn on."""
        return self.policy.harness

    @property
    def plan(self) -> TurnPlan | None:
        """The plan of the newest attempt."""
        return self.policy.plan

    def request(self) -> Request:
        """Return the request that would be sent now, byte for byte."""
        return self.log.requests.render()

    async def run(
        self,
        *said: UserPart | Message,
        turn_id: str | None = None,
        schema: Json | UnsetType = UNSET,
        provenance: InputProvenance | None = None,
        events: Sequence[InternalEvent] = (),
        origin: ReplyOrigin | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run a turn and yield its events, until `TurnCompleted`.

        A second `run` waits for the first. With a `schema` the answer is JSON that fits
        it. Leaving the loop early interrupts the turn. With nothing said, the turn is
        about what waits in the inbox, or about what the first agent to end has to tell;
        without either it raises `NothingToSend`. `origin` says by which channel and to whom
        the reply goes back.
        """
        from .turn import Input

        given = None
        if said:
            given = Input(
                message=await _message(said, self.log.setup.open_file),
                turn_id=turn_id or "",
                provenance=provenance,
                events=events,
            )
        async with self._turns:
            queue, setup = EventQueue(), self.log.setup
            usual = setup.choices
            if schema is not UNSET:
                setup.choices = msgspec.structs.replace(usual, output_schema=schema)
            self._events.listener = queue.put
            self._interrupted = False
            for question in self.subagents.open_questions:
                queue.put(question)
            self._task = asyncio.create_task(self._run_turn(given, turn_id, origin))
            self._task.add_done_callback(lambda _: queue.close())
            try:
                while taken := await queue.take():
                    for event in taken:
                        yield event
                if self._interrupted and self._task.cancelled():
                    # It was interrupted before it could do anything.
                    yield TurnCompleted(turn=turn_id or "", status="interrupted")
                else:
                    await self._task
            finally:
                await self._stop_turn()
                setup.choices = usual
                self._events.listener = self._task = None

    async def _run_turn(
        self, given: Input | None, turn_id: str | None, origin: ReplyOrigin | None
    ) -> None:
        runner = self._turn_runner()
        try:
            await runner.run(given, turn_id=turn_id, origin=origin)
        except asyncio.CancelledError:
            if not (self._interrupted and runner.began):
                raise

    async def steer(self, *said: UserPart) -> None:
        """Add input to the current turn; the model reads it before its next step."""
        if self._task is None:
            raise NothingToSend(f"no turn of thread {self.id!r} is under way; use run()")
        message = await _message(said, self.log.setup.open_file)
        await self.store.post(
            self.id, InboxDraft(key=new_id("post"), kind="input", body=Raw(encode_item(message)))
        )
        self.subagents.wake()

    async def send(
        self, thread: str, *said: UserPart, channel: str | None = None, key: str | None = None
    ) -> str:
        """Send a message to the inbox of another thread; return its key.

        The other reads that this thread sent it. The same `key` is left once.
        """
        message = await _message(said, self.log.setup.open_file)
        post = await post_message(
            self.store, thread, message, source=self.id, channel=channel, key=key
        )
        return post.key

    async def expects(self) -> bool:
        """Return whether `run` without input has, or will have, something to do."""
        await self.subagents.recover()
        return bool(self.subagents.working) or bool(await self.log.inbox())

    async def wait_for_engine(self, seconds: float) -> None:
        """Wait, at most `seconds`, for the engine's background work.

        Closing breaks it off; a later process takes it up again after its own first turn.
        """
        await self.engine.wait_idle(seconds)

    def interrupt(self) -> None:
        """Interrupt the turn. Every open call gets its result; do nothing if no turn runs."""
        if self._task is not None and not self._task.done() and not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer an approval or a question, also an agent's, by the id of its event."""
        if self.subagents.answer(question, answer):
            return
        if self._runner is None:
            raise NothingToSend(f"thread {self.id!r} has asked nothing")
        self._runner.questions.answer(question, answer)

    async def foresee(self) -> TurnPlan:
        """Return the plan of a turn that would start now, without side effects.

        Where no request could be sent, its `auth` says what is missing. Waits for a turn
        under way.
        """
        async with self._turns:
            return await self._turn_runner().foresee()

    async def compact(self) -> CompactionOutcome:
        """Compact the view into a summary now. Wait for the current turn first."""
        async with self._turns:
            return await self._turn_runner().compact()

    async def fork(self, at: int | None = None, *, title: str = "") -> str:
        """Create a thread that shares this one up to entry `at`; return its id.

        Inside a step, the cut moves to the step's start.
        """
        return await self.log.fork(at, title=title)

    async def rollback(self, turns: int = 1) -> None:
        """Hide the last `turns` turns. Raises `IllegalCut` when there are fewer."""
        await self.log.epochs.rollback(turns)

    async def revert(self, seq: int) -> int:
        """Hide everything after entry `seq`; if it is inside a step, also that step.

        Returns the last entry that stays.
        """
        return await self.log.epochs.revert(seq)

    async def reset(self) -> None:
        """Start from an empty view. The log keeps everything."""
        async with self._turns:
            epochs, epoch = self.log.epochs, self.view.epoch
            await epochs.publish(Recipe(), epoch=epoch, reason=Reason.RESET)
            await self.policy.harnesses.forget(self.log)
            await self.policy.routes.release_profile()

    def use(self, model: str | None = None, *, harness: str | None = None) -> None:
        """Use another model or another harness from the next turn on.

        Built-in tools become those that the model knows; ``auto`` leaves the harness to what
        the thread was opened with. Raises `ConfigError`, and then nothing has changed.
        """
        client, harnesses = self.policy.options.client, self.policy.harnesses
        if model is not None and client is not None:
            raise ConfigError(
                f"the model {client.name!r} is the host's; open the thread with {model!r}"
            )
        harnesses.select(model or self.model, harness)
        harnesses.pin = harnesses.pin if harness is None else harness
        self.policy.ask_model(model or self.model)

    async def end_commands(self) -> None:
        """End every running command that tools have started."""
        if self._runner is not None:
            await self._runner.executor.close()

    def adopt(self, settings: PromptContext) -> None:
        """Use other settings; commands use them from the next step on."""
        self.log.setup.settings = settings
        self.subagents.apply_settings(settings)

    def _turn_runner(self) -> TurnRunner:
        if self._runner is None:
            from ..hooks import Hooks
            from ..sandbox.approvals import Approvals
            from ..tools.local.local_executor import LocalExecutor
            from .questions import Questions
            from .turn import TurnRunner

            options = self.policy.options
            home = self.log.setup.home or default_home()
            self._runner = TurnRunner(
                self.log,
                self.engine,
                self.policy,
                hooks=options.hooks or Hooks(),
                executor=options.tools.executor or LocalExecutor(home=home),
                approvals=Approvals(home),
                questions=Questions(self.log, self._events.emit),
                subagents=self.subagents,
                delivery=self._delivery,
                events=self._events,
            )
        return self._runner

    @asynccontextmanager
    async def _open_child(self, child: str) -> AsyncIterator[Thread]:
        """Open an agent's thread: with the model, the tools and no more rights than this one."""
        from ..subagents import SharedExecutor

        executor = self.policy.options.tools.executor
        options = child_options(
            self.policy, self.log, SharedExecutor(executor) if executor else None
        )
        async with type(self).open_with(options, child) as opened:
            yield opened

    async def _open_delivery(self) -> None:
        """Have replies delivered, first those that were left undelivered."""
        if channels := self.policy.options.channels:
            from ..delivery.reply_sender import ReplySender

            self._delivery = ReplySender(self.log, channels, self._events.warn)
            await self._delivery.send()

    async def _stop_turn(self) -> None:
        task = self._task
        if task is not None and not task.done():
            self.interrupt()
            await finish_uncancelled(_wait_unheard(task))

    async def _close(self) -> None:
        await self._stop_turn()
        await finish_uncancelled(self.subagents.close())
        if self._delivery is not None:
            await finish_uncancelled(self._delivery.close())
        await finish_uncancelled(self.engine.close())
        if self._runner is not None:
            await self._runner.close()
        # While the thread is still ours:
        await finish_uncancelled(self.policy.harnesses.close())


def _by_name(channel: Channel | Mapping[str, Channel] | None) -> Mapping[str, Channel]:
    """Return channels by the names that replies call them."""
    if channel is None or isinstance(channel, Mapping):
        return channel or {}
    from ..delivery.reply_sender import HOST

    return {HOST: channel}


async def _message(said: Sequence[UserPart | Message], open_file: OpenFile) -> Message:
    if len(said) == 1 and isinstance(said[0], Message):
        return said[0]
    parts = [part for part in said if not isinstance(part, Message)]
    if len(parts) == 1 and isinstance(parts[0], str):
        return user_message(parts[0])
    return await asyncio.to_thread(user_message, *parts, open_file=open_file)


async def _wait_unheard(task: asyncio.Task[None]) -> None:
    """Wait for a turn that nobody listens to any more."""
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.warning("a turn that was left failed: %s", error)
