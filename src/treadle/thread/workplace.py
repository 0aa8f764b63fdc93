"""The workplace: what a thread needs to run turns, made when it is first needed.

Owns the thread's agent, its tools, its engine's life and who hears of events. Invariant:
opening a thread for writing loads neither models nor sandbox nor engines until a turn
wants them; only a chosen engine is engaged at once, so that it misses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import field

from ..core.home import home as default_home
from ..core.redact import guard_logs
from ..core.service import Service, later
from ..core.specs import ToolSpec, spec_name
from ..log.thread_log import ThreadLog
from ..policy.fallback import Attempt, Chain
from ..policy.overlays import onto
from ..policy.permissions import approval_of, policy_of
from ..policy.routes import Routes
from ..prompt.developer import DeveloperInstructionsState
from ..prompt.model_switch import ModelState
from ..prompt.observation import PromptContext
from ..prompt.overlay import OverlaySuffixState

if TYPE_CHECKING:
    from ..delivery.channel import Channel
    from ..delivery.outgoing import Desk
    from ..engines.contract import ContextEngine
    from ..engines.registry import EngineRegistry
    from ..engines.session import EngineSession, EngineTimeouts
    from ..engines.slot import EngineSlot
    from ..engines.values import CitationsMode, Complete
    from ..harness.contract import Completes, Harness
    from ..harness.events import Event
    from ..harness.hearing import Hearing
    from ..harness.slot import HarnessSlot
    from ..hooks import Hooks
    from ..models.connect import ProviderConfig
    from ..models.contract import Model
    from ..policy.overlays import Overlays
    from ..policy.turn_plan import TurnPlan
    from ..subagents import AgentLimits, Subagents
    from ..tools.contract import Tool
    from ..tools.executor import ToolExecutor
    from .agent import Agent

__all__ = ["Workplace"]

_log = logging.getLogger(__name__)

_OF_THE_MODEL = frozenset(
    state.id for state in (DeveloperInstructionsState, ModelState, OverlaySuffixState)
)
"""What a model is told because it is that model."""


class Workplace(Service, kw_only=True):
    """A journal with everything around it that turns need."""

    log: ThreadLog
    """What writes the thread."""
    toolset: Sequence[Tool] | None = None
    """The tools of the host; None for the built-in ones."""
    executor: ToolExecutor | None = None
    served: HarnessSlot
    """Which harness was chosen, and the one that runs the turns."""
    hooks: Hooks | None = None
    client: Model | None = None
    """A model to use instead of the one that `model` names."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Where keys and addresses of providers are looked up."""
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    """Providers beside those that Treadle knows, or changes to them."""
    output_limit: int | None = None
    """Tokens of a result that the built-in tools return; None for the model's own limit."""
    engine: str | ContextEngine = "linear"
    """Who decides what the model sees of the conversation: a name, or an engine of the host's."""
    engine_config: Mapping[str, Any] = field(default_factory=dict)
    """What an engine that is named is made with."""
    engines: EngineRegistry | None = None
    """Where engines are found by name; None for those that are installed."""
    citations: CitationsMode = "auto"
    patience: EngineTimeouts | None = None
    """How long an engine may take; None for the usual."""
    recall_threads: Collection[str] = ()
    """Threads beyond its family that its engine may read; ``*`` for all."""
    agents: AgentLimits | None = None
    """What bounds the agents that it may start; None where it starts none."""
    routes: Routes
    """Who may answer, and with whose credentials."""
    overlays: Overlays | None = None
    """What is added to the prompts of some providers' models."""
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What requests say besides, by the name of a provider or of a model."""
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """Where its replies go, besides into the log."""
    observers: list[Callable[[Event], None]] = field(default_factory=list)
    subagents: Subagents = later()
    """The agents that it has started."""
    _agent: Agent | None = None
    _opened_for: Attempt | None = None
    _asked_for: str | None = None
    """The model that was asked for, while another one answers."""
    """The view was folded, so that no account's cache is warm."""
    _builtin: bool = False
    _brought: tuple[Tool | ToolSpec, ...] = ()
    _recall: tuple[Tool, ...] = ()
    """The tools that the engine brings."""
    plan: TurnPlan | None = None
    """What was decided for the newest attempt."""
    _specs: tuple[ToolSpec, ...] = ()
    """The tools as they were offered, before the plan put them into form."""
    _told: set[str] = field(default_factory=set)
    _lifecycle: EngineSession | None = None
    _desk: Desk | None = None
    lent: ToolExecutor | None = later()
    """The executor that the host brought."""
    _ears: Hearing | None = None

    @property
    def harness(self) -> Harness:
        """What runs the turns; another one from the next turn on, if `use` says so."""
        return self.served.harness

    @property
    def brought(self) -> tuple[Tool | ToolSpec, ...] | None:
        """The tools that the host brought; None for the built-in ones."""
        return None if self._builtin else self._brought

    def _extend_context(self, seen: PromptContext) -> PromptContext:
        """Add the plan's overlays, the agents and the commands that the user has approved."""
        from ..sandbox.memory import Approvals

        if self.plan is not None:
            seen = onto(seen, self.plan.prompt.contribution)
        seen = msgspec.structs.replace(seen, subagents=(*seen.subagents, *self.subagents.told))
        home = self.log.setup.home
        if home is None:
            return seen
        prefixes = tuple(tuple(rule.prefix) for rule in Approvals(home).prefixes())
        return msgspec.structs.replace(seen, approved_prefixes=prefixes)

    def adopt(self, settings: PromptContext) -> None:
        """Hold itself to other settings; commands from the next step on."""
        self.log.setup.settings = settings
        if self._agent is not None:
            self._enforce(self._agent)

    def _offer(self, tools: Sequence[Tool | ToolSpec] | None) -> None:
        """Decide what the model may call: the host's tools, or the built-in ones.

        Beside a harness with hands of its own, the built-in ones are not offered.
        """
        from ..subagents import may_spawn

        self._builtin = tools is None
        if tools is None and self.harness.traits.tools:
            tools = ()
        elif tools is None:
            from ..tools.builtin import builtin_tools

            profile = self.log.setup.profile
            tools = builtin_tools(profile, truncation=profile.truncation_policy(self.output_limit))
        else:
            self._brought = tuple(tools)
        if may_spawn(self.log.view.settings, self.log.id, self.agents):
            from ..tools.agents import agent_tools

            tools = (*tools, *agent_tools(self.subagents))
        tools = (*tools, *self._recall)
        self.toolset = tuple(tool for tool in tools if not isinstance(tool, ToolSpec))
        self._specs = self.log.setup.tools = tuple(
            tool if isinstance(tool, ToolSpec) else tool.spec for tool in tools
        )

    def _offer_again(self) -> None:
        """The model, the harness or the engine is another one: so may the tools be."""
        self._offer(self.brought)

    async def _ready(self) -> Agent:
        """The agent, ready for the next turn: made at first use, fitted each time."""
        from .attempts import Candidates

        guard_logs()  # again: what was imported since has loggers, too
        chain = await self.routes.begin(self.log.setup.model)
        await self._fit(chain)
        agent = self._agent
        assert agent is not None, "it was just fitted"
        agent.candidates = Candidates(chain, self._moved, self.routes.note)
        return agent

    async def _fit(self, chain: Chain) -> None:
        """Have everything there that a candidate needs: harness, engine, connection, plan."""
        attempt = chain.present
        moved = await self._seat_harness()
        await self._seat_engine()
        if self._agent is None or self._opened_for != attempt or moved:
            await self._close_model()
            # Looking for a provider may read what is installed.
            model = await asyncio.to_thread(self._connected, attempt)
            if self._agent is None:
                self._agent = self._assembled(model)
            self._agent.model, self._opened_for = model, attempt
            self.log.setup.api = model.format.name
        agent = self._agent
        # Settings may have changed between turns; what the model is told is what holds.
        self._enforce(agent)
        agent.harness, agent.tools = self.harness, tuple(self.toolset or ())
        agent.identity = partial(self.routes.identity, attempt)
        agent.plan = self._plan(chain)

    async def _moved(self, chain: Chain) -> Chain:
        """Make the agent ready for another candidate, in the middle of a turn."""
        chain = await self.routes.ready(chain)
        if self.log.setup.model != chain.model:
            self._asked_for = self._asked_for or self.log.setup.model
            self._ask(chain.model)
        await self._fit(chain)
        await self.log.epochs.renew_head()
        # The rest of the surroundings is the same for whoever answers.
        told = _OF_THE_MODEL - self.harness.traits.fragments
        await self.log.retell(await self.log.setup.observe(), *sorted(told))
        return chain

    def _plan(self, chain: Chain) -> TurnPlan:
        """Decide every policy of the attempt that is next, and go by it."""
        self.plan = self._decided(chain, self.log.setup.api)
        self.log.setup.tools, self.log.setup.finish_head = self.plan.tools.specs, self.plan.head
        self._tell_problems()
        return self.plan

    async def _foreseen(self) -> TurnPlan:
        """What would be decided if a turn began now; nothing is sent, recorded or let go of."""
        chain = await self.routes.begin(self.log.setup.model, looking=True)
        await self._seat_harness()
        await self._seat_engine()
        attempt = chain.present
        plan = self._decided(chain, await self._api_of(attempt))
        known = attempt.profile or self.client or self._reached_by_harness()
        missing = "" if known else self.routes.missing(attempt.model)
        auth = msgspec.structs.replace(plan.auth, missing=missing)
        return msgspec.structs.replace(plan, auth=auth)

    async def _api_of(self, attempt: Attempt) -> str:
        """The API that a connection for a candidate would speak, also where it lacks a key."""
        from ..models.contract import AuthFailed

        try:
            # Looking for a provider may read what is installed.
            model = await asyncio.to_thread(self._connected, attempt)
        except AuthFailed:
            model = self.routes.keyless(attempt.model)
        if model is not self.client:
            await model.close()
        return model.format.name

    def _decided(self, chain: Chain, api: str) -> TurnPlan:
        """Every policy of an attempt by the chain's present candidate."""
        from ..policy.build import Given, build
        from ..policy.transport import asked_of
        from ..policy.turn_plan import HarnessPlan, Outlets

        selection, profile = self.served.selection, self.log.setup.profile
        settings = self.log.setup.settings
        return build(
            Given(
                profile=profile,
                api=api,
                base_url=self.routes.address(self.log.setup.model) if self.client is None else "",
                harness=HarnessPlan(
                    id=self.harness.name, reason=selection.reason, traits=self.harness.traits
                ),
                auth=self.routes.authority(chain),
                tools=self._specs,
                hooks=self.hooks.events if self.hooks else (),
                settings=msgspec.structs.replace(settings, cwd=str(self.log.setup.cwd)),
                choices=self.log.setup.choices,
                extra=asked_of(self.params, profile.provider, profile.slug),
                candidates=chain,
                delivery=Outlets(channels=tuple(self.channels)),
            ),
            self.overlays,
        )

    def _tell_problems(self) -> None:
        """Say once what the plan could not do as it was asked."""
        assert self.plan is not None, "it was just made"
        told = [each.message for each in self.plan.tools.diagnostics]
        for text in (*told, *self.plan.prompt.problems):
            if text not in self._told:
                self._told.add(text)
                self._warn(text)

    def _return(self) -> None:
        """After a turn, ask the model again that was asked for, unless another was meanwhile."""
        asked, self._asked_for = self._asked_for, None
        if (
            asked is not None
            and self._opened_for
            and self._opened_for.model == self.log.setup.model
        ):
            self._ask(asked)

    async def _cooled(self) -> None:
        """After a fold, keep to no profile that nobody chose."""
        folded, self._hearing.folded = self._hearing.folded, False
        if folded:
            await self.routes.released()

    def _ask(self, model: str) -> None:
        """Ask `model` from now on; built-in tools become those it knows."""
        self.log.setup.model = model
        self._offer_again()

    async def _seat_harness(self) -> bool:
        """Have the harness there that the model wants; whether it is another one."""
        moved = await self.served.seat(self.log.setup.model, self.log.id)
        if moved:
            self._engaged().use_harness(self.harness.name, self.harness.capabilities)
            self._offer_again()
        return moved

    async def _seat_engine(self) -> None:
        """Have the engine there, if it can be found, with the tools it brings."""
        own = {spec_name(tool.spec) for tool in self._recall}
        taken = {spec_name(spec) for spec in self.log.setup.tools} - own
        recall = await self._engaged().load_tools(taken)
        if recall != self._recall:
            self._recall = recall
            self._offer_again()

    async def _open_desk(self) -> None:
        """Have replies delivered, first those that were left undelivered."""
        if self.channels:
            from ..delivery.outgoing import Desk

            self._desk = Desk(self.log, self.channels, self._warn)
            await self._desk.send()

    def _warn(self, text: str) -> None:
        from ..harness.events import NoticeRaised

        self._hear(NoticeRaised(level="warning", text=text))

    def _engaged(self) -> EngineSession:
        """The life of the engine in this thread; the same for as long as it is open."""
        if self._lifecycle is None:
            self._lifecycle = self._engage()
            self.subagents.watcher = self._lifecycle
        return self._lifecycle

    def _engage(self) -> EngineSession:
        from ..engines.session import EngineSession, EngineTimeouts
        from ..subagents import Kinship

        return EngineSession(
            log=self.log,
            slot=self._slot(),
            harness=self.harness.name,
            capabilities=self.harness.capabilities,
            citations=self.citations,
            completes=self._completes,
            grants=Kinship(self.log.store, self.recall_threads),
            notify=self._warn,
            report=self._hear,
            timeouts=self.patience or EngineTimeouts(),
        )

    def _slot(self) -> EngineSlot:
        from ..engines.registry import engine_registry
        from ..engines.slot import EngineSlot

        if not isinstance(self.engine, str):
            return EngineSlot.brought(self.engine, self.log.setup.home)
        return EngineSlot.named(
            self.engine,
            self.engines or engine_registry(),
            home=self.log.setup.home,
            cwd=self.log.setup.cwd,
            config=dict(self.engine_config),
        )

    def _completes(self, purpose: str) -> Complete:
        assert self._agent is not None, "engines are asked by an agent"
        return self._agent.complete(purpose)

    def _enforce(self, agent: Agent) -> None:
        settings = self.log.setup.settings
        agent.policy, agent.approval = policy_of(settings), approval_of(settings)
        self.subagents.follow(self.log.setup.settings)

    def _assembled(self, model: Model) -> Agent:
        from ..hooks import Hooks
        from ..sandbox.memory import Approvals
        from ..tools.local.executor import LocalExecutor
        from .agent import Agent
        from .attempts import Candidates

        settings = self.log.setup.settings
        home = self.log.setup.home or default_home()
        self.executor = self.executor or LocalExecutor(home=home)
        return Agent(
            log=self.log,
            engine=self._engaged(),
            model=model,
            tools=tuple(self.toolset or ()),
            executor=self.executor,
            harness=self.harness,
            policy=policy_of(settings),
            approval=approval_of(settings),
            approvals=Approvals(home),
            hooks=self.hooks or Hooks(),
            emit=self._hearing.hear,
            candidates=Candidates(
                Chain(models=(self.log.setup.model,)), self._moved, self.routes.note
            ),
            identity=partial(self.routes.identity, Attempt(model=self.log.setup.model)),
        )

    def _connected(self, attempt: Attempt) -> Model:
        """What answers for a candidate; the harness, where nobody else reaches the provider."""
        if self.client is not None:
            return self.client
        if (harness := self._reached_by_harness()) is not None:
            return harness.model(self.log.setup.model, partial(self.routes.identity, attempt))
        return self.routes.connected(attempt)

    def _reached_by_harness(self) -> Completes | None:
        """The harness, where nobody else reaches the model's provider."""
        from ..harness.contract import Completes

        alone = not self.served.route(self.log.setup.model).reachable
        return self.harness if alone and isinstance(self.harness, Completes) else None

    @property
    def _hearing(self) -> Hearing:
        if self._ears is None:
            from ..harness.hearing import Hearing

            self._ears = Hearing(self.observers)
        return self._ears

    def _hear(self, event: Event) -> None:
        self._hearing.hear(event)

    async def _close_model(self) -> None:
        if self._agent is not None and self.client is None:
            await self._agent.model.close()
