"""Tools that a provider runs itself, where the user wants them and the model has them.

Owns who has a web search of their own. Invariant: nothing is offered that was not asked for,
and what a model does not have is left out instead of spoiling its requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.specs import ToolSpec, WebSearchTool
from ..models.profile import ModelProfile
from .param_values import check
from .target import OPENAI_FAMILY, Target

__all__ = ["with_hosted_tools"]


def with_hosted_tools(
    specs: Sequence[ToolSpec],
    profile: ModelProfile,
    target: Target,
    asked: Mapping[str, object],
) -> tuple[ToolSpec, ...]:
    """`specs` and the hosted tools that settings ask for. Raises `ConfigError`.

    Codex has a search of its own, and settings of its own for it.
    """
    wanted = asked.get("web_search", False)
    check(wanted, "web_search", "true or false", lambda value: isinstance(value, bool))
    there = any(isinstance(spec, WebSearchTool) for spec in specs)
    if not wanted or there or not _has_search(profile, target):
        return tuple(specs)
    return (*specs, WebSearchTool())


def _has_search(profile: ModelProfile, target: Target) -> bool:
    if target.harness != "treadle":
        return False
    if target.api == "messages":
        return target.provider == "anthropic"
    is_openai = target.provider in OPENAI_FAMILY and target.api == "responses"
    return is_openai and profile.web_search != "none"
