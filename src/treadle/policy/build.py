"""Building a plan: from a route and a harness's traits to a turn plan.

Owns the order in which domains are asked. Invariant: every domain is asked exactly once
for an attempt, and what it answers is in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..context.head import Choices
from ..core.specs import ToolSpec
from ..models.profile import ModelProfile
from .fallback import Chain
from .overlays import Overlaid
from .repair import repairs_for
from .schema import normalise
from .target import target_of
from .transport import extra_params, resolve
from .turn_plan import Authority, HarnessPlan, Outlets, TurnPlan

__all__ = ["PlanInputs", "build_plan"]

_TRANSPORTS = {"codex": "codex-app-server"}
"""How requests travel where not by our own connections."""


class PlanInputs(Struct, frozen=True, kw_only=True):
    """What an attempt is planned from."""

    profile: ModelProfile
    api: str
    base_url: str = ""
    harness: HarnessPlan
    auth: Authority = Authority()
    tools: Sequence[ToolSpec] = ()
    hooks: tuple[str, ...] = ()
    prompt: Overlaid = Overlaid()
    """What overlays add for this model, in this turn."""
    choices: Choices = Choices()
    extra: Mapping[str, Any] = {}
    """Parameters that the user's settings say, by any of their names."""
    candidates: Chain
    delivery: Outlets = Outlets()


def build_plan(given: PlanInputs) -> TurnPlan:
    """Return the plan of one attempt. Raises `ConfigError` for parameters that cannot be sent."""
    profile, harness = given.profile, given.harness
    target = target_of(profile, api=given.api, base_url=given.base_url, harness=harness.id)
    extra = extra_params(profile, target, given.extra) if given.extra else None
    return TurnPlan(
        target=target,
        transport=_TRANSPORTS.get(harness.id, "https+sse"),
        harness=harness,
        auth=given.auth,
        tools=normalise(given.tools, target),
        hooks=given.hooks,
        prompt=given.prompt,
        transcript=repairs_for(target.provider, given.api),
        params=resolve(profile, target, given.choices, extra),
        outcome=given.candidates,
        delivery=given.delivery,
    )
