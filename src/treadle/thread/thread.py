"""Thread: a durable conversation with a coding agent.

Owns what a host can ask of it: `run` a turn, `steer` or `interrupt` it, `answer` its
questions, `send`, `compact`, `fork`, `reset`. It has a log, an engine session, a policy and a
turn runner, and does nothing that they can do. Invariant: one writer per thread and one turn
at a time; a second `run` waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..context.head import Choices
from ..core.aio import finish_uncancelled
from ..core.entries import Reason, Recipe
from ..core.errors import NothingToSend
from ..core.ids import new_id
from ..core.items import Message, encode_item
from ..core.provenance import InputProvenance, InternalEvent
from ..core.usage import ThreadUsage
from ..core.wire import Json
from ..prompt.input import UserPart
from ..prompt.prompt_context import CollaborationMode, ContextValue
from ..store.contract import InboxDraft
from ..subagents import AgentLimits, post_message
from .agents import make_subagents
from .child_threads import Ancestry, ChildThreads
from .deferred_runner import DeferredRunner
from .host_input import Input, make_message
from .opening import Parts, open_engine, open_parts, open_policy
from .options import (
    AgentOptions,
    EngineOptions,
    HarnessOptions,
    Limits,
    PromptOptions,
    Rights,
    Routing,
    ThreadOptions,
    ToolOptions,
)
from .rewinds import ThreadRewinds
from .running_commands import ThreadProcesses
from .running_turn import RunningTurn
from .short_options import (
    agent_options,
    engine_options,
    harness_options,
    named_channels,
    tool_options,
)
from .turn_settings import own_schema, own_settings, set_for_turn

if TYPE_CHECKING:
    from ..context.preview import NextRequest
    from ..context.request import Request
    from ..context.view import View
    from ..core.specs import ToolSpec
    from ..delivery.channel import Channel, ReplyOrigin, ReplyPolicy
    from ..engines.compaction import CompactionOutcome
    from ..engines.contract import ContextEngine
    from ..harness.contract import Harness
    from ..harness.events import Event
    from ..hooks import Hooks
    from ..models.contract import Model
    from ..policy.turn_plan import TurnPlan
    from ..prompt.announcements import UserShellCommand
    from ..prompt.prompt_context import PromptContext
    from ..prompt.registry import Registry
    from ..sandbox.approvals import Decision
    from ..skills.rules import SkillRules
    from ..store.contract import Index, Store
    from ..tools.contract import Answers, Tool

__all__ = ["Thread"]


class Thread:
    """A conversation that this process writes.

    `Thread.open` acquires the lease and releases it at the end. The model's connection, the
    tools and the sandbox are created at the first `run`.
    """

    def __init__(self, parts: Parts, ancestry: Ancestry | None = None) -> None:
        ancestry = ancestry or Ancestry()
        self.log = parts.log
        """What writes the thread."""
        self.observers = parts.events.observers
        """Everyone who is told what happens, also between turns."""
        self.subagents = make_subagents(parts, lambda: self.policy, lambda: self._children)
        """The agents that it has started."""
        self.policy = open_policy(parts, self.subagents)
        """What is decided before each attempt."""
        if self.policy.servers is not None:
            self.observers.append(self.policy.servers.observe)
        # From now on, so that it misses nothing that happens before the first turn.
        self.engine = open_engine(parts, lambda purpose: self._turn_runner().complete(purpose))
        """The context engine of the thread."""
        self.subagents.watcher = self.engine
        self._turn_runner = DeferredRunner(
            parts.log,
            self.engine,
            self.policy,
            subagents=self.subagents,
            events=parts.events,
            place=parts.place,
            owners=lambda: self._children.owners(),  # noqa: PLW0108
            starter=ancestry.budget,
        )
        self._running = RunningTurn(parts.log.id, parts.events)
        self._children = ChildThreads(
            parts.log,
            self.policy,
            self.subagents,
            ancestry=ancestry,
            runner=self._turn_runner,
            open_with=type(self).open_with,
        )
        self._ahead: list[UserShellCommand] = []
        """What the model is told before the first input."""
        self._turns = asyncio.Lock()
        self.rewinds = ThreadRewinds(
            self.log,
            self.policy,
            self._turns,
            settle=self._turn_runner.settle_files,
            engine=self.engine,
        )
        """Takes back turns, and the files that they changed."""
        self.processes = ThreadProcesses(parts.log.id)
        """Lists and stops the commands that it has running."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        thread: str | None = None,
        *,
        model: str | Model | None = None,
        cwd: Path | str | None = None,
        home: Path | str | None = None,
        title: str = "",
        tools: Sequence[Tool | ToolSpec] | ToolOptions | None = None,
        hooks: Hooks | None = None,
        choices: Choices | None = None,
        rights: Rights | None = None,
        engine: str | ContextEngine | EngineOptions = "linear",
        harness: str | Harness | HarnessOptions = "auto",
        routing: Routing | None = None,
        prompt: PromptOptions | None = None,
        agents: AgentLimits | AgentOptions | None = None,
        skills: SkillRules | None = None,
        limits: Limits | None = None,
        channel: Channel | Mapping[str, Channel] | None = None,
        replies: ReplyPolicy | None = None,
        store: Store | str | None = None,
        index: Index | None = None,
    ) -> AsyncIterator[Self]:
        """Open a thread for writing, or create a new one.

        A thread goes on with the model it asked last unless there is a `model`. Commands may
        write below `cwd` unless `rights` say otherwise; `tools` are the built-in ones unless
        you bring yours. The `engine` decides what the model sees of the conversation, the
        `harness` runs the turns: a name, an object of yours, or options. `routing` says who
        else may answer, and with whose credentials. With `agents` the model gets tools to start
        others, with `skills` a list of skills and a tool to read them. `limits` say how far
        each turn may go. Replies go to the `channel` too, once or at least once as it promises,
        also those that a crash held up; of several, by name, the first takes what has no
        origin. `replies` say what of a turn is delivered. Without a `store`, threads live in
        `home`, by default `TREADLE_HOME`. Raises `ThreadBusy` when someone else writes there.
        """
        options = ThreadOptions(
            model=model,
            cwd=cwd,
            home=home,
            title=title,
            tools=tool_options(tools),
            hooks=hooks,
            choices=choices or Choices(),
            rights=rights or Rights(),
            engine=engine_options(engine),
            harness=harness_options(harness),
            routing=routing or Routing(),
            prompt=prompt or PromptOptions(),
            agents=agent_options(agents),
            skills=skills,
            limits=limits or Limits(),
            channels=named_channels(channel),
            replies=replies,
            store=store,
            index=index,
        )
        async with cls.open_with(options, thread) as opened:
            yield opened

    @classmethod
    @asynccontextmanager
    async def open_with(
        cls,
        options: ThreadOptions,
        thread: str | None = None,
        *,
        ancestry: Ancestry | None = None,
    ) -> AsyncIterator[Self]:
        """Open a thread as `open` does, with a `ThreadOptions` value.

        `ancestry` says who starts it as an agent.
        """
        async with AsyncExitStack() as stack:
            opened = cls(await open_parts(stack, thread, options), ancestry)
            stack.push_async_callback(opened._close)
            await opened._turn_runner.open_delivery()
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
        """Return the request that would be sent now, byte for byte but for cache marks."""
        return self.log.requests.render()

    async def run(
        self,
        *said: UserPart | Message,
        turn_id: str | None = None,
        schema: Json | Mapping[str, Any] | UnsetType = UNSET,
        provenance: InputProvenance | None = None,
        events: Sequence[InternalEvent] = (),
        origin: ReplyOrigin | None = None,
        mode: str | CollaborationMode | UnsetType | None = UNSET,
        personality: str | UnsetType | None = UNSET,
        context: Mapping[str, str | ContextValue] | UnsetType = UNSET,
        limits: Limits | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run a turn and yield its events, until `TurnCompleted`.

        A second `run` waits for the first. With a `schema`, a dictionary or JSON, the answer
        is JSON that fits it; one that does not is asked for again once, then the turn fails.
        A `mode` such as ``plan``, a `personality` and a `context` of the host's hold for
        this turn in place of the thread's own; None leaves one out. `limits` hold in place of
        the thread's: a turn that reaches one ends as ``interrupted`` and names it. Leaving the
        loop early interrupts the turn. With nothing said, the turn is about what waits in the
        inbox, or about what the first agent to end has to tell; without either it raises
        `NothingToSend`. `origin` says by which channel and to whom the reply goes back.
        """
        given, schema = None, own_schema(schema)
        if said:
            given = Input(
                message=await make_message(said, self.log.setup.open_file),
                turn_id=turn_id or "",
                provenance=provenance,
                events=events,
            )
        own = own_settings(mode, personality, context)
        async with self._turns, set_for_turn(self.log.setup, own, schema):
            if given is not None and self._ahead:
                given = msgspec.structs.replace(given, ahead=tuple(self._ahead))
            running = self._running.run(
                self._turn_runner,
                lambda runner: runner.run(given, turn_id=turn_id, origin=origin, limits=limits),
                turn_id=turn_id,
                waiting=self.subagents.open_questions,
            )
            try:
                async with aclosing(running) as heard:
                    async for batch in heard:
                        for event in batch:
                            yield event
            finally:
                if given is not None and self._running.began:
                    self._ahead.clear()

    async def usage(self) -> ThreadUsage:
        """Return what the thread has cost so far, as its providers counted it.

        It is read from the log: what earlier processes spent counts.
        """
        from .costs import thread_usage

        return await thread_usage(self.log, self.policy.options.routing.prices)

    async def run_command(self, line: str) -> UserShellCommand:
        """Run a command of the user's own, and tell the model what came of it.

        It runs as in the user's own terminal: outside the sandbox and without approval, so
        never pass what a model wrote. The model reads of it with the next turn. Waits for a
        turn under way; cancelling kills the command. Raises `OSError`.
        """
        async with self._turns:
            done = await self._turn_runner().run_command(line)
            if self.view.head is None:
                self._ahead.append(done)
            else:
                await self.log.say(done)
            return done

    async def steer(self, *said: UserPart) -> str:
        """Add input to the current turn before its next step; return the key to withdraw it."""
        if not self._running.is_open:
            raise NothingToSend(f"no turn of thread {self.id!r} is under way; use run()")
        message = await make_message(said, self.log.setup.open_file)
        key = new_id("post")
        await self.store.post(
            self.id, InboxDraft(key=key, kind="input", body=Raw(encode_item(message)))
        )
        self.subagents.wake()
        return key

    async def send(
        self, thread: str, *said: UserPart, channel: str | None = None, key: str | None = None
    ) -> str:
        """Send a message to the inbox of another thread; return its key.

        The other reads that this thread sent it. The same `key` is left once.
        """
        message = await make_message(said, self.log.setup.open_file)
        post = await post_message(
            self.store, thread, message, source=self.id, channel=channel, key=key
        )
        return post.key

    @classmethod
    async def post(
        cls,
        thread: str,
        *said: UserPart,
        home: Path | str | None = None,
        store: Store | None = None,
        channel: str | None = None,
        key: str | None = None,
    ) -> str:
        """Leave an input for a thread that anybody may be writing; return its key.

        A turn under way reads it before its next step. Where none is, the next one does: that
        of a worker (`treadle work`), or a `run` with nothing said. The same `key` is left once.
        """
        from .posting import post_input

        return await post_input(thread, said, home=home, store=store, channel=channel, key=key)

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
        self._running.interrupt()

    def hand_back(self, *, now: bool = False) -> None:
        """Leave the turn under way to whoever opens the thread next; `run` raises `TurnLeft`.

        It is left at the next step, or `now`: then what the present step has begun is broken
        off as by an interruption. Does nothing if no turn runs, or if it ends before.
        """
        self._running.hand_back(now=now)

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer an approval or a question, also an agent's, by the id of its event."""
        if self.subagents.answer(question, answer):
            return
        self._turn_runner.answer(question, answer)

    async def foresee(self) -> TurnPlan:
        """Return the plan of a turn that would start now, without side effects.

        Where no request could be sent, its `auth` says what is missing. Waits for a turn
        under way.
        """
        async with self._turns:
            return await self._turn_runner().foresee()

    async def preview(
        self,
        *said: UserPart | Message,
        schema: Json | Mapping[str, Any] | UnsetType = UNSET,
        mode: str | CollaborationMode | UnsetType | None = UNSET,
        personality: str | UnsetType | None = UNSET,
        context: Mapping[str, str | ContextValue] | UnsetType = UNSET,
    ) -> NextRequest:
        """Return the first request of a turn that would start now; its `body`, byte for byte.

        Arguments mean what they mean for `run`. Nothing is sent or written; hooks are not
        called, and no engine assembles the turn: `lacks` says where that may leave something
        out. With nothing said, it shows the context. Waits for a turn under way.
        """
        message = await make_message(said, self.log.setup.open_file) if said else None
        own, schema = own_settings(mode, personality, context), own_schema(schema)
        async with self._turns, set_for_turn(self.log.setup, own, schema):
            given = Input(message=message, ahead=tuple(self._ahead)) if message else None
            return await self._turn_runner().preview(given)

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
        self.policy.use(model, harness)

    async def end_commands(self) -> None:
        """End every running command that tools have started."""
        await self._turn_runner.end_commands()

    def adopt(self, settings: PromptContext) -> None:
        """Use other settings; commands use them from the next step on."""
        self.log.setup.settings = settings
        self.subagents.apply_settings(settings)

    async def _close(self) -> None:
        await self._running.stop()
        await finish_uncancelled(self.subagents.close())
        await self._turn_runner.close_delivery()
        await finish_uncancelled(self.engine.close())
        await self._turn_runner.close()
        # While the thread is still ours:
        await finish_uncancelled(self.policy.harnesses.close())
