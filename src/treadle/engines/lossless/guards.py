"""Guards: when a model may be asked for a summary.

Owns the breaker for models whose credentials fail and the budget of calls per thread.
Invariant: whatever went wrong, time alone puts it right: nothing here stays refused
for ever, and nothing of it outlives the process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = ["BreakerStatus", "Clock", "GuardLimits", "GuardStatus", "Guards", "SpendStatus"]

Clock: TypeAlias = Callable[[], float]
"""Seconds that only ever grow."""


class GuardLimits(Struct, frozen=True, kw_only=True):
    """How much is too much; times are in seconds."""

    auth_failures: int = 5
    """In a row, before a model is left alone."""
    open_for: float = 1_800.0
    probe_for: float = 120.0
    """How long one trial after that may take before another is let through."""
    calls: int = 24
    """Of one thread, within `window`."""
    window: float = 600.0
    back_off: float = 1_800.0
    threads: int = 1_000
    """How many threads are watched; the one that was quiet longest is forgotten first."""


class BreakerStatus(Struct, frozen=True, kw_only=True):
    """A model whose credentials failed."""

    model: str
    failures: int
    retry_in: float
    """Seconds until it is tried again; 0 while it may be asked."""


class SpendStatus(Struct, frozen=True, kw_only=True):
    """A thread that asked for summaries lately."""

    thread: str
    calls: int
    retry_in: float


class GuardStatus(Struct, frozen=True, kw_only=True):
    """What the guards know right now."""

    breakers: tuple[BreakerStatus, ...] = ()
    spending: tuple[SpendStatus, ...] = ()


class _Breaker(Struct):
    """Failures in a row of one model."""

    failures: int = 0
    until: float = 0.0


class _Spending(Struct):
    """The calls of one thread within the window."""

    calls: deque[float] = field(default_factory=deque)
    until: float = 0.0


class Guards(Struct, frozen=True):
    """The guards of one engine, as one thread meets them: `guards.of(thread)`.

    Breakers are shared by all threads; the budget is each thread's own.
    """

    clock: Clock = time.monotonic
    limits: GuardLimits = field(default_factory=GuardLimits)
    thread: str = ""
    manual: bool = False
    """Someone asked for it: the budget does not refuse, and starts anew."""
    _breakers: dict[str, _Breaker] = field(default_factory=dict)
    _spending: dict[str, _Spending] = field(default_factory=dict)

    def of(self, thread: str, *, manual: bool = False) -> Guards:
        """The same guards for one thread's calls."""
        return replace(self, thread=thread, manual=manual)

    def admit(self, model: str) -> str:
        """Book one call; why it may not be made, or ``""`` when it may."""
        now = self.clock()
        breaker = self._breakers.get(model)
        if breaker is not None and now < breaker.until:
            return f"the credentials of {model!r} failed {breaker.failures} times in a row"
        refusal = self._spend(now)
        if not refusal and breaker is not None and breaker.until:
            # Half open: one trial at a time, and no trial that vanishes keeps it shut.
            breaker.until = now + self.limits.probe_for
        return refusal

    def succeeded(self, model: str) -> None:
        """The model answered, whatever it said."""
        self._breakers.pop(model, None)

    def auth_failed(self, model: str) -> None:
        """The model's credentials were refused."""
        breaker = self._breakers.setdefault(model, _Breaker())
        breaker.failures += 1
        if breaker.failures >= self.limits.auth_failures:
            breaker.until = self.clock() + self.limits.open_for

    def status(self) -> GuardStatus:
        """What is refused, and for how long."""
        now = self.clock()
        breakers = [
            BreakerStatus(model=model, failures=one.failures, retry_in=max(0.0, one.until - now))
            for model, one in sorted(self._breakers.items())
        ]
        spending = [
            SpendStatus(thread=thread, calls=calls, retry_in=max(0.0, one.until - now))
            for thread, one in sorted(self._spending.items())
            if (calls := self._recent(one, now)) or one.until > now
        ]
        return GuardStatus(breakers=tuple(breakers), spending=tuple(spending))

    def _spend(self, now: float) -> str:
        spending = self._spending.pop(self.thread, None) or _Spending()
        self._spending[self.thread] = spending
        while len(self._spending) > self.limits.threads:
            self._spending.pop(next(iter(self._spending)))
        if self.manual:
            spending.until = 0.0
            spending.calls.clear()
        if now < spending.until:
            return f"thread {self.thread!r} has asked for too many summaries"
        if self._recent(spending, now) >= self.limits.calls:
            spending.until = now + self.limits.back_off
            spending.calls.clear()
            return f"thread {self.thread!r} has asked for too many summaries"
        spending.calls.append(now)
        return ""

    def _recent(self, spending: _Spending, now: float) -> int:
        while spending.calls and spending.calls[0] <= now - self.limits.window:
            spending.calls.popleft()
        return len(spending.calls)
