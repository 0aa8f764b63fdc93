"""Thread: a durable conversation with a coding agent.

Owns how a thread is found, made and given back, and what a host can ask of it: `run`
a turn, `steer` or `interrupt` it, `answer` its questions, `send`, `compact`, `fork`, `reset`.
Invariant: one writer per thread and one turn at a time; a second `run` waits.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .config import home as default_home
from .context.cuts import step_boundary
from .context.head import Choices
from .context.journal import Journal
from .context.view import load_view
from .entries import Head, Reason, Recipe
from .errors import ConfigError, NothingToSend
from .ids import new_id
from .items import Message, decode_item, encode_item
from .models.catalog import Catalog
from .prompt.input import UserPart, user_message
from .prompt.observation import ApprovalPolicy, PromptContext, SandboxMode
from .prompt.registry import Registry, installed_registry
from .provenance import InputProvenance, InternalEvent
from .specs import ToolSpec, spec_name
from .store.contract import Change, Committed, Index, Post, Store, ThreadInfo
from .store.index import SqliteIndex
from .store.sqlite import SqliteStore
from .whole import whole
from .wire import Json

if TYPE_CHECKING:
    from .agent import Agent, Answers, Input
    from .engines.contract import ContextEngine
    from .engines.lifecycle import Lifecycle, Patience
    from .engines.linear import Compacted
    from .engines.registry import EngineRegistry
    from .engines.slot import EngineSlot
    from .engines.values import CitationsMode, Complete
    from .harness.contract import Harness
    from .harness.events import Event
    from .hooks import Hooks
    from .models.connect import ProviderConfig
    from .models.contract import Model
    from .sandbox.approvals import ApprovalPolicy as Enforced
    from .sandbox.approvals import Decision
    from .sandbox.policy import SandboxPolicy
    from .subagents import AgentLimits, Subagents
    from .tools.contract import Tool
    from .tools.executor import ToolExecutor

__all__ = ["Thread"]

_log = logging.getLogger(__name__)

_PLAIN = ("linear", "legacy")
"""Names of the engine that needs no looking for."""


@dataclass(slots=True)
class Thread(Journal):
    """A conversation that this process writes.

    `Thread.open` takes the lease and gives it back. What it needs to run turns (the
    model's connection, tools, the sandbox) is made at the first `run`.
    """

    toolset: Sequence[Tool] | None = None
    """The tools of the host; None for the built-in ones."""
    executor: ToolExecutor | None = None
    harness: Harness | None = None
    hooks: Hooks | None = None
    client: Model | None = None
    """A model to use instead of the one that `model` names."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """Where keys and addresses of providers are looked up."""
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    """Providers beside those that Weft knows, or changes to them."""
    output_limit: int | None = None
    """Tokens of a result that the built-in tools return; None for the model's own limit."""
    engine: str | ContextEngine = "linear"
    """Who decides what the model sees of the conversation: a name, or an engine of the host's."""
    engine_config: Mapping[str, Any] = field(default_factory=dict)
    """What an engine that is named is made with."""
    engines: EngineRegistry | None = None
    """Where engines are found by name; None for those that are installed."""
    citations: CitationsMode = "auto"
    patience: Patience | None = None
    """How long an engine may take; None for the usual."""
    recall_threads: Collection[str] = ()
    """Threads beyond its family that its engine may read; ``*`` for all."""
    agents: AgentLimits | None = None
    """What bounds the agents that it may start; None where it starts none."""
    observers: list[Callable[[Event], None]] = field(default_factory=list)
    subagents: Subagents = field(init=False, repr=False)
    """The agents that it has started."""
    _agent: Agent | None = field(init=False, default=None)
    _opened_for: str = field(init=False, default="")
    _builtin: bool = field(init=False, default=False)
    _brought: tuple[Tool | ToolSpec, ...] = field(init=False, default=())
    _recall: tuple[Tool, ...] = field(init=False, default=())
    """The tools that the engine brings."""
    _lifecycle: Lifecycle | None = field(init=False, default=None)
    _lent: ToolExecutor | None = field(init=False)
    _turns: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _task: asyncio.Task[None] | None = field(init=False, default=None)
    _interrupted: bool = field(init=False, default=False)
    _listener: Callable[[Event], None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        from .subagents import AgentLimits, Subagents

        Journal.__post_init__(self)
        self._lent = self.executor
        self.subagents = Subagents(
            parent=self,
            opened=self._child,
            limits=self.agents or AgentLimits(depth=0),
            emit=self._hear,
        )
        if self.engine not in _PLAIN:
            # From now on, so that it misses nothing that happens before the first turn.
            self._engaged()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        thread: str | None = None,
        *,
        model: str | Model | None = None,
        cwd: Path | str | None = None,
        home: Path | None = None,
        sandbox: SandboxMode | None = None,
        approval: ApprovalPolicy | None = None,
        network: bool | None = None,
        writable_roots: Sequence[str] | None = None,
        tools: Sequence[Tool | ToolSpec] | None = None,
        choices: Choices | None = None,
        settings: PromptContext | None = None,
        executor: ToolExecutor | None = None,
        harness: Harness | None = None,
        hooks: Hooks | None = None,
        store: Store | None = None,
        index: Index | None = None,
        registry: Registry | None = None,
        environ: Mapping[str, str] | None = None,
        providers: Mapping[str, ProviderConfig] | None = None,
        output_limit: int | None = None,
        engine: str | ContextEngine = "linear",
        engine_config: Mapping[str, Any] | None = None,
        engines: EngineRegistry | None = None,
        citations: CitationsMode = "auto",
        patience: Patience | None = None,
        recall_threads: Collection[str] = (),
        agents: AgentLimits | None = None,
        title: str = "",
    ) -> AsyncIterator[Self]:
        """Open a thread for writing, or make a new one.

        Commands may write in `cwd` and below unless `sandbox` or `settings` say otherwise,
        and `tools` are the built-in ones unless you bring your own. With `agents` the model
        also gets tools to start others. Without a `store`, threads live in `home` (by
        default `WEFT_HOME`, or the platform's data directory).
        Raises `ThreadBusy` when someone else writes the thread.
        """
        named = model if isinstance(model, str) or model is None else model.name
        if thread is None and named is None:
            raise ConfigError("a new thread needs a model; say which, such as 'openai:gpt-5.5'")
        async with AsyncExitStack() as stack:
            if store is None:
                home = default_home() if home is None else home
                store = await SqliteStore.open(home)
                stack.push_async_callback(store.close)
            if index is None:
                index = SqliteIndex(store, home)
                stack.push_async_callback(index.close)
            if thread is None:
                thread = (await store.create(cwd=_absolute(cwd), title=title)).id
            lease = await store.acquire(thread)
            stack.push_async_callback(lease.release)
            info = await store.info(thread)
            if registry is None:
                registry = await asyncio.to_thread(installed_registry)
            view = await load_view(store, info.id, registry)
            opened = cls(
                id=info.id,
                store=store,
                index=index,
                registry=registry,
                catalog=await asyncio.to_thread(
                    Catalog.load, home / "models.toml" if home else None
                ),
                lease=lease,
                view=view,
                model=named or named_model(view.head),
                cwd=Path(cwd or info.cwd),
                home=home,
                choices=choices or Choices(),
                settings=told(settings, sandbox, approval, network, writable_roots),
                turn=info.turns,
                step=await _newest_step(store, info),
                executor=executor,
                harness=harness,
                hooks=hooks,
                client=None if isinstance(model, str) else model,
                environ=os.environ if environ is None else environ,
                providers=providers or {},
                output_limit=output_limit,
                engine=engine,
                engine_config=engine_config or {},
                engines=engines,
                citations=citations,
                patience=patience,
                recall_threads=recall_threads,
                agents=agents,
            )
            opened._offer(tools)
            stack.push_async_callback(opened._close)
            yield opened

    async def run(
        self,
        *said: UserPart | Message,
        turn_id: str | None = None,
        schema: Json | UnsetType = UNSET,
        provenance: InputProvenance | None = None,
        events: Sequence[InternalEvent] = (),
    ) -> AsyncGenerator[Event, None]:
        """Run a turn and hear what happens, until `TurnCompleted`.

        A second `run` waits for the first. With a `schema` the answer is JSON that fits
        it. Leaving the loop early interrupts the turn. With nothing said, the turn is
        about what waits in the inbox, or about what the first agent to end has to tell;
        without either it raises `NothingToSend`.
        """
        from .agent import Input

        given = None
        if said:
            message = await _message(said)
            given = Input(said=message, turn_id=turn_id, provenance=provenance, events=events)
        async with self._turns:
            heard: asyncio.Queue[Event | None] = asyncio.Queue()
            usual = self.choices
            if schema is not UNSET:
                self.choices = msgspec.structs.replace(usual, output_schema=schema)
            self._listener = heard.put_nowait
            self._interrupted = False
            for question in self.subagents.open_questions:
                heard.put_nowait(question)
            self._task = asyncio.create_task(self._turn(given, turn_id))
            self._task.add_done_callback(lambda _: heard.put_nowait(None))
            try:
                while (event := await heard.get()) is not None:
                    yield event
                if self._interrupted and self._task.cancelled():
                    yield never_began(turn_id)
                else:
                    await self._task
            finally:
                await self._settle()
                self.choices = usual
                self._listener = self._task = None

    async def steer(self, *said: UserPart) -> None:
        """Say something to the turn under way; the model reads it before its next step."""
        if self._task is None:
            raise NothingToSend(f"no turn of thread {self.id!r} is under way; use run()")
        message = await _message(said)
        await self.store.post(
            self.id, Post(key=new_id("post"), kind="input", body=Raw(encode_item(message)))
        )
        self.subagents.wake()

    async def send(
        self, thread: str, *said: UserPart, channel: str | None = None, key: str | None = None
    ) -> str:
        """Leave a message in the inbox of another thread; its key.

        The other reads that this thread sent it. The same `key` is left once.
        """
        from .subagents import post_message

        message = await _message(said)
        left = await post_message(
            self.store, thread, message, source=self.id, channel=channel, key=key
        )
        return left.key

    async def expects(self) -> bool:
        """Whether `run` with nothing said has, or will have, something to be about."""
        await self.subagents.recover()
        return bool(self.subagents.working) or await self.waiting()

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
            raise NothingToSend(f"thread {self.id!r} has asked nothing")
        self._agent.answer(question, answer)

    async def compact(self) -> Compacted:
        """Fold the view into a summary now. Waits for a turn under way."""
        async with self._turns:
            return await (await self._ready()).compact()

    async def fork(self, at: int | None = None, *, title: str = "") -> str:
        """A new thread that shares this one up to entry `at`; its id.

        Inside a step, the cut moves to the step's start.
        """
        last = self.view.upto if at is None else at
        cut = await step_boundary(self.store, self.id, self.registry, last)
        return (await self.store.fork(self.id, cut, title=title)).id

    async def reset(self) -> None:
        """Start from an empty view. The log keeps everything."""
        async with self._turns:
            await self.publish(Recipe(), epoch=self.view.epoch, reason=Reason.RESET)

    def use(self, model: str) -> None:
        """Ask another model from the next turn on; built-in tools become those it knows."""
        if self.client is not None:
            raise ConfigError(
                f"the host brought {self.client.name!r}; open the thread with {model!r}"
            )
        self.model = model
        if self._builtin:
            self._offer(None)

    async def observe(self) -> PromptContext:
        """What fragments would see now, the commands that the user has approved included."""
        from .sandbox.memory import Approvals

        seen = await Journal.observe(self)
        seen = msgspec.structs.replace(seen, subagents=(*seen.subagents, *self.subagents.told))
        if self.home is None:
            return seen
        rules = await asyncio.to_thread(Approvals(self.home).prefixes)
        prefixes = tuple(tuple(rule.prefix) for rule in rules)
        return msgspec.structs.replace(seen, approved_prefixes=prefixes)

    def _offer(self, tools: Sequence[Tool | ToolSpec] | None) -> None:
        """Decide what the model may call: the host's tools, or the built-in ones."""
        from .subagents import may_spawn

        self._builtin = tools is None
        if tools is None:
            from .tools.builtin import builtin_tools

            profile = self.profile
            tools = builtin_tools(profile, truncation=profile.truncation_policy(self.output_limit))
        else:
            self._brought = tuple(tools)
        if may_spawn(self.view.settings, self.id, self.agents):
            from .tools.agents import agent_tools

            tools = (*tools, *agent_tools(self.subagents))
        tools = (*tools, *self._recall)
        self.toolset = tuple(tool for tool in tools if not isinstance(tool, msgspec.Struct))
        self.tools = tuple(
            tool if isinstance(tool, msgspec.Struct) else tool.spec for tool in tools
        )

    @asynccontextmanager
    async def _child(self, child: str) -> AsyncIterator[Thread]:
        """Open an agent: with the model, the tools and no more rights than this thread has."""
        from .subagents import Lent

        async with type(self).open(
            child,
            model=self.client or self.model,
            cwd=self.cwd,
            home=self.home,
            tools=None if self._builtin else self._brought,
            choices=msgspec.structs.replace(self.choices, output_schema=UNSET),
            settings=self.settings,
            executor=Lent(self._lent) if self._lent else None,
            harness=self.harness,
            hooks=self.hooks,
            store=self.store,
            index=self.index,
            registry=self.registry,
            environ=self.environ,
            providers=self.providers,
            output_limit=self.output_limit,
            engine=self.engine,
            engine_config=self.engine_config,
            engines=self.engines,
            citations=self.citations,
            patience=self.patience,
            recall_threads=self.recall_threads,
            agents=self.agents,
        ) as opened:
            opened.docs = self.docs
            yield opened

    async def record(self, change: Change) -> Committed:
        """Write to the log, for those who work with this thread."""
        return await self._commit(change)

    def adopt(self, settings: PromptContext | None) -> None:
        """Hold itself to other settings; commands from the next step on."""
        self.settings = settings
        if self._agent is not None:
            self._enforce(self._agent)

    async def _turn(self, given: Input | None, turn_id: str | None) -> None:
        agent = await self._ready()
        await self.subagents.recover()
        given = given or await self._mailed(turn_id)
        try:
            self._hear(await agent.turn(given))
        except asyncio.CancelledError:
            if not self._interrupted:
                raise

    async def _ready(self) -> Agent:
        """The agent, made at first use and again when the model changed."""
        await self._seat_engine()
        if self._agent is None or self._opened_for != self.model:
            await self._close_model()
            self._agent, self._opened_for = self._assembled(), self.model
            self.api = self._agent.model.format.name
        # Settings may have changed between turns; what the model is told is what holds.
        self._enforce(self._agent)
        self._agent.tools = tuple(self.toolset or ())
        return self._agent

    async def _seat_engine(self) -> None:
        """Have the engine there, if it can be found, with the tools it brings."""
        own = {spec_name(tool.spec) for tool in self._recall}
        taken = {spec_name(spec) for spec in self.tools} - own
        recall = await self._engaged().seat(taken)
        if recall != self._recall:
            self._recall = recall
            self._offer(None if self._builtin else self._brought)

    def _engaged(self) -> Lifecycle:
        """The life of the engine in this thread; the same for as long as it is open."""
        if self._lifecycle is None:
            self._lifecycle = self._engage()
            self.subagents.watcher = self._lifecycle
        return self._lifecycle

    def _engage(self) -> Lifecycle:
        from .engines.lifecycle import Lifecycle, Patience
        from .harness.events import NoticeRaised
        from .harness.loop import LoopHarness
        from .subagents import Kinship

        self.harness = self.harness or LoopHarness()
        return Lifecycle(
            journal=self,
            slot=self._slot(),
            harness=self.harness.name,
            capabilities=self.harness.capabilities,
            citations=self.citations,
            completes=self._completes,
            grants=Kinship(self.store, self.recall_threads),
            notify=lambda text: self._hear(NoticeRaised(level="warning", text=text)),
            report=self._hear,
            patience=self.patience or Patience(),
        )

    def _slot(self) -> EngineSlot:
        from .engines.registry import engine_registry
        from .engines.slot import EngineSlot

        if not isinstance(self.engine, str):
            return EngineSlot.brought(self.engine, self.home)
        return EngineSlot.named(
            self.engine,
            self.engines or engine_registry(),
            home=self.home,
            cwd=self.cwd,
            config=dict(self.engine_config),
        )

    def _completes(self, purpose: str) -> Complete:
        assert self._agent is not None, "engines are asked by an agent"
        return self._agent.complete(purpose)

    def _enforce(self, agent: Agent) -> None:
        settings = self.settings or PromptContext(cwd="")
        agent.policy, agent.approval = policy_of(settings), approval_of(settings)
        self.subagents.follow(self.settings)

    async def _mailed(self, turn_id: str | None) -> Input:
        """The input of a turn about what others left; waits for agents to leave something."""
        from .agent import Input

        turns = await self.store.turns(self.id) if turn_id else []
        for turn in turns:
            if turn.id == turn_id and await self._was_opened(turn):
                return Input(said=_of_mail(turn.input), turn_id=turn_id)
        while True:
            # Looked at before the mail: who ended meanwhile has left some.
            working = self.subagents.working
            if mail := await self.mail():
                break
            if not working:
                raise NothingToSend(f"nothing waits for thread {self.id!r}; say something to it")
            await self.subagents.next_ended()
        first = mail[0]
        return Input(
            said=_of_mail(first.body),
            turn_id=turn_id,
            provenance=first.provenance,
            events=first.events,
            mail=mail,
        )

    def _assembled(self) -> Agent:
        from .agent import Agent
        from .harness.loop import LoopHarness
        from .hooks import Hooks
        from .models.providers import open_model
        from .sandbox.memory import Approvals
        from .tools.local.executor import LocalExecutor

        settings = self.settings or PromptContext(cwd="")
        home = self.home or default_home()
        self.executor = self.executor or LocalExecutor(home=home)
        return Agent(
            journal=self,
            engine=self._engaged(),
            model=self.client
            or open_model(
                self.model, environ=self.environ, catalog=self.catalog, config=self.providers
            ),
            tools=tuple(self.toolset or ()),
            executor=self.executor,
            harness=self.harness or LoopHarness(),
            policy=policy_of(settings),
            approval=approval_of(settings),
            approvals=Approvals(home),
            hooks=self.hooks or Hooks(),
            emit=self._hear,
        )

    def _hear(self, event: Event) -> None:
        from .harness.events import TurnCompleted

        for observer in self.observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - who only watches must not end the turn
                _log.warning("an observer failed: %r", error)
        if self._listener is not None:
            self._listener(event)
            if isinstance(event, TurnCompleted):
                # Agents go on; what they do from here on is not of this turn.
                self._listener = None

    async def _settle(self) -> None:
        task = self._task
        if task is not None and not task.done():
            self.interrupt()
            await whole(_ended(task))

    async def _close_model(self) -> None:
        if self._agent is not None and self.client is None:
            await self._agent.model.close()

    async def _close(self) -> None:
        await self._settle()
        await whole(self.subagents.close())
        if self._lifecycle is not None:
            await whole(self._lifecycle.close())
        if self._agent is not None:
            await self._agent.executor.close()
            await self._close_model()


def never_began(turn_id: str | None) -> Event:
    """What is heard of a turn that was interrupted before it could do anything."""
    from .harness.events import TurnCompleted

    return TurnCompleted(turn=turn_id or "", status="interrupted")


def told(
    settings: PromptContext | None,
    sandbox: SandboxMode | None,
    approval: ApprovalPolicy | None,
    network: bool | None,
    writable_roots: Sequence[str] | None,
) -> PromptContext:
    """The settings that fragments tell, with what was asked for put over them."""
    asked = {
        "sandbox_mode": sandbox,
        "approval_policy": approval,
        "network_access": network,
        "writable_roots": None if writable_roots is None else tuple(writable_roots),
    }
    given = {name: value for name, value in asked.items() if value is not None}
    usual = PromptContext(cwd="", sandbox_mode="workspace-write")
    return msgspec.structs.replace(settings or usual, **given)


def policy_of(settings: PromptContext) -> SandboxPolicy:
    """The policy that is enforced: what the settings tell the model."""
    from .sandbox.policy import SandboxPolicy

    mode = settings.sandbox_mode
    return SandboxPolicy(
        # Inside someone else's sandbox ours would only be in the way.
        mode="danger-full-access" if mode == "external-sandbox" else mode,
        writable_roots=settings.writable_roots,
        network=settings.network_access,
    )


def approval_of(settings: PromptContext) -> Enforced:
    """The approval policy that is enforced; ``on-failure`` is an old name of ``on-request``."""
    told_policy = settings.approval_policy
    return "on-request" if told_policy == "on-failure" else told_policy


def named_model(head: Head | None) -> str:
    """The name of the model that a thread used last."""
    if head is None:
        raise ConfigError("the thread has no model yet; say which, such as 'openai:gpt-5.5'")
    return f"{head.provider}:{head.model}"


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


async def _newest_step(store: Store, info: ThreadInfo) -> int:
    """The step that the newest turn had reached, for a writer that goes on with it."""
    newest = await store.read(info.id, info.last, info.last) if info.last else []
    return newest[0].step if newest and newest[0].turn == info.turns else 0


def _absolute(place: Path | str | None) -> str:
    return str(Path(place or ".").absolute())
