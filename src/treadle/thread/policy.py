"""The policy of a thread: everything that is decided before an attempt at a turn.

Owns the candidates, the harness, the tools, the rights and the plan that joins them.
Invariants: a plan is a function of its inputs, is kept while they stay the same, and what
the model is told about sandbox and approvals is what is enforced.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ..core.errors import ConfigError
from ..core.specs import ToolSpec, spec_name
from ..harness.contract import Completes
from ..policy.build import PlanInputs, build_plan
from ..policy.fallback import Attempt, Chain
from ..policy.overlays import add_contribution
from ..policy.permissions import approval_policy, sandbox_policy
from ..policy.transport import asked_of
from ..policy.turn_plan import HarnessPlan, Outlets
from ..prompt.contributions import Audience
from ..sandbox.approvals import Approvals
from ..subagents import can_spawn
from ..tools.dispatch import tools_by_name

if TYPE_CHECKING:
    from ..harness.contract import Harness
    from ..harness.thread_harness import ThreadHarness
    from ..log.thread_log import ThreadLog
    from ..models.contract import Model
    from ..policy.overlays import Overlays
    from ..policy.routes import Routes
    from ..policy.turn_plan import TurnPlan
    from ..prompt.prompt_context import PromptContext
    from ..sandbox.approvals import ApprovalPolicy
    from ..sandbox.policy import SandboxPolicy
    from ..subagents import Subagents
    from ..tools.contract import Tool
    from ..tools.dispatch import ToolsByName
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
        self.tools: tuple[Tool, ...] = ()
        """What the model may call and is run here."""
        self.tools_by_name: ToolsByName = {}
        self.taken_tool_names: frozenset[str] = frozenset()
        """The names that an engine's own tools may not have."""
        self.engine_tools: tuple[Tool, ...] = ()
        self.plan: TurnPlan | None = None
        """The plan of the newest attempt."""
        self._log = log
        self._subagents = subagents
        self._warn = warn
        self._warned: set[str] = set()
        self._specs: tuple[ToolSpec, ...] = ()
        """The tools as they are offered, before the plan puts them into form."""
        self._planned: tuple[PlanInputs, TurnPlan] | None = None
        log.setup.extend_context = self.extend_context
        self.offer_tools()

    @property
    def harness(self) -> Harness:
        """What runs the turns."""
        return self.harnesses.harness

    @property
    def sandbox(self) -> SandboxPolicy:
        """What commands may do."""
        return sandbox_policy(self._log.setup.settings)

    @property
    def approval(self) -> ApprovalPolicy:
        """When the user is asked."""
        return approval_policy(self._log.setup.settings)

    def extend_context(self, context: PromptContext) -> PromptContext:
        """Add the plan's overlays, the agents and the commands that the user has approved."""
        if self.plan is not None:
            context = add_contribution(context, self.plan.prompt.contribution)
        agents = (*context.subagents, *self._subagents.listed_agents)
        context = msgspec.structs.replace(context, subagents=agents)
        home = self._log.setup.home
        if home is None:
            return context
        rules = Approvals(home).load_prefixes(self._log.setup.cwd)
        confined = self.sandbox.mode != "danger-full-access"
        prefixes = tuple(rule.prefix for rule in rules if rule.outside or confined)
        return msgspec.structs.replace(context, approved_prefixes=prefixes)

    def ask_model(self, model: str) -> None:
        """Ask `model` from now on; built-in tools become those it knows."""
        self._log.setup.use_model(model)
        self.offer_tools()

    def offer_tools(self) -> None:
        """Decide what the model may call: the host's tools, or the built-in ones.

        Beside a harness with tools of its own, the built-in ones are not offered.
        """
        tools = self.options.tools.tools
        _check_names(tools or ())
        if tools is None:
            tools = () if self.harness.traits.tools else self._builtin_tools()
        view = self._log.view
        if can_spawn(view.settings, self._log.id, self.options.agents):
            from ..tools.agents import agent_tools

            tools = (*tools, *agent_tools(self._subagents))
        tools = (*tools, *self.engine_tools)
        self.tools = tuple(tool for tool in tools if not isinstance(tool, ToolSpec))
        self.tools_by_name = tools_by_name(self.tools)
        self._specs = self._log.setup.tools = tuple(
            tool if isinstance(tool, ToolSpec) else tool.spec for tool in tools
        )
        own = {spec_name(tool.spec) for tool in self.engine_tools}
        self.taken_tool_names = frozenset(map(spec_name, self._specs)) - own

    def _builtin_tools(self) -> tuple[Tool, ...]:
        from ..tools.builtin_tools import builtin_tools

        profile = self._log.setup.profile
        limit = self.options.tools.output_limit
        return tuple(builtin_tools(profile, truncation=profile.truncation_policy(limit)))

    def offer_engine_tools(self, tools: tuple[Tool, ...]) -> None:
        """Offer the tools that the engine brings."""
        if tools != self.engine_tools:
            self.engine_tools = tools
            self.offer_tools()

    def decide(self, chain: Chain) -> TurnPlan:
        """Decide every policy of the chain's present candidate, and let requests go by it."""
        setup = self._log.setup
        plan = self.plan_for(chain, setup.api)
        if plan is not self.plan:
            self._warn_of_problems(plan)
        self.plan = plan
        setup.tools, setup.finish_head = plan.tools.specs, plan.head
        return plan

    def plan_for(self, chain: Chain, api: str) -> TurnPlan:
        """Return the plan of an attempt: the one before, while what it depends on is the same."""
        inputs, known = self._inputs(chain, api), self._planned
        if known is None or known[0] != inputs:
            known = self._planned = inputs, build_plan(inputs)
        return known[1]

    def _inputs(self, chain: Chain, api: str) -> PlanInputs:
        setup, options = self._log.setup, self.options
        params = options.routing.params
        profile, harness = setup.profile, self.harnesses.harness
        settings = msgspec.structs.replace(setup.settings, cwd=str(setup.cwd))
        audience = Audience(provider=profile.provider, model=profile.slug)
        return PlanInputs(
            profile=profile,
            api=api,
            base_url=self.routes.address(setup.model) if options.client is None else "",
            harness=HarnessPlan(
                id=harness.name, reason=self.harnesses.selection.reason, traits=harness.traits
            ),
            auth=self.routes.authority(chain),
            tools=self._specs,
            hooks=options.hooks.events if options.hooks else (),
            # Asked each time: an overlay may say something else in each turn.
            prompt=self.overlays.resolve(audience, settings),
            choices=setup.choices,
            extra=asked_of(params, profile.provider, profile.slug) if params else {},
            candidates=chain,
            delivery=Outlets(channels=tuple(options.channels)),
        )

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
        plan = self.plan_for(chain, await self._api_of(attempt))
        known = attempt.profile or self.options.client or self._harness_model()
        missing = "" if known else self.routes.missing(attempt.model)
        auth = msgspec.structs.replace(plan.auth, missing=missing)
        return msgspec.structs.replace(plan, auth=auth)

    async def _api_of(self, attempt: Attempt) -> str:
        """Return the API that a connection would speak, also where it lacks a key."""
        from ..models.contract import AuthFailed

        try:
            # Looking for a provider may read what is installed.
            model = await asyncio.to_thread(self.connect, attempt)
        except AuthFailed:
            model = self.routes.keyless(attempt.model)
        if model is not self.options.client:
            await model.close()
        return model.format.name

    def connect(self, attempt: Attempt) -> Model:
        """Return what answers for a candidate; the harness, where nobody else reaches it."""
        if self.options.client is not None:
            return self.options.client
        if (harness := self._harness_model()) is not None:
            return harness.model(self._log.setup.model, partial(self.routes.identity, attempt))
        return self.routes.connect(attempt)

    def _harness_model(self) -> Completes | None:
        """Return the harness, where nobody else reaches the model's provider."""
        alone = not self.harnesses.route(self._log.setup.model).reachable
        return self.harness if alone and isinstance(self.harness, Completes) else None


def _check_names(tools: Sequence[Tool | ToolSpec]) -> None:
    """Raise `ConfigError` if a host has given two tools one name: a call would mean either."""
    names = Counter(spec_name(tool if isinstance(tool, ToolSpec) else tool.spec) for tool in tools)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ConfigError(f"two tools are called {twice[0]!r}; give one of them another name")
