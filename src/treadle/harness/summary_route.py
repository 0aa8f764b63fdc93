"""Which way a summary is asked for: behind the conversation, or apart from it as text.

Owns the comparison of what a provider bills for either. Invariant: where a price is not known,
or nothing was counted yet, the request rides the prefix that the provider may have kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..context.row import Row
from ..core.usage import TokenUsage
from .contract import TurnRun

__all__ = ["is_cheaper_apart"]

_SHOWN_TOKENS = 1_500
"""What the text of a conversation shows of one item, at most."""
_TASK_TOKENS = 400
_CLEARLY = 0.8
"""How much cheaper another request must be, since it shows less."""


def is_cheaper_apart(run: TurnRun, rows: Sequence[Row]) -> bool:
    """Return whether a summary of `rows` costs clearly less as a request of its own.

    What the provider said it had kept of the newest request tells what it will have kept of
    the next one.
    """
    from ..policy.pricing import Pricing  # only for a view that is full

    log = run.log
    counted, profile = log.requests.usage, log.setup.profile
    if counted is None:
        return False
    pricing = run.budget.pricing or Pricing(provider=profile.provider, model=profile.slug)
    whole = log.requests.occupied
    kept = min(counted.total_tokens, whole) if counted.cached_input_tokens else 0
    text = sum(min(row.tokens, _SHOWN_TOKENS) for row in rows if not row.contextual)
    riding = pricing.cost(TokenUsage(input_tokens=whole, cached_input_tokens=kept))
    apart = pricing.cost(TokenUsage(input_tokens=text + _TASK_TOKENS))
    if riding is None or apart is None:
        return False
    return apart.amount < _CLEARLY * riding.amount
