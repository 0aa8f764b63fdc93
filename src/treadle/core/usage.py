"""Usage and rate limits, as a provider reports them.

Owns the token figures of a response and of a thread. Invariant: a figure the
provider did not report is None, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from .money import Bill

__all__ = [
    "BASELINE_TOKENS",
    "MOST_TOKENS",
    "Credits",
    "InputDetails",
    "OutputDetails",
    "RateLimitSnapshot",
    "RateLimitWindow",
    "ThreadUsage",
    "TokenUsage",
    "WireUsage",
]

BASELINE_TOKENS = 12_000
"""Tokens every conversation starts with; left out when showing how much room is left."""

MOST_TOKENS = 10**12
"""The largest figure that counts: a wrong report must not spoil sums or the log."""

_LARGEST_NUMBER = 2.0**53


class InputDetails(Struct, frozen=True, omit_defaults=True):
    """The cached part of the input."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(Struct, frozen=True, omit_defaults=True):
    """The reasoning part of the output."""

    reasoning_tokens: int | None = None


class WireUsage(Struct, frozen=True, omit_defaults=True):
    """Usage as the Responses API writes it."""

    input_tokens: int = 0
    input_tokens_details: InputDetails | None = None
    output_tokens: int = 0
    output_tokens_details: OutputDetails | None = None
    total_tokens: int = 0


class TokenUsage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one response, or a running sum of them."""

    input_tokens: int = 0
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int = 0
    reasoning_output_tokens: int | None = None
    total_tokens: int = 0

    @classmethod
    def from_wire(cls, usage: WireUsage) -> TokenUsage:
        """Return the figures of a Responses `usage` object, each between 0 and `MOST_TOKENS`."""
        given, made = usage.input_tokens_details, usage.output_tokens_details
        total = usage.total_tokens or usage.input_tokens + usage.output_tokens
        return cls(
            input_tokens=_figure(usage.input_tokens),
            cached_input_tokens=_figure_or_none(given.cached_tokens if given else None),
            cache_write_input_tokens=_figure_or_none(given.cache_write_tokens if given else None),
            output_tokens=_figure(usage.output_tokens),
            reasoning_output_tokens=_figure_or_none(made.reasoning_tokens if made else None),
            total_tokens=_figure(total),
        )

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Return the sum; a figure is known as soon as one side reported it."""
        cached = _sum(self.cached_input_tokens, other.cached_input_tokens)
        written = _sum(self.cache_write_input_tokens, other.cache_write_input_tokens)
        reasoning = _sum(self.reasoning_output_tokens, other.reasoning_output_tokens)
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=cached,
            cache_write_input_tokens=written,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_output_tokens=reasoning,
            total_tokens=self.total_tokens + other.total_tokens,
        )

    @property
    def uncached_tokens(self) -> int:
        """Tokens that were not served from a cache."""
        return self.input_tokens - (self.cached_input_tokens or 0) + self.output_tokens


class ThreadUsage(Struct, frozen=True, omit_defaults=True):
    """Usage of a thread, without that of the agents it started."""

    total: TokenUsage = TokenUsage()
    """What all of its turns cost that have ended; a fork counts its own."""
    last: TokenUsage = TokenUsage()
    """What the provider counted for the newest answer."""
    context_window: int | None = None
    cost: Bill = Bill()
    """What all of its answers cost, those outside the conversation and rolled back ones too."""
    agents: TokenUsage = TokenUsage()
    """What the agents used that it started, and theirs."""
    agents_cost: Bill = Bill()

    @property
    def percent_left(self) -> int | None:
        """Share of the window still free beyond the baseline; None without a window."""
        if self.context_window is None:
            return None
        room = self.context_window - BASELINE_TOKENS
        if room <= 0:
            return 0
        used = max(self.last.total_tokens - BASELINE_TOKENS, 0)
        # Halves are rounded up, not to even.
        return min(max(math.floor(100 * (room - used) / room + 0.5), 0), 100)


class RateLimitWindow(Struct, frozen=True, omit_defaults=True):
    """One window of a rate limit; `resets_at` is in Unix seconds."""

    used_percent: float
    window_minutes: int | None = None
    resets_at: int | None = None


class Credits(Struct, frozen=True, omit_defaults=True):
    """Credits of an account."""

    has_credits: bool
    unlimited: bool
    balance: str | None = None


class RateLimitSnapshot(Struct, frozen=True, omit_defaults=True):
    """What a provider reports of one of its limits."""

    limit_id: str | None = None
    limit_name: str | None = None
    primary: RateLimitWindow | None = None
    secondary: RateLimitWindow | None = None
    credits: Credits | None = None
    individual_limit: float | None = None
    spend_control_reached: bool | None = None
    plan_type: str | None = None
    rate_limit_reached_type: str | None = None

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> tuple[RateLimitSnapshot, ...]:
        """Return one snapshot for each limit in response headers, the default limit first."""
        lower = {name.lower(): value for name, value in headers.items()}
        suffix = "-primary-used-percent"
        found = {
            name[2 : -len(suffix)]
            for name in lower
            if name.startswith("x-") and name.endswith(suffix)
        } - {""}
        ordered = sorted(found, key=lambda limit: (limit != "codex", limit))
        return tuple(_snapshot(limit, lower) for limit in ordered)


def _figure(count: int) -> int:
    return min(max(count, 0), MOST_TOKENS)


def _figure_or_none(count: int | None) -> int | None:
    return None if count is None else _figure(count)


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


def _snapshot(limit: str, headers: Mapping[str, str]) -> RateLimitSnapshot:
    return RateLimitSnapshot(
        limit_id=limit.replace("-", "_"),
        limit_name=headers.get(f"x-{limit}-limit-name"),
        primary=_window(f"x-{limit}-primary", headers),
        secondary=_window(f"x-{limit}-secondary", headers),
        credits=_credits(headers) if limit == "codex" else None,
    )


def _window(prefix: str, headers: Mapping[str, str]) -> RateLimitWindow | None:
    used = _number(headers.get(f"{prefix}-used-percent"))
    minutes = _number(headers.get(f"{prefix}-window-minutes"))
    reset = _number(headers.get(f"{prefix}-reset-at"))
    if used is None or (used == 0 and minutes is None and reset is None):
        return None
    return RateLimitWindow(
        used, None if minutes is None else int(minutes), None if reset is None else int(reset)
    )


def _credits(headers: Mapping[str, str]) -> Credits | None:
    has = headers.get("x-codex-credits-has-credits")
    if has is None:
        return None
    return Credits(
        has_credits=has.strip().lower() == "true",
        unlimited=headers.get("x-codex-credits-unlimited", "").strip().lower() == "true",
        balance=headers.get("x-codex-credits-balance"),
    )


def _number(text: str | None) -> float | None:
    try:
        number = math.nan if text is None else float(text)
    except ValueError:
        return None
    return number if abs(number) <= _LARGEST_NUMBER else None
