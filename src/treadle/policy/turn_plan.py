"""The turn plan: every policy of one attempt, decided before it begins.

Owns the value that joins the eight domains. Invariant: it is a value: the same route,
traits and settings give the same plan, it can be printed, and nothing in it acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..context.mending import Repair
from ..core.entries import Head
from ..core.specs import SPECS
from ..delivery.channel import NO_REPLY
from ..models.contract import Capabilities
from .fallback import Attempt, Chain
from .family import SMALL
from .limits import Limits
from .overlays import Overlaid
from .schema import Inventory
from .target import Target
from .traits import Traits
from .transport import Params, add_params

if TYPE_CHECKING:
    from .pricing import Pricing

__all__ = ["Authority", "HarnessPlan", "Outlets", "SummaryUse", "TurnPlan"]


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
    login: Literal["", "native", "api-key", "profile"] = ""
    """How a harness signs in, if it does so itself: as ever, with a key, or with the tokens."""
    missing: str = ""
    """Why no request could be sent: the route is refused, or a plan is only looked at."""


class Outlets(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where replies go, and what stands for none."""

    channels: tuple[str, ...] = ()
    token: str = NO_REPLY


SummaryUse: TypeAlias = Literal["compaction", "engine"]
"""What summaries are for: the runtime's own compaction, or what the engine asks."""


class TurnPlan(Struct, frozen=True, kw_only=True):
    """What was decided for one attempt at a turn."""

    target: Target
    """The model and its address: the route."""
    transport: str
    """How requests travel."""
    harness: HarnessPlan
    auth: Authority
    family: str = ""
    """The family of instructions and tools: ``small`` ones are short."""
    text_calls: tuple[str, ...] = ()
    """The forms of calls that are read from the text of answers."""
    tools: Inventory
    hooks: tuple[str, ...] = ()
    """The events that somebody is asked or told about."""
    prompt: Overlaid
    transcript: tuple[Repair, ...]
    params: Params
    unheld: tuple[str, ...] = ()
    """What settings ask for and this harness cannot be told; the user is."""
    capabilities: Capabilities | None = None
    """What the API of our own requests takes; None where the harness sends its own."""
    outcome: Chain
    delivery: Outlets
    window_use: bool = False
    """Whether the model is told how full its window is, also between steps."""
    limits: Limits = Limits()
    """How far the turn may go."""
    summaries: Mapping[SummaryUse, Attempt] = {}
    """Other models that write summaries, and who pays them."""
    pricing: Pricing | None = None
    """How answers are charged to a limit in money; None where there is none."""

    def head(self, head: Head) -> Head:
        """A request's head as this plan wants it."""
        head = msgspec.structs.replace(
            add_params(head, self.params),
            repairs=self.transcript,
            family=SMALL if self.family == SMALL else "",
            text_calls=self.text_calls,
        )
        able = self.capabilities
        if able is None:
            return head
        return msgspec.structs.replace(
            head, images=head.images and able.images, cache_key=able.prompt_cache_key
        )

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
