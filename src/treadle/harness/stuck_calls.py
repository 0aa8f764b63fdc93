"""Stuck calls: a model that repeats one call without end, or writes calls that nobody can run.

Owns when it is told, and when its turn ends. Invariants: a call counts as repeated only while
nothing else was called and its result stayed the same; a call that waited is no repetition; a
turn that ends so has failed, with a message that says why.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..models.formats.function_calls import flat_name
from ..policy.failures import Failure
from ..prompt.announcements import RepeatedCall, UnreadableCall

if TYPE_CHECKING:
    from ..tools.dispatch import FinishedCall
    from .contract import TurnRun

__all__ = ["MOST_REPEATED", "MOST_REPEATED_LOCALLY", "MOST_UNREADABLE", "StuckCalls"]

MOST_REPEATED = 100
"""How often a turn may make one call in a row for the same result: some look until it changes."""

MOST_REPEATED_LOCALLY = 10
"""The same for models that may write their calls as text; these mostly find no way out."""

MOST_UNREADABLE = 2
"""How often a turn is told that its call could not be read."""

_TOLD_AT = 4
"""After so many the model is told, and again after twice as many each time."""

_WAITED = 4.0
"""Seconds after which a call was waiting for something."""

_VARYING = re.compile(r'^(?:Chunk ID|Wall time): .*$|"duration_seconds":[\d.]+', re.MULTILINE)
"""What differs between two runs of one command in any case."""


class StuckCalls:
    """What one turn has repeated, and what of it could not be read."""

    def __init__(self) -> None:
        self._newest: tuple[object, ...] = ()
        self._times = 0
        self._told = 0
        self._unreadable = 0

    def add(self, finished: FinishedCall) -> None:
        """Note a call that has its result."""
        call, output = finished.call, finished.result.output
        shown = _VARYING.sub("", output) if isinstance(output, str) else output
        seen = (call.namespace, call.name, call.arguments, shown)
        waited = finished.seconds >= _WAITED
        self._times = 1 if waited or seen != self._newest else self._times + 1
        self._newest = () if waited else seen

    def repeated(self) -> RepeatedCall | None:
        """Return what the model is told now of its repetitions."""
        is_doubled = self._times & (self._times - 1) == 0
        if self._times < _TOLD_AT or self._told == self._times or not is_doubled:
            return None
        self._told = self._times
        return RepeatedCall(str(self._newest[1]), self._times)

    def unreadable(self, run: TurnRun, text: str) -> UnreadableCall | None:
        """Return what the model is told of a call in its last message that could not be read."""
        forms = run.plan.text_calls if run.plan is not None else ()
        if not forms or not run.tools_by_name or not text:
            return None
        from ..models.text_calls import find_calls

        names = [flat_name(name, namespace) for namespace, name in run.tools_by_name]
        problem = find_calls(text, forms, {name: {} for name in names}).problem
        if not problem:
            return None
        self._unreadable += 1
        return UnreadableCall(problem, ", ".join(sorted(names)))

    def failure(self, run: TurnRun) -> Failure | None:
        """Return why the turn ends here, if it does."""
        writes_calls = run.plan is not None and bool(run.plan.text_calls)
        if self._times >= (MOST_REPEATED_LOCALLY if writes_calls else MOST_REPEATED):
            message = (
                f"the model called {self._newest[1]!r} {self._times} times in a row with the same "
                "arguments and the same result; say what it should do instead"
            )
            return Failure(reason="format", code="repeated_call", message=message)
        if self._unreadable > MOST_UNREADABLE:
            message = (
                "the model writes its calls as text that cannot be read; use a model that was "
                "trained to call tools, or a server that has a template for it"
            )
            return Failure(reason="format", code="unreadable_call", message=message)
        return None
