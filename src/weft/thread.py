"""Thread: a durable conversation with a coding agent.

Owns how a thread is found, made and given back, and what a host can ask of it: `run`
a turn, `steer` or `interrupt` it, `answer` its questions, `send`, `compact`, `fork`, `reset`.
Invariant: one writer per thread and one turn at a time; a second `run` waits.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .config import home as default_home
from .config import home_path
from .context.cuts import step_boundary
from .context.head import Choices, named_model
from .context.journal import Journal
from .context.view import load_view
from .entries import Reason, Recipe
from .errors import ConfigError, NothingToSend
from .ids import new_id
from .items import Message, decode_item, encode_item
from .models.catalog import Catalog
from .plan.overlays import Overlays
from .prompt.contributions import installed_overlays
from .prompt.input import UserPart, user_message
from .prompt.observation import ApprovalPolicy, PromptContext, SandboxMode
from .prompt.registry import Registry, installed_registry
from .provenance import InputProvenance, InternalEvent
from .redact import guard_logs
from .rights import told
from .routing import Routes
from .specs import ToolSpec
from .store.contract import Index, Post, Store, ThreadInfo
from .store.homes import at_home
from .store.index import SqliteIndex
from .whole import whole
from .wire import Json
from .workplace import Workplace

if TYPE_CHECKING:
    from .agent import Answers, Input
    from .auth.wallet import Wallet
    from .delivery.channel import Channel
    from .delivery.route import Origin
    from .engines.contract import ContextEngine
    from .engines.lifecycle import Patience
    from .engines.linear import Compacted
    from .engines.registry import EngineRegistry
    from .engines.values import CitationsMode
    from .harness.contract import Harness
    from .harness.events import Event
    from .harness.registry import HarnessRegistry
    from .harness.select import HarnessRules
    from .hooks import Hooks
    from .models.connect import ProviderConfig
    from .models.contract import Model
    from .plan.turn_plan import TurnPlan
    from .sandbox.approvals import Decision
    from .subagents import AgentLimits
    from .tools.contract import Tool
    from .tools.executor import ToolExecutor

__all__ = ["Thread"]

_log = logging.getLogger(__name__)

_PLAIN = ("linear", "legacy")
"""Names of the engine that needs no looking for."""


@dataclass(slots=True, eq=False, repr=False)
class Thread(Workplace):
    """A conversation that this process writes.

    `Thread.open` takes the lease and gives it back. What it needs to run turns (the
    model's connection, tools, the sandbox) is made at the first `run`.
    """

    _turns: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _task: asyncio.Task[None] | None = field(init=False, default=None)
    _interrupted: bool = field(init=False, default=False)

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
        default_model: str | None = None,
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
        harness: str | Harness = "auto",
        harness_rules: HarnessRules | None = None,
        harnesses: HarnessRegistry | None = None,
        hooks: Hooks | None = None,
        store: Store | None = None,
        index: Index | None = None,
        registry: Registry | None = None,
        environ: Mapping[str, str] | None = None,
        providers: Mapping[str, ProviderConfig] | None = None,
        wallet: Wallet | None = None,
        fallbacks: Sequence[str] = (),
        strict: bool = False,
        output_limit: int | None = None,
        engine: str | ContextEngine = "linear",
        engine_config: Mapping[str, Any] | None = None,
        engines: EngineRegistry | None = None,
        citations: CitationsMode = "auto",
        patience: Patience | None = None,
        recall_threads: Collection[str] = (),
        agents: AgentLimits | None = None,
        overlays: Overlays | None = None,
        params: Mapping[str, Mapping[str, Any]] | None = None,
        channel: Channel | Mapping[str, Channel] | None = None,
        title: str = "",
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
        default `WEFT_HOME`, or the platform's data directory).
        Raises `ThreadBusy` when someone else writes the thread.
        """
        from .harness.registry import harness_registry
        from .harness.select import HarnessRules
        from .harness.slot import HarnessSlot

        named = model if isinstance(model, str) or model is None else model.name
        if thread is None and named is None:
            raise ConfigError("a new thread needs a model; say which, such as 'openai:gpt-5.5'")
        environ = os.environ if environ is None else environ
        guard_logs()
        async with AsyncExitStack() as stack:
            if store is None:
                home = default_home() if home is None else home
                kept = await stack.enter_async_context(at_home(home))
                store, index = kept.store, index or kept.index
            if index is None:
                index = SqliteIndex(store, home)
                stack.push_async_callback(index.close)
            known = await asyncio.to_thread(Catalog.load, home / "models.toml" if home else None)
            catalog = known.knowing(providers or ())
            slot = HarnessSlot(
                wish=harness,
                catalog=catalog,
                brought=not (model is None or isinstance(model, str)),
                home=home or home_path(),
                environ=environ,
                providers=providers or {},
                rules=harness_rules or HarnessRules(),
                registry=harnesses or harness_registry(),
            )
            stack.push_async_callback(slot.close)
            if thread is None:
                await slot.seat(named or "")  # so that no thread is made in vain
                thread = (await store.create(cwd=_absolute(cwd), title=title)).id
            lease = await store.acquire(thread)
            stack.push_async_callback(lease.release)
            info = await store.info(thread)
            if registry is None:
                registry = await asyncio.to_thread(installed_registry)
            if overlays is None:
                overlays = Overlays(await asyncio.to_thread(installed_overlays))
            view = await load_view(store, info.id, registry)
            asked = named or named_model(view.head, default_model)
            await slot.seat(asked, info.id)
            opened = cls(
                id=info.id,
                store=store,
                index=index,
                registry=registry,
                catalog=catalog,
                lease=lease,
                view=view,
                model=asked,
                cwd=Path(cwd or info.cwd),
                home=home,
                choices=choices or Choices(),
                settings=told(settings, sandbox, approval, network, writable_roots),
                turn=info.turns,
                step=await _newest_step(store, info),
                executor=executor,
                served=slot,
                hooks=hooks,
                client=None if isinstance(model, str) else model,
                environ=environ,
                providers=slot.providers,
                routes=Routes(
                    thread=info.id,
                    catalog=catalog,
                    environ=environ,
                    providers=slot.providers,
                    wallet=wallet,
                    fallbacks=tuple(fallbacks) if isinstance(model, str | None) else (),
                    strict=strict,
                ),
                output_limit=output_limit,
                engine=engine,
                engine_config=engine_config or {},
                engines=engines,
                citations=citations,
                patience=patience,
                recall_threads=recall_threads,
                agents=agents,
                overlays=overlays,
                params=params or {},
                channels=_named(channel),
            )
            opened._offer(tools)
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
        from .agent import Input
        from .harness.hearing import Heard

        given = None
        if said:
            message = await _message(said)
            given = Input(said=message, turn_id=turn_id, provenance=provenance, events=events)
        async with self._turns:
            heard = Heard()
            usual = self.choices
            if schema is not UNSET:
                self.choices = msgspec.structs.replace(usual, output_schema=schema)
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
                self.choices = usual
                self._hearing.listener = self._task = None

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

    async def settled(self, seconds: float) -> None:
        """Wait, no longer than `seconds`, for what the engine does beside the turns.

        Closing breaks it off; a later process takes it up again after its own first turn.
        """
        if self._lifecycle is not None:
            await self._lifecycle.settled(seconds)

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
        last = self.view.upto if at is None else at
        cut = await step_boundary(self.store, self.id, self.registry, last)
        return (await self.store.fork(self.id, cut, title=title)).id

    async def reset(self) -> None:
        """Start from an empty view. The log keeps everything."""
        async with self._turns:
            await self.publish(Recipe(), epoch=self.view.epoch, reason=Reason.RESET)
            await self.served.forget(self)
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
        self.served.select(model or self.model, harness)
        self.served.pin = self.served.pin if harness is None else harness
        self._ask(model or self.model)

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
            wallet=self.routes.wallet,
            fallbacks=self.routes.fallbacks,
            strict=self.routes.strict,
            output_limit=self.output_limit,
            engine=self.engine,
            engine_config=self.engine_config,
            engines=self.engines,
            citations=self.citations,
            patience=self.patience,
            recall_threads=self.recall_threads,
            agents=self.agents,
            overlays=self.overlays,
            params=self.params,
        ) as opened:
            opened.docs = self.docs
            yield opened

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
                await whole(self._desk.send())
            if not self._interrupted:
                raise
        finally:
            self._return()
            await self._cooled()

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

    async def _settle(self) -> None:
        task = self._task
        if task is not None and not task.done():
            self.interrupt()
            await whole(_ended(task))

    async def _close(self) -> None:
        await self._settle()
        await whole(self.subagents.close())
        if self._desk is not None:
            await whole(self._desk.close())
        if self._lifecycle is not None:
            await whole(self._lifecycle.close())
        if self._agent is not None:
            await self._agent.executor.close()
            await self._close_model()
        await whole(self.served.close())  # while the thread is still ours


def _named(channel: Channel | Mapping[str, Channel] | None) -> Mapping[str, Channel]:
    """Channels by the names that replies call them."""
    if channel is None or isinstance(channel, Mapping):
        return channel or {}
    from .desk import HOST

    return {HOST: channel}


def never_began(turn_id: str | None) -> Event:
    """What is heard of a turn that was interrupted before it could do anything."""
    from .harness.events import TurnCompleted

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


async def _newest_step(store: Store, info: ThreadInfo) -> int:
    """The step that the newest turn had reached, for a writer that goes on with it."""
    newest = await store.read(info.id, info.last, info.last) if info.last else []
    return newest[0].step if newest and newest[0].turn == info.turns else 0


def _absolute(place: Path | str | None) -> str:
    return str(Path(place or ".").absolute())
