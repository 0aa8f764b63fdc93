"""An automaton: runs a pattern over a text, one look at each character.

Owns the machine behind safe regular expressions: all ways through a pattern are followed
at once, and sets of ways that were met before are remembered. Invariant: the work grows
with the text and the pattern only, never with the ways they can meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ...core.errors import SearchRefused
from .pattern import Chars, Choice, Edge, Node, Pattern, Repeat, Row

__all__ = ["MOST_STATES", "Automaton", "Work", "WorkSpent"]

MOST_STATES = 3_000
"""Steps that a pattern may come to, its repeats written out."""
_REMEMBERED = 4_000
"""Sets of ways that are kept."""
_STEP = 8
"""What working out one new step costs, in characters that are only looked at."""

_LINE, _WORD, _OTHER = range(3)
"""What stands on one side of a place: the end of a line, a letter, something else."""
_MATCH: Final = -1

Ways: TypeAlias = tuple[frozenset[int], int]


class WorkSpent(Exception):
    """There is no work left to do."""


@dataclass(slots=True)
class Work:
    """How many characters may still be looked at."""

    left: int

    def spend(self, amount: int) -> None:
        """Do some work. Raises `WorkSpent` when there is none left."""
        self.left -= amount
        if self.left < 0:
            raise WorkSpent


@dataclass(slots=True)
class _State:
    """Takes a character, stands at an edge, or leads on without either."""

    to: tuple[int, ...]
    takes: Chars | None = None
    edge: Edge | None = None


class Automaton:
    """A pattern, ready to be searched for."""

    def __init__(self, pattern: Pattern) -> None:
        self._states: list[_State] = [_State(())]  # the first one is the end
        self._ignores_case = pattern.ignores_case
        self._start = self._built(pattern.tree, 0)
        self._ways: list[Ways] = []
        self._numbers: dict[Ways, int] = {}
        self._steps: list[dict[str, int]] = []

    def search(self, text: str, work: Work) -> int | None:
        """Where the first match ends; None when there is none. Raises `WorkSpent`."""
        work.spend(len(text) + 1)
        state, steps = self._number((frozenset(), _LINE)), self._steps
        for at, char in enumerate(text):
            following = steps[state].get(char)
            if following is None:
                following = self._step(state, char, work)
            if following == _MATCH:
                return at
            state = following
        return len(text) if 0 in self._reached(*self._ways[state], _LINE, work) else None

    def _step(self, state: int, char: str, work: Work) -> int:
        here = self._ways[state]
        after = _side(char)
        ways = self._reached(*here, after, work)
        if 0 in ways:
            following = _MATCH
        else:
            taken = frozenset(
                to
                for way in ways
                if self._takes(self._states[way], char)
                for to in self._states[way].to
            )
            following = self._number((taken, after))
        # Where all was forgotten on the way, the number stands for another set of ways.
        if self._numbers.get(here) == state:
            self._steps[state][char] = following
        return following

    def _takes(self, state: _State, char: str) -> bool:
        if state.takes is None:
            return False
        if state.takes.fits(char):
            return True
        return self._ignores_case and any(map(state.takes.fits, {char.lower(), char.upper()}))

    def _reached(self, ways: Iterable[int], before: int, after: int, work: Work) -> set[int]:
        """All ways that lead on from here without a character; a match may begin anywhere."""
        waiting = [*ways, self._start]
        reached: set[int] = set()
        while waiting:
            way = waiting.pop()
            if way in reached:
                continue
            reached.add(way)
            state = self._states[way]
            if state.takes is None and (state.edge is None or _holds(state.edge, before, after)):
                waiting += state.to
        work.spend(_STEP * len(reached))
        return reached

    def _number(self, ways: Ways) -> int:
        number = self._numbers.get(ways)
        if number is not None:
            return number
        if len(self._ways) >= _REMEMBERED:
            for kept in (self._ways, self._numbers, self._steps):
                kept.clear()
        self._numbers[ways] = len(self._ways)
        self._ways.append(ways)
        self._steps.append({})
        return self._numbers[ways]

    def _new(self, state: _State) -> int:
        if len(self._states) >= MOST_STATES:
            raise SearchRefused("the regular expression repeats too much; ask for fewer times")
        self._states.append(state)
        return len(self._states) - 1

    def _built(self, node: Node, to: int) -> int:
        """The state where `node` begins, if `to` is what follows it."""
        match node:
            case Chars():
                return self._new(_State((to,), takes=node))
            case Edge():
                return self._new(_State((to,), edge=node))
            case Row(parts):
                for part in reversed(parts):
                    to = self._built(part, to)
                return to
            case Choice(options):
                return self._new(_State(tuple(self._built(option, to) for option in options)))
            case Repeat(part, low, high):
                return self._repeated(part, low, high, to)

    def _repeated(self, part: Node, low: int, high: int | None, to: int) -> int:
        end = to
        if high is None:
            to = self._new(_State(()))
            self._states[to].to = (self._built(part, to), end)
        else:
            for _ in range(high - low):
                to = self._new(_State((self._built(part, to), end)))
        for _ in range(low):
            to = self._built(part, to)
        return to


def _side(char: str) -> int:
    if char == "\n":
        return _LINE
    return _WORD if char.isalnum() or char == "_" else _OTHER


def _holds(edge: Edge, before: int, after: int) -> bool:
    match edge.kind:
        case "^":
            return before == _LINE
        case "$":
            return after == _LINE
        case "b":
            return (before == _WORD) != (after == _WORD)
        case "B":
            return (before == _WORD) == (after == _WORD)
