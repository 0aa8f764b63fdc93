"""Building a plan: from a route and a harness's traits to a turn plan.

Owns the order in which domains are asked. Invariant: every domain is asked exactly once
for an attempt, and what it answers is in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..context.head import Choices
from ..core.errors import InvalidOption
from ..core.specs import ToolSpec
from ..models.contract import Capabilities
from ..models.profile import ModelProfile
from .fallback import Attempt, Chain
from .hosted_tools import with_hosted_tools
from .limits import Limits
from .overlays import Overlaid
from .pricing import Pricing
from .repair import repairs_for
from .schema import normalise
from .target import target_of
from .traits import Traits
from .transport import Params, check_schema, extra_params, limit, resolve, unheld
from .turn_plan import Authority, HarnessPlan, Outlets, SummaryUse, TurnPlan

if TYPE_CHECKING:
    from ..config.settings import Price

__all__ = ["PlanInputs", "build_plan", "check_price"]


class PlanInputs(Struct, frozen=True, kw_only=True):
    """What an attempt is planned from."""

    profile: ModelProfile
    api: str
    capabilities: Capabilities | None = None
    """What the connection's API takes, where it is known."""
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
    family: str = ""
    """Which instructions and tools the model gets."""
    window_use: bool = False
    limits: Limits = Limits()
    summaries: Mapping[SummaryUse, Attempt] = {}
    """Who writes summaries in place of the thread's model."""
    prices: Mapping[str, Price] | None = None
    """The user's own prices, where the turn is limited in money."""
    currency: str = ""
    """The currency of the limit; empty where the attempt decides on it."""


def build_plan(given: PlanInputs) -> TurnPlan:
    """Return the plan of one attempt.

    Raises `ConfigError` for parameters that cannot be sent, and for a limit in money where the
    price is not known.
    """
    profile, harness = given.profile, given.harness
    target = target_of(
        profile,
        api=given.api,
        base_url=given.base_url,
        harness=harness.id,
        traits=harness.traits,
    )
    extra = extra_params(profile, target, given.extra) if given.extra else None
    # A harness that sends its own requests knows what their API takes.
    able = given.capabilities if harness.traits.transport == Traits().transport else None
    params = resolve(profile, target, given.choices, extra)
    if able is not None:
        check_schema(able, given.choices, profile)
        params = limit(params, able)
    return TurnPlan(
        target=target,
        transport=harness.traits.transport,
        harness=harness,
        auth=given.auth,
        tools=normalise(
            with_hosted_tools(given.tools, profile, target, given.extra),
            target,
            freeform=able is None or able.freeform_tools,
        ),
        hooks=given.hooks,
        prompt=given.prompt,
        transcript=repairs_for(target.provider, given.api),
        params=params,
        unheld=unheld(target, given.extra),
        capabilities=able,
        outcome=given.candidates,
        delivery=given.delivery,
        family=given.family,
        text_calls=profile.text_calls if given.api == "chat" else (),
        window_use=given.window_use,
        limits=given.limits,
        summaries=given.summaries,
        pricing=_pricing(given, params),
    )


def _pricing(given: PlanInputs, params: Params) -> Pricing | None:
    """Return how answers are charged; None where money is not counted."""
    if given.prices is None:
        return None
    pricing = Pricing(
        provider=given.profile.provider,
        model=given.profile.slug,
        own=given.prices,
        service_tier=params.service_tier,
        cache_ttl=params.cache_ttl,
    )
    check_price(pricing, given.currency)
    return pricing


def check_price(pricing: Pricing, currency: str = "") -> None:
    """Raise `InvalidOption` where answers could not be charged, in `currency` if that is given."""
    name = f"{pricing.provider}:{pricing.model}"
    own = pricing.currency
    if not own:
        raise InvalidOption(
            f"a turn cannot be limited in money, because the price of {name!r} is not known; "
            f'set it in the settings ([prices."{name}"] with input and output, for a million '
            "tokens), or limit steps, time or tokens instead"
        )
    if currency and own != currency:
        raise InvalidOption(
            f"the limit of the turn is in {currency}, but the price of {name!r} is in {own}; "
            f'set [prices."{name}"] in {currency}'
        )
