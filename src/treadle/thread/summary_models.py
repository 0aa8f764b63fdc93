"""The summary models of a thread: who writes summaries in place of its own model.

Owns the way from the names in the options to connections, by the usual routes and
credentials. Invariants: they are part of the plan of a turn; a connection is made when the
first summary is asked for, and where that fails the thread's own model writes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..context.head import build_head
from ..core.errors import TreadleError
from ..core.redact import one_line
from ..harness.events import Event, NoticeRaised
from ..harness.summary_model import SummaryModel
from ..policy.build import PlanInputs, build_plan, check_price
from ..policy.fallback import Attempt, Chain
from ..policy.pricing import Pricing
from ..policy.transport import asked_of
from ..policy.turn_plan import HarnessPlan, SummaryUse, TurnPlan

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..models.contract import Model
    from ..policy.routes import Routes
    from .options import ThreadOptions

__all__ = ["SummaryModels", "summary_names"]

_LOSSLESS = "lossless"
_LOOP = "treadle"
"""Requests for summaries are ours, whatever runs the turns."""


def summary_names(options: ThreadOptions) -> Mapping[SummaryUse, str]:
    """Return the names of the models that write summaries, by what those are for."""
    named: dict[SummaryUse, object] = {"compaction": options.engine.compaction_model}
    if options.engine.engine == _LOSSLESS:
        named["engine"] = options.engine.config.get("model")
    return {use: name for use, name in named.items() if isinstance(name, str) and name}


class SummaryModels:
    """The models that write summaries for one thread."""

    def __init__(
        self,
        log: ThreadLog,
        options: ThreadOptions,
        routes: Routes,
        emit: Callable[[Event], None],
    ) -> None:
        self.found: Mapping[SummaryUse, Attempt] = {}
        """Who writes them in the present turn."""
        self._log = log
        self._options = options
        self._routes = routes
        self._emit = emit
        self._open: dict[Attempt, SummaryModel] = {}

    async def find(self, *, counts_money: bool) -> None:
        """Look who writes summaries now. Raises `ConfigError` where nobody could charge it."""
        found: dict[SummaryUse, Attempt] = {}
        catalog = self._log.setup.catalog
        for use, name in summary_names(self._options).items():
            model = catalog.full_name(name)
            if model == self._log.setup.model:
                continue
            if counts_money:
                check_price(self._pricing(model))
            chain = Chain(models=(model,), strict=True)
            found[use] = (await self._routes.with_profiles(chain, looking=True)).present
        self.found = found

    async def connect(self, plan: TurnPlan | None, use: SummaryUse) -> SummaryModel | None:
        """Return a connection to who writes summaries by a plan; None where nobody else does."""
        attempt = plan.summaries.get(use) if plan is not None else None
        if attempt is None:
            return None
        if attempt not in self._open:
            try:
                # Looking for a provider may read what is installed.
                model = await asyncio.to_thread(self._routes.connect, attempt)
                self._open[attempt] = self._describe(attempt, model)
            except TreadleError as error:
                text = f"{attempt.model} cannot be asked for summaries: {one_line(str(error))}"
                own = f"{self._log.setup.model} writes them"
                self._emit(NoticeRaised(level="warning", text=f"{text}; {own}"))
                return None
        return self._open[attempt]

    async def close(self) -> None:
        """Close the connections."""
        connected, self._open = self._open, {}
        for each in connected.values():
            await each.model.close()

    def _describe(self, attempt: Attempt, model: Model) -> SummaryModel:
        profile = self._log.setup.catalog.profile(attempt.model)
        params, prices = self._options.routing.params, self._options.routing.prices
        api = model.format.name
        plan = build_plan(
            PlanInputs(
                profile=profile,
                api=api,
                capabilities=model.capabilities,
                base_url=self._routes.address(attempt.model),
                harness=HarnessPlan(id=_LOOP),
                extra=asked_of(params, profile.provider, profile.slug) if params else {},
                candidates=Chain(models=(attempt.model,)),
                prices=prices if self._pricing(attempt.model).currency else None,
            )
        )
        head = plan.head(build_head(profile, instructions="", api=api))
        return SummaryModel(name=attempt.model, model=model, head=head, pricing=plan.pricing)

    def _pricing(self, model: str) -> Pricing:
        profile = self._log.setup.catalog.profile(model)
        own = self._options.routing.prices
        return Pricing(provider=profile.provider, model=profile.slug, own=own)
