"""What differs between generations of Claude models in a request.

Owns the answers, read off a model's name: how many tokens may be asked for, and how
thinking is asked for. A name without a version counts as the newest generation.
"""

from __future__ import annotations

import re

from ...core.patterns import regex

__all__ = ["most_tokens", "thinking"]

_VERSION = regex(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?", re.IGNORECASE)
_NEWEST = (99, 0)
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_000, "high": 20_000}
_LARGEST_BUDGET = 28_000


def most_tokens(model: str) -> int:
    """How many tokens an answer may have; below what any model of the generation allows."""
    version = _version(model)
    if version < (3, 5):
        return 4_096
    return 8_192 if version < (3, 7) else 32_000


def thinking(model: str, effort: str | None, *, shown: bool) -> dict[str, object]:
    """The fields that ask for thinking: with a budget, or adaptive with an effort."""
    if effort in (None, "none") or (version := _version(model)) < (3, 7):
        return {}
    assert effort is not None
    if version < (4, 6):
        budget = _BUDGETS.get(effort, _LARGEST_BUDGET)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    adaptive = {"type": "adaptive"} | ({"display": "summarized"} if shown else {})
    return {"thinking": adaptive, "output_config": {"effort": _effort(version, effort)}}


def _effort(version: tuple[int, int], effort: str) -> str:
    """The level that comes nearest: `xhigh` came after `max`, with 4.7."""
    if effort == "xhigh" and version < (4, 7):
        return "max"
    return "low" if effort == "minimal" else effort


def _version(model: str) -> tuple[int, int]:
    found = _VERSION.search(model)
    return _NEWEST if found is None else (int(found[1]), int(found[2] or 0))
