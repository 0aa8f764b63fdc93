"""The turn builder: imported drafts become turns.

Owns turn and step numbers of what is imported: each input begins a turn, each answer a
step. Invariant: a turn ends with every call answered; context before an input belongs to
the turn of that input.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ..context.compose import item_draft
from ..context.row import Row
from ..context.rules import ABORTED, Pairing, synthetic_output
from ..core.entries import Draft, Entry, Flags, Rollback, control_draft
from ..core.ids import derived_id
from ..core.wire import json_bytes
from ..store.contract import Change, PastTurn
from .import_drafts import DraftPlace, PlacedDraft
from .visible_turns import VisibleTurns

__all__ = ["ABORTED_MARK", "TurnBuilder"]

ABORTED_MARK = f"#{ABORTED}"
"""Ends the source id of an output that the import added because the call has none."""

_MESSAGE = b'{"type":"message"'


@dataclass(slots=True)
class TurnBuilder:
    """The turns of one thread that are not in the log yet."""

    turn: int = 0
    """The turn that is being built; 0 before the first."""
    step: int = 0
    size: int = 0
    """How many drafts `take` would return."""
    weight: int = 0
    """How many bytes they have."""
    next_seq: int = 2
    """The number of the next entry; the first one says where the thread came from."""
    visible: VisibleTurns | None = field(default_factory=VisibleTurns)
    """The turns that a rollback may hide; None for those of a log that nobody has looked at."""
    _in_answer: bool = False
    """Whether the last draft was of the model."""
    _pairing: Pairing = field(default_factory=Pairing)
    _calls: list[Draft] = field(default_factory=list)
    """The calls of this turn, at the positions that the pairing knows."""
    _asides: list[Draft] = field(default_factory=list)
    """Context that waits for the next draft of its turn."""
    _continued: list[Draft] = field(default_factory=list)
    """Drafts of the turn that the log already has."""
    _new_turns: list[tuple[str, list[Draft]]] = field(default_factory=list)
    """New turns: the source id of the input, and the drafts."""

    def resume(self, turn: int, entries: Iterable[Entry]) -> None:
        """Continue the newest turn of a log, which has these entries."""
        self.turn, self.visible = turn, None
        for entry in entries:
            self.step = self.step if entry.kind == "rollback" else entry.step
            self._track_call(entry)
            place = _place_of(entry)
            if place != "aside":
                self._in_answer = place == "model"

    def add(self, placed: PlacedDraft) -> None:
        """Add one draft to the turn it belongs to."""
        self.size += 1
        self.weight += len(placed.draft.body)
        if placed.place == "aside":
            self._asides.append(placed.draft)
            return
        if placed.place == "input":
            self._begin_turn(placed.draft.source_id or "")
        elif placed.place == "model" and not self._in_answer:
            self.step += 1
        self._append_asides()
        self._append(placed.draft)
        self._in_answer = placed.place == "model"

    def roll_back(self, placed: PlacedDraft, turns: int) -> None:
        """Hide the last `turns`."""
        assert self.visible is not None, "a rollback needs to know what it hides"
        self.size += 1
        self._append_asides()
        body = control_draft(Rollback(self.visible.roll_back(turns), turns)).body
        self._write(msgspec.structs.replace(placed.draft, body=body, turn=self.turn))

    def take(self, *, last: bool = False) -> Change:
        """Return and forget what was built; with `last` also context without an input."""
        if last:
            self._append_asides()
        past = tuple(
            PastTurn(
                id=derived_id("turn", key),
                input=Raw(json_bytes({"source_id": key})),
                entries=tuple(drafts),
            )
            for key, drafts in self._new_turns
        )
        change = Change(entries=tuple(self._continued), past=past)
        self._continued, self._new_turns = [], []
        self.size, self.weight = len(self._asides), sum(len(each.body) for each in self._asides)
        return change

    def _begin_turn(self, key: str) -> None:
        for position in self._pairing.open.values():
            self._write(_aborted_output(self._calls[position]))
        self.turn, self.step = self.turn + 1, 0
        self._new_turns.append((key, []))
        self._pairing, self._calls = Pairing(), []

    def _append_asides(self) -> None:
        asides, self._asides = self._asides, []
        for draft in asides:
            self._append(draft)

    def _append(self, draft: Draft) -> None:
        draft = msgspec.structs.replace(draft, turn=self.turn, step=self.step)
        self._track_call(draft)
        self._write(draft)

    def _write(self, draft: Draft) -> None:
        if self.visible is not None:
            self.visible.add(draft, self.next_seq)
        self.next_seq += 1
        (self._new_turns[-1][1] if self._new_turns else self._continued).append(draft)

    def _track_call(self, draft: Draft) -> None:
        """Remember a call until its output comes."""
        if draft.kind != "item" or draft.body.startswith(_MESSAGE):
            return
        before = len(self._pairing.open)
        self._pairing.admits(Row.of_draft(draft).shape, len(self._calls))
        if len(self._pairing.open) > before:
            self._calls.append(draft)


def _aborted_output(call: Draft) -> Draft:
    output = item_draft(synthetic_output(Row.of_draft(call)), turn=call.turn, step=call.step)
    source = f"{call.source_id}{ABORTED_MARK}"
    return msgspec.structs.replace(output, source_id=source, time=call.time)


def _place_of(entry: Entry) -> DraftPlace:
    """Return what an entry is within its turn."""
    if entry.kind != "item" or entry.flags & (Flags.CONTEXTUAL | Flags.VOLATILE):
        return "aside"
    shape = Row.of_draft(entry).shape
    if shape.type.endswith("_output"):
        return "output"
    return "input" if shape.type == "message" and shape.role != "assistant" else "model"
