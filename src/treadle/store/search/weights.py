"""The weights of the ranking: few, each for one principle.

Owns their names and defaults. Invariant: a weight of 0 (a factor of 1) leaves its principle
out, so that each can be measured by itself.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["RankWeights"]


class RankWeights(Struct, frozen=True, omit_defaults=True):
    """How much each principle of the ranking counts; docs/recall.md says how they were chosen."""

    window: float = 1.0
    """The share of a turn's score that the few turns around it give."""
    stretch: float = 0.5
    """The share that the longer stretch of the talk gives."""
    pair: float = 1.0
    """The share of both words that two words add that stand together, as in the query."""
    reply: float = 0.5
    """The share of a question's score that the turns after it get …"""
    same_question: float = 1.5
    """… times this, where it asks the same: where, when, who, why or how."""
    meaning: float = 0.1
    """The share of the whole query that a text gets for each standard deviation by which it is
    closer to the query than is usual; only where there are vectors."""
    user: float = 1.8
    """The factor for a text by itself that the user said …"""
    tool: float = 0.8
    """… and for calls, their outputs and thoughts; for the assistant it is 1."""
    speaker: float = 1.3
    """The factor for turns of the speaker that the question names."""
    answer: float = 1.3
    """The factor for passages with a time or number, where the question asks for one."""
    question: float = 0.8
    """The factor for turns that only ask."""
