"""Budgets: what a turn has spent of its limits, counted while it runs.

Owns the figures of one turn and its clock. What an agent spends is charged to the turn that
started it, too, and an agent ends where that turn would. Invariants: an answer is charged
once; while the user is asked something, no time passes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from ..core.usage import TokenUsage
from ..log.thread_log import ThreadLog
from ..policy.limits import LimitReached, Limits, Spent, find_reached
from ..prompt.announcements import TurnAborted

if TYPE_CHECKING:
    from ..policy.pricing import Pricing

__all__ = ["Budget", "OutOfTime", "tell_limit"]

_GUIDANCE = (
    "The runtime ended the last turn, because {reason}.\n"
    "What was done until then is kept; go on from there when you are asked to."
)


class OutOfTime(Exception):
    """The time of a turn is over."""

    def __init__(self, reached: LimitReached) -> None:
        super().__init__(reached.text)
        self.reached = reached


class Budget:
    """What one turn may use, and has used."""

    def __init__(self, limits: Limits | None = None, starter: Budget | None = None) -> None:
        self.limits = limits or Limits()
        self.pricing: Pricing | None = None
        """How answers are charged, where money is limited."""
        self.currency = ""
        self.spent = Spent()
        """What was used before and since, but for the time that has passed since."""
        self.starter = starter
        self._began = time.monotonic()
        self.asking = 0
        """How many questions to the user are open."""
        self._asked_at = 0.0
        self.clocks: dict[asyncio.Timeout, Budget] = {}
        """The clocks that go by this budget, its agents' among them, with whose they are."""

    @property
    def counts_money(self) -> bool:
        """Whether money is limited, here or for whoever started the turn."""
        return any(each.limits.cost is not None for each in self._line())

    def add(
        self, usage: TokenUsage | None, *, steps: int = 0, pricing: Pricing | None = None
    ) -> None:
        """Charge an answer, here and to whoever started the turn; another model's by its price."""
        usage, pricing = usage or TokenUsage(), pricing or self.pricing
        cost = pricing.cost(usage) if pricing is not None else None
        spent = Spent(steps=steps, tokens=usage.total_tokens, cost=cost.amount if cost else 0.0)
        self.currency = cost.currency if cost else self.currency
        for each in self._line():
            each.spent += spent

    def reached(self) -> LimitReached | None:
        """Return the limit that ends the turn, if one is reached."""
        for each in self._line():
            if (found := find_reached(each.limits, each.now(), self.currency)) is not None:
                return found
        return None

    @asynccontextmanager
    async def clock(self) -> AsyncGenerator[None, None]:
        """Break off what is done inside when the time is over, and raise `OutOfTime`."""
        ends = self.ends_at()
        line = tuple(self._line())
        if not any(each.limits.seconds is not None for each in line):
            yield
            return
        try:
            async with asyncio.timeout_at(ends) as timeout:
                for each in line:
                    each.clocks[timeout] = self
                yield
        except TimeoutError:
            if not timeout.expired():
                raise
            raise OutOfTime(self._overdue()) from None
        finally:
            for each in line:
                each.clocks.pop(timeout, None)

    @contextmanager
    def standing_still(self) -> Generator[None, None, None]:
        """Let no time pass while the user is asked."""
        for each in self._line():
            each.stop()
        try:
            yield
        finally:
            for each in self._line():
                each.go_on()

    def stop(self) -> None:
        """Let the time stand still until `go_on` was called as often."""
        if not self.asking:
            self._asked_at = time.monotonic()
        self.asking += 1
        self._set_clocks()

    def go_on(self) -> None:
        """Let the time go on."""
        self.asking -= 1
        if not self.asking:
            self._began += time.monotonic() - self._asked_at
        self._set_clocks()

    def _set_clocks(self) -> None:
        for timeout, owner in self.clocks.items():
            if not timeout.expired():
                timeout.reschedule(owner.ends_at())

    def ends_at(self) -> float | None:
        """Return when the time is over, by the clock of the loop; None while it stands still."""
        left: list[float] = []
        for each in self._line():
            if each.limits.seconds is not None:
                if each.asking:
                    return None
                left.append(each.limits.seconds - each.now().seconds)
        return asyncio.get_running_loop().time() + min(left) if left else None

    def _overdue(self) -> LimitReached:
        """Return the limit of the time that is over."""
        timed = [each for each in self._line() if each.limits.seconds is not None]
        first = min(timed, key=lambda each: (each.limits.seconds or 0) - each.now().seconds)
        most = first.limits.seconds or 0
        return LimitReached(limit="time", most=most, spent=max(most, first.now().seconds))

    def now(self) -> Spent:
        """Return what is used by now, the time too."""
        now = self._asked_at if self.asking else time.monotonic()
        return self.spent + Spent(seconds=now - self._began)

    def _line(self) -> Iterator[Budget]:
        """Yield this budget and those of whoever started it, the nearest first."""
        each: Budget | None = self
        while each is not None:
            yield each
            each = each.starter


async def tell_limit(log: ThreadLog, reached: LimitReached) -> None:
    """Tell the user and the model, in the log, why the turn ends."""
    await log.note(f"{reached.text}; the turn ends here", level="warning")
    await log.say(TurnAborted(_GUIDANCE.format(reason=reached.text)))
