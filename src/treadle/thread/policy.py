"""The policy of a thread: everything that is decided before an attempt at a turn.

Owns the candidates, the harness, the tools, the rights and the plan that joins them.
Invariants: a plan is a function of its inputs, is kept while they stay the same, and what
the model is told about sandbox and approvals is what is enforced.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ..core.errors import ConfigError
from ..core.home import home_path
from ..core.specs import ToolSpec, spec_name
from ..harness.contract import Completes
from ..models.contract import AuthFailed
from ..policy.build import PlanInputs, build_plan
from ..policy.fallback import Attempt, Chain
from ..policy.family import SMALL, decide_family
from ..policy.overlays import add_contribution
from ..policy.permissions import approval_policy, sandbox_policy
from ..policy.pricing import Pricing
from ..policy.transport import asked_of
from ..policy.turn_plan import HarnessPlan, Outlets
from ..prompt.contributions import Audience
from ..sandbox.approvals import Approvals
from ..subagents import can_spawn
from ..tools.agents import agent_tools
from ..tools.builtin_tools import builtin_tools
from ..tools.dispatch import tools_by_name
from .option_checks import check_used_model
from .window_learning import WindowLearning

if TYPE_CHECKING:
    from ..harness.contract import Harness
    from ..harness.thread_harness import ThreadHarness
    from ..log.setup import RequestSetup
    from ..log.thread_log import ThreadLog
    from ..models.contract import Model
    from ..policy.identity import Identity
    from ..policy.overlays import Overlays
    from ..policy.routes import Routes
    from ..policy.turn_plan import SummaryUse, TurnPlan
    from ..prompt.prompt_context import PromptContext
    from ..sandbox.approvals import ApprovalPolicy
    from ..sandbox.policy import SandboxPolicy
    from ..skills.thread_skills import ThreadSkills
    from ..subagents import Subagents
    from ..tools.contract import Tool
    from ..tools.dispatch import ToolsByName
    from .offered_servers import OfferedServers
    from .options import ThreadOptions

__all__ = ["ThreadPolicy"]


class ThreadPolicy:
    """Decides for one thread; it never acts on a model or a machine."""

    def __init__(
        self,
        log: ThreadLog,
        options: ThreadOptions,
        *,
        routes: Routes,
        harnesses: ThreadHarness,
        overlays: Overlays,
        subagents: Subagents,
        warn: Callable[[str], None],
    ) -> None:
        self.options = options
        self.routes = routes
        self.harnesses = harnesses
        self.overlays = overlays
        self.family = ""
        """Which instructions and tools the model gets."""
        self.tools: tuple[Tool, ...] = ()
        """What the model may call and is run here."""
        self.tools_by_name: ToolsByName = {}
        self.taken_tool_names: frozenset[str] = frozenset()
        """The names that an engine's own tools may not have."""
        self.engine_tools: tuple[Tool, ...] = ()
        self.plan: TurnPlan | None = None
        """The plan of the newest attempt."""
        self.limits = options.limits
        """How far the present turn may go."""
        self.counts_money = self.limits.cost is not None
        """Whether the present turn, or that of whoever started it, is limited in money."""
        self.summaries: Mapping[SummaryUse, Attempt] = {}
        """Who writes summaries in place of the thread's model."""
        self._log = log
        self._subagents = subagents
        self._warn = warn
        self._warned: set[str] = set()
        self.servers = _offered_servers(log, options)
        """What the MCP servers of the thread bring."""
        self._specs: tuple[ToolSpec, ...] = ()
        """The tools as they are offered, before the plan puts them into form."""
        self._planned: tuple[PlanInputs, TurnPlan] | None = None
        self._address: tuple[str, str] | None = None
        """A model, and where its provider is."""
        self._windows = WindowLearning(log.setup, routes)
        self.skills = _thread_skills(log, options, warn)
        """What the thread does with skills; None where it has none."""
        log.setup.extend_context = self.extend_context
        self.offer_tools()

    @property
    def setup(self) -> RequestSetup:
        """What requests are made with."""
        return self._log.setup

    @property
    def harness(self) -> Harness:
        """What runs the turns."""
        return self.harnesses.harness

    @property
    def sandbox(self) -> SandboxPolicy:
        """What commands may do."""
        return sandbox_policy(self._log.setup.rights)

    @property
    def approval(self) -> ApprovalPolicy:
        """When the user is asked."""
        return approval_policy(self._log.setup.settings)

    def extend_context(self, context: PromptContext) -> PromptContext:
        """Add the plan's overlays, the agents and the commands that the user has approved."""
        if self.options.prompt.window_use:
            used = self._log.requests.window_level
            context = msgspec.structs.replace(context, window_used=used)
        if self.plan is not None:
            context = add_contribution(context, self.plan.prompt.contribution)
        agents = (*context.subagents, *self._subagents.listed_agents)
        skills = self.skills.listed() if self.skills and self.family != SMALL else ()
        kinds = self._subagents.kinds.listed() if self._starts_agents else ()
        facts = self.servers.facts(own_tools=self.harness.traits.tools) if self.servers else ()
        context = msgspec.structs.replace(
            context, subagents=agents, agent_types=kinds, skills=skills, mcp_servers=facts
        )
        home = self._log.setup.home
        if home is None:
            return context
        rules = Approvals(home).load_prefixes(self._log.setup.cwd)
        confined = self.sandbox.mode != "danger-full-access"
        prefixes = tuple(rule.prefix for rule in rules if rule.outside or confined)
        return msgspec.structs.replace(context, approved_prefixes=prefixes)

    def use(self, model: str | None, harness: str | None) -> None:
        """Use another model or harness from the next turn on.

        Raises `ConfigError`, and then nothing has changed.
        """
        client, harnesses, setup = self.options.client, self.harnesses, self._log.setup
        if model is not None and client is not None:
            raise ConfigError(
                f"the model {client.name!r} is the host's; open the thread with {model!r}"
            )
        harnesses.select(model or setup.model, harness)
        if model is not None:
            check_used_model(model, setup.catalog, harnesses)
        harnesses.pin = harnesses.pin if harness is None else harness
        self.ask_model(model or setup.model)

    def ask_model(self, model: str) -> None:
        """Ask `model` from now on; built-in tools become those it knows."""
        self._log.setup.use_model(model)
        self.offer_tools()

    def offer_tools(self) -> None:
        """Decide what the model may call: the host's tools, or the built-in ones.

        Beside a harness with tools of its own, the built-in ones are not offered; a small
        window gets few of them, and none for agents and skills.
        """
        self._decide_family()
        tools = self.options.tools.tools
        _check_names(tools or ())
        if tools is None:
            tools = () if self.harness.traits.tools else self._builtin_tools()
        if self._starts_agents:
            tools = (*tools, *agent_tools(self._subagents))
        if self.skills is not None and self.family != SMALL:
            from ..skills.skill_tool import skill_tool

            tools = (*tools, skill_tool(self.skills))
        servers, deferred = self._server_tools()
        if (allows := self.options.tools.allows) is not None:
            tools = tuple(each for each in tools if allows(_tool_name(each)))
        tools = (*tools, *self.engine_tools, *servers)
        ours = (tool for tool in tools if not isinstance(tool, ToolSpec))
        self.tools = (*ours, *deferred)
        self.tools_by_name = tools_by_name(self.tools)
        self._specs = self._log.setup.tools = tuple(
            tool if isinstance(tool, ToolSpec) else tool.spec for tool in tools
        )
        own = {spec_name(tool.spec) for tool in self.engine_tools}
        self.taken_tool_names = frozenset(map(spec_name, self._specs)) - own

    def _decide_family(self) -> None:
        setup = self._log.setup
        self.family = setup.family = decide_family(
            setup.profile, setup.instructions, self._log.view.head
        )
        setup.tells_skills = self.skills is not None and self.family != SMALL

    @property
    def _starts_agents(self) -> bool:
        """Whether the model has the tools for agents."""
        if self.family == SMALL:
            return False
        options = self.options.agents
        limits = None if options is None else options.limits
        return can_spawn(self._log.view.settings, self._log.id, limits)

    def _server_tools(self) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
        """Return what MCP servers bring to the requests, and what runs though none has it."""
        if self.servers is None:
            return (), ()
        own_tools = self.harness.traits.tools
        offer = self.servers.offer(own_tools=own_tools)
        if self._log.setup.takes_deferred and not own_tools:
            offer = offer.for_provider()
        if (allows := self.options.tools.allows) is not None:
            offer = offer.only(allows)
        return offer.direct, offer.deferred

    def _builtin_tools(self) -> tuple[Tool, ...]:
        setup = self._log.setup
        profile = setup.profile
        if profile.apply_patch == "freeform" and not setup.takes_freeform:
            profile = profile.override(apply_patch="function")
        if not setup.takes_images:
            # What it shows could not be sent.
            profile = profile.override(images=False)
        small = self.family == SMALL
        return tuple(
            builtin_tools(profile, shell=setup.shell, truncation=setup.truncation, small=small)
        )

    def offer_engine_tools(self, tools: tuple[Tool, ...]) -> None:
        """Offer the tools that the engine brings."""
        if tools != self.engine_tools:
            self.engine_tools = tools
            self.offer_tools()

    def decide(self, chain: Chain) -> TurnPlan:
        """Decide every policy of the chain's present candidate, and let requests go by it."""
        plan = self.plan_for(chain)
        if plan is not self.plan:
            self._warn_of_problems(plan)
        self.follow(plan)
        return plan

    def follow(self, plan: TurnPlan) -> None:
        """Let requests go by a plan."""
        self.plan = plan
        setup = self._log.setup
        setup.api, setup.tools, setup.finish_head = plan.target.api, plan.tools.specs, plan.head

    def plan_for(self, chain: Chain) -> TurnPlan:
        """Return the plan of an attempt: the one before, while what it depends on is the same."""
        inputs, known = self._inputs(chain), self._planned
        if known is None or known[0] != inputs:
            known = self._planned = inputs, build_plan(inputs)
        return known[1]

    def _inputs(self, chain: Chain) -> PlanInputs:
        setup, options = self._log.setup, self.options
        params = options.routing.params
        profile = setup.profile
        settings = msgspec.structs.replace(setup.settings, cwd=str(setup.cwd))
        audience = Audience(provider=profile.provider, model=profile.slug)
        return PlanInputs(
            profile=profile,
            api=setup.api,
            capabilities=setup.capabilities,
            base_url=self._address_of(setup.model) if options.client is None else "",
            harness=(planned := self._harness_plan()),
            auth=self.routes.authority(chain, planned),
            tools=self._specs,
            hooks=options.hooks.events if options.hooks else (),
            # Asked each time: an overlay may say something else in each turn.
            prompt=self.overlays.resolve(audience, settings),
            choices=setup.choices,
            extra=asked_of(params, profile.provider, profile.slug) if params else {},
            candidates=chain,
            delivery=Outlets(channels=tuple(options.channels)),
            family=self.family,
            window_use=options.prompt.window_use,
            limits=self.limits,
            summaries=self.summaries,
            prices=options.routing.prices if self.counts_money else None,
            currency=self._currency(chain) if self.counts_money else "",
        )

    def _address_of(self, model: str) -> str:
        """Return where the provider of a model was when its connection was made, or is now."""
        if self._address is None or self._address[0] != model:
            self._address = model, self.routes.address(model)
        return self._address[1]

    def _currency(self, chain: Chain) -> str:
        """Return the currency of a limit in money: that of the model that was asked for."""
        if chain.at == 0:
            return ""
        first = self._log.setup.catalog.profile(chain.models[0])
        own = self.options.routing.prices
        return Pricing(provider=first.provider, model=first.slug, own=own).currency

    def _harness_plan(self) -> HarnessPlan:
        harness = self.harness
        return HarnessPlan(
            id=harness.name, reason=self.harnesses.selection.reason, traits=harness.traits
        )

    async def identity(self, attempt: Attempt, *, rejected: str = "") -> Identity:
        """Return who a candidate is to its provider. Raises `AuthError`."""
        return await self.routes.identity(attempt, self._harness_plan(), rejected=rejected)

    def _warn_of_problems(self, plan: TurnPlan) -> None:
        """Say once what the plan could not do as it was asked."""
        problems = [each.message for each in plan.tools.diagnostics]
        for text in (*problems, *plan.prompt.problems):
            if text not in self._warned:
                self._warned.add(text)
                self._warn(text)

    async def foresee(self) -> TurnPlan:
        """Return what would be decided if a turn began now; nothing is sent or let go of."""
        chain = await self.routes.candidates(self._log.setup.model, looking=True)
        attempt = chain.present
        await self.learn_window(keeps=False)
        await self._look_at(attempt)
        plan = self.plan_for(chain)
        known = attempt.profile or self.options.client or self._harness_model()
        missing = "" if known else self.routes.missing(attempt.model)
        auth = msgspec.structs.replace(plan.auth, missing=plan.auth.missing or missing)
        return msgspec.structs.replace(plan, auth=auth)

    async def learn_window(self, *, keeps: bool = True) -> None:
        """Have the server of one's own say how wide its model's window is, once."""
        if self.options.client is None and await self._windows.learn(keeps=keeps):
            self.offer_tools()

    def use_connection(self, model: Model) -> None:
        """Make requests as `model` takes them; built-in tools become those it knows."""
        setup = self._log.setup
        before = setup.offers_by
        setup.connect_to(model)
        if before != setup.offers_by:
            self.offer_tools()

    async def _look_at(self, attempt: Attempt) -> None:
        """Learn what a connection would take, also where it lacks a key."""
        try:
            # Looking for a provider may read what is installed.
            model = await asyncio.to_thread(self.connect, attempt)
        except AuthFailed:
            model = self.routes.keyless(attempt.model)
        self.use_connection(model)
        if model is not self.options.client:
            await model.close()

    def connect(self, attempt: Attempt) -> Model:
        """Return what answers for a candidate; the harness, where nobody else reaches it."""
        self._address = None
        if self.options.client is not None:
            return self.options.client
        if (harness := self._harness_model()) is not None:
            return harness.model(self._log.setup.model, partial(self.identity, attempt))
        return self.routes.connect(attempt)

    def _harness_model(self) -> Completes | None:
        """Return the harness, where nobody else reaches the model's provider."""
        alone = not self.harnesses.route(self._log.setup.model).reachable
        return self.harness if alone and isinstance(self.harness, Completes) else None


def _thread_skills(
    log: ThreadLog, options: ThreadOptions, warn: Callable[[str], None]
) -> ThreadSkills | None:
    if options.skills is None:
        return None
    from ..skills.skill_library import SkillLibrary  # reads files, which many threads never do
    from ..skills.thread_skills import ThreadSkills

    library = SkillLibrary(log.setup.home or home_path(), options.skills)
    return ThreadSkills(log, library, warn)


def _offered_servers(log: ThreadLog, options: ThreadOptions) -> OfferedServers | None:
    if options.tools.mcp is None:
        return None
    from .offered_servers import OfferedServers

    return OfferedServers(log, options.tools.mcp)


def _check_names(tools: Sequence[Tool | ToolSpec]) -> None:
    """Raise `ConfigError` if a host has given two tools one name: a call would mean either."""
    names = Counter(map(_tool_name, tools))
    if twice := [name for name, count in names.items() if count > 1]:
        raise ConfigError(f"two tools are called {twice[0]!r}; give one of them another name")


def _tool_name(tool: Tool | ToolSpec) -> str:
    return spec_name(tool if isinstance(tool, ToolSpec) else tool.spec)
