"""The turn plan: every policy of one attempt, decided before it begins.

Owns the value that joins the eight domains. Invariant: it is a value: the same route,
traits and settings give the same plan, it can be printed, and nothing in it acts.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..context.mending import Repair
from ..core.entries import Head
from ..core.specs import SPECS
from ..delivery.channel import NO_REPLY
from .fallback import Chain
from .overlays import Overlaid
from .schema import Inventory
from .target import Target
from .traits import Traits
from .transport import Params, add_params

__all__ = ["Authority", "HarnessPlan", "Outlets", "TurnPlan"]


class HarnessPlan(Struct, frozen=True, kw_only=True):
    """Who runs the attempt, and why."""

    id: str
    reason: str = ""
    traits: Traits = Traits()


class Authority(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who we are to the provider; the secret itself is not part of any plan."""

    profile: str = ""
    source: Literal["", "auto", "user"] = ""
    others: tuple[str, ...] = ()
    """Profiles to try after it."""
    missing: str = ""
    """Why no request could be sent, where a plan is only looked at."""


class Outlets(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where replies go, and what stands for none."""

    channels: tuple[str, ...] = ()
    token: str = NO_REPLY


class TurnPlan(Struct, frozen=True, kw_only=True):
    """What was decided for one attempt at a turn."""

    target: Target
    """The model and its address: the route."""
    transport: str
    """How requests travel."""
    harness: HarnessPlan
    auth: Authority
    tools: Inventory
    hooks: tuple[str, ...] = ()
    """The events that somebody is asked or told about."""
    prompt: Overlaid
    transcript: tuple[Repair, ...]
    params: Params
    outcome: Chain
    delivery: Outlets

    def head(self, head: Head) -> Head:
        """A request's head as this plan wants it."""
        return msgspec.structs.replace(add_params(head, self.params), repairs=self.transcript)

    def to_builtins(self) -> dict[str, Any]:
        """The plan in plain values, for people and programs."""
        plain: dict[str, Any] = msgspec.to_builtins(
            msgspec.structs.replace(self, tools=Inventory(specs=())),
            str_keys=True,
            order="deterministic",
        )
        plain["tools"] = {
            "specs": [msgspec.json.decode(SPECS.encode(spec)) for spec in self.tools.specs],
            "strict": self.tools.strict,
            "diagnostics": msgspec.to_builtins(self.tools.diagnostics),
        }
        return plain
