"""Limit the calls of models that write summaries.

Owns the circuit breaker for models whose credentials fail and the budget of calls per
thread. Invariant: every refusal ends by itself after some time, and none outlives the
process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = ["BreakerStatus", "BudgetStatus", "CallLimiter", "CallLimits", "LimiterStatus"]

_Clock: TypeAlias = Callable[[], float]


class CallLimits(Struct, frozen=True, kw_only=True):
    """The limits; times are in seconds."""

    auth_failures: int = 5
    """Failures in a row after which a model is not asked for `open_for` seconds."""
    open_for: float = 1_800.0
    probe_for: float = 120.0
    """How long one trial after that may take before the next one is allowed."""
    calls: int = 24
    """Calls that one thread may make within `window`."""
    window: float = 600.0
    back_off: float = 1_800.0
    threads: int = 1_000
    """How many threads are remembered; the one that was quiet longest is forgotten first."""


class BreakerStatus(Struct, frozen=True, kw_only=True):
    """A model whose credentials failed."""

    model: str
    failures: int
    retry_in: float
    """Seconds until it is tried again; 0 while it may be asked."""


class BudgetStatus(Struct, frozen=True, kw_only=True):
    """A thread that asked for summaries within the window."""

    thread: str
    calls: int
    retry_in: float


class LimiterStatus(Struct, frozen=True, kw_only=True):
    """The present state of a limiter."""

    breakers: tuple[BreakerStatus, ...] = ()
    budgets: tuple[BudgetStatus, ...] = ()


class _Breaker(Struct):
    """Failures in a row of one model."""

    failures: int = 0
    until: float = 0.0


class _Budget(Struct):
    """The calls of one thread within the window."""

    calls: deque[float] = field(default_factory=deque)
    until: float = 0.0


class CallLimiter(Struct, frozen=True):
    """The limiter of one engine; `for_thread` returns it for the calls of one thread.

    Breakers are shared by all threads; each thread has its own budget.
    """

    clock: _Clock = time.monotonic
    """Returns seconds that only grow."""
    limits: CallLimits = field(default_factory=CallLimits)
    thread: str = ""
    manual: bool = False
    """Whether the user asked for the summary: the budget then never refuses, and starts anew."""
    _breakers: dict[str, _Breaker] = field(default_factory=dict)
    _budgets: dict[str, _Budget] = field(default_factory=dict)

    def for_thread(self, thread: str, *, manual: bool = False) -> CallLimiter:
        """Return the same limiter for the calls of one thread."""
        return replace(self, thread=thread, manual=manual)

    def book_call(self, model: str) -> str:
        """Book one call; return why it may not be made, or ``""`` when it may."""
        now = self.clock()
        breaker = self._breakers.get(model)
        if breaker is not None and now < breaker.until:
            return f"the credentials of {model!r} failed {breaker.failures} times in a row"
        refusal = self._book_budget(now)
        if not refusal and breaker is not None and breaker.until:
            # Half open: one trial at a time; a trial that never ends does not keep it shut.
            breaker.until = now + self.limits.probe_for
        return refusal

    def record_success(self, model: str) -> None:
        """Close the breaker of a model that answered, whatever it said."""
        self._breakers.pop(model, None)

    def record_auth_failure(self, model: str) -> None:
        """Count a call whose credentials were refused, and open the breaker after too many."""
        breaker = self._breakers.setdefault(model, _Breaker())
        breaker.failures += 1
        if breaker.failures >= self.limits.auth_failures:
            breaker.until = self.clock() + self.limits.open_for

    def status(self) -> LimiterStatus:
        """Return what is refused, and for how long."""
        now = self.clock()
        breakers = [
            BreakerStatus(model=model, failures=one.failures, retry_in=max(0.0, one.until - now))
            for model, one in sorted(self._breakers.items())
        ]
        budgets = [
            BudgetStatus(thread=thread, calls=calls, retry_in=max(0.0, one.until - now))
            for thread, one in sorted(self._budgets.items())
            if (calls := self._recent_calls(one, now)) or one.until > now
        ]
        return LimiterStatus(breakers=tuple(breakers), budgets=tuple(budgets))

    def _book_budget(self, now: float) -> str:
        budget = self._budgets.pop(self.thread, None) or _Budget()
        self._budgets[self.thread] = budget
        while len(self._budgets) > self.limits.threads:
            self._budgets.pop(next(iter(self._budgets)))
        if self.manual:
            budget.until = 0.0
            budget.calls.clear()
        if now < budget.until:
            return f"thread {self.thread!r} has asked for too many summaries"
        if self._recent_calls(budget, now) >= self.limits.calls:
            budget.until = now + self.limits.back_off
            budget.calls.clear()
            return f"thread {self.thread!r} has asked for too many summaries"
        budget.calls.append(now)
        return ""

    def _recent_calls(self, budget: _Budget, now: float) -> int:
        while budget.calls and budget.calls[0] <= now - self.limits.window:
            budget.calls.popleft()
        return len(budget.calls)
