"""Checks of what a host says of a thread, before anything is made.

Owns what is refused early. Invariant: a thread is never made with a model, an effort, an
engine or tools that cannot be; an engine that an existing thread had and that is gone is a
matter for its turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..context.head import Choices
from ..core.errors import InvalidOption
from ..core.specs import ToolSpec
from ..engines.loading import engine_registry
from ..models.providers import check_model_name
from ..policy.build import check_price
from ..policy.effort import check_effort
from ..policy.pricing import Pricing
from .options import Limits, PromptOptions, Rights, Routing, ThreadOptions
from .summary_models import summary_names

if TYPE_CHECKING:
    from ..harness.thread_harness import ThreadHarness
    from ..models.catalog import Catalog

__all__ = ["check_options", "check_used_model", "check_values"]

_KINDS = {
    "title": str,
    "choices": Choices,
    "rights": Rights,
    "routing": Routing,
    "prompt": PromptOptions,
    "limits": Limits,
}


def check_values(options: ThreadOptions) -> None:
    """Raise `InvalidOption` for values of another kind than was asked for."""
    for name, kind in _KINDS.items():
        given: Any = getattr(options, name)
        if not isinstance(given, kind):
            raise InvalidOption(f"{given!r} cannot be {name!r}; give a {kind.__name__}")
    model: Any = options.model
    if model is not None and not isinstance(model, str) and not hasattr(model, "stream"):
        raise InvalidOption(
            f"{model!r} is no model; give a name such as 'openai:gpt-5.5', or a `Model`"
        )
    tools: Any = options.tools.tools or ()
    for tool in tools if isinstance(tools, Iterable) else (tools,):
        if not isinstance(tool, ToolSpec) and not hasattr(tool, "spec"):
            raise InvalidOption(f"{tool!r} is no tool; `@treadle.tool` makes one of a function")


async def check_options(
    options: ThreadOptions, catalog: Catalog, harnesses: ThreadHarness, *, new: bool
) -> None:
    """Raise `InvalidOption` for a model, an effort, an engine or a limit that cannot be."""
    if options.model_name is not None and options.client is None:
        # An unknown name is looked up among all packages that are installed.
        await asyncio.to_thread(check_used_model, options.model_name, catalog, harnesses)
        check_effort(catalog.profile(options.model_name), options.choices.effort)
    if options.model_name is not None and options.limits.cost is not None:
        profile = catalog.profile(options.model_name)
        own = options.routing.prices
        check_price(Pricing(provider=profile.provider, model=profile.slug, own=own))
    for name in (*options.routing.fallbacks, *summary_names(options).values()):
        await asyncio.to_thread(check_used_model, name, catalog, harnesses)
    engine = options.engine
    if new and isinstance(engine.engine, str):
        await (engine.registry or engine_registry()).check_name(engine.engine)


def check_used_model(name: str, catalog: Catalog, harnesses: ThreadHarness) -> None:
    """Raise `InvalidOption` for the name of no model; a harness knows its own."""
    if not name.partition(":")[2].strip() and name.rstrip().endswith(":"):
        raise InvalidOption(f"{name!r} names no model; write 'PROVIDER:MODEL'")
    if harnesses.route(name).reachable:
        check_model_name(name, catalog, harnesses.providers)
