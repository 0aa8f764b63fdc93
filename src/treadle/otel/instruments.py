"""Instruments: the metrics of one meter.

Owns their names, units and bounds. Invariant: what a metric is split by has few values.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.metrics import Counter, Histogram, Meter

from ..core.usage import TokenUsage
from . import conventions as names

__all__ = ["Instruments"]


class Instruments:
    """Records durations, tokens and breaks of the prefix."""

    def __init__(self, meter: Meter) -> None:
        self._durations: dict[str, Histogram] = {
            name: meter.create_histogram(
                name, unit="s", explicit_bucket_boundaries_advisory=list(bounds)
            )
            for name, bounds in (
                (names.AGENT_DURATION, names.TURN_BOUNDS),
                (names.CHAT_DURATION, names.STEP_BOUNDS),
                (names.CHUNK_DURATION, names.STEP_BOUNDS),
                (names.TOOL_DURATION, names.STEP_BOUNDS),
            )
        }
        self._tokens: Histogram = meter.create_histogram(
            names.USAGE,
            unit="{token}",
            explicit_bucket_boundaries_advisory=list(names.TOKEN_BOUNDS),
        )
        self._efficiency: Histogram = meter.create_histogram(
            names.EFFICIENCY,
            unit="1",
            description="What a provider served from its cache, beside what it could have",
            explicit_bucket_boundaries_advisory=[0.1 * tenth for tenth in range(1, 11)],
        )
        self._breaks: Counter = meter.create_counter(
            names.BREAKS,
            unit="{request}",
            description="Requests that changed the cached prefix",
        )

    def time(self, name: str, seconds: float, split: Mapping[str, str]) -> None:
        """Record how long something took."""
        self._durations[name].record(seconds, split)

    def count(self, usage: TokenUsage, split: Mapping[str, str]) -> None:
        """Record the tokens of an answer."""
        self._tokens.record(usage.input_tokens, {**split, names.USAGE_TYPE: "input"})
        self._tokens.record(usage.output_tokens, {**split, names.USAGE_TYPE: "output"})

    def rate_cache(self, efficiency: float, split: Mapping[str, str]) -> None:
        """Record how much of what could be cached was."""
        self._efficiency.record(efficiency, split)

    def count_break(self, reason: str, split: Mapping[str, str]) -> None:
        """Record that a request changed the prefix of the one before."""
        self._breaks.add(1, {**split, names.EPOCH_REASON: reason})
