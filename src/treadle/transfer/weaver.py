"""The weaver: pieces become turns.

Owns turn and step numbers of what is imported: each input begins a turn, each answer a
step. Invariant: a turn ends with every call answered; what a runtime said before an
input belongs to the turn of that input.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ..context.compose import item_draft
from ..context.row import Row
from ..context.rules import ABORTED, Pairing, synthetic_output
from ..core.entries import Draft, Entry, Flags
from ..core.ids import derived_id
from ..core.wire import json_bytes
from ..store.contract import Change, PastTurn
from .pieces import Piece, Place

__all__ = ["ABORTED_MARK", "Weaver"]

ABORTED_MARK = f"#{ABORTED}"
"""Ends the source id of an answer that we gave in the place of a lost one."""

_MESSAGE = b'{"type":"message"'


@dataclass(slots=True)
class Weaver:
    """One thread's turns on their way into the log."""

    turn: int = 0
    """The turn that is being woven; 0 before the first."""
    step: int = 0
    size: int = 0
    """How many drafts wait to be taken."""
    weight: int = 0
    """How many bytes that are."""
    _speaking: bool = False
    """Whether the model made the last piece."""
    _pairing: Pairing = field(default_factory=Pairing)
    _calls: list[Draft] = field(default_factory=list)
    """The calls of this turn, at the positions that the pairing knows."""
    _asides: list[Draft] = field(default_factory=list)
    _continued: list[Draft] = field(default_factory=list)
    """What goes on with a turn that the log has."""
    _begun: list[tuple[str, list[Draft]]] = field(default_factory=list)
    """New turns: what their inputs are called, and their drafts."""

    def resume(self, turn: int, entries: Iterable[Entry]) -> None:
        """Go on with the newest turn of a log."""
        self.turn = turn
        for entry in entries:
            self.step = entry.step
            self._note(entry)
            place = _place(entry)
            if place != "aside":
                self._speaking = place == "model"

    def add(self, piece: Piece) -> None:
        """Weave one piece in."""
        self.size += 1
        self.weight += len(piece.draft.body)
        if piece.place == "aside":
            self._asides.append(piece.draft)
            return
        if piece.place == "input":
            self._begin(piece.draft.source_id or "")
        elif piece.place == "model" and not self._speaking:
            self.step += 1
        self._place_asides()
        self._append(piece.draft)
        self._speaking = piece.place == "model"

    def take(self, *, last: bool = False) -> Change:
        """All that was woven since; with `last` also what still waits for an input."""
        if last:
            self._place_asides()
        past = tuple(
            PastTurn(
                id=derived_id("turn", key),
                input=Raw(json_bytes({"source_id": key})),
                entries=tuple(drafts),
            )
            for key, drafts in self._begun
        )
        change = Change(entries=tuple(self._continued), past=past)
        self._continued, self._begun = [], []
        self.size, self.weight = len(self._asides), sum(len(each.body) for each in self._asides)
        return change

    def _begin(self, key: str) -> None:
        for position in self._pairing.open.values():
            self._write(_aborted(self._calls[position]))
        self.turn, self.step = self.turn + 1, 0
        self._begun.append((key, []))
        self._pairing, self._calls = Pairing(), []

    def _place_asides(self) -> None:
        asides, self._asides = self._asides, []
        for draft in asides:
            self._append(draft)

    def _append(self, draft: Draft) -> None:
        draft = msgspec.structs.replace(draft, turn=self.turn, step=self.step)
        self._note(draft)
        self._write(draft)

    def _write(self, draft: Draft) -> None:
        (self._begun[-1][1] if self._begun else self._continued).append(draft)

    def _note(self, draft: Draft) -> None:
        """Remember a call until it is answered."""
        if draft.kind != "item" or draft.body.startswith(_MESSAGE):
            return
        before = len(self._pairing.open)
        self._pairing.admits(Row.of_draft(draft).shape, len(self._calls))
        if len(self._pairing.open) > before:
            self._calls.append(draft)


def _aborted(call: Draft) -> Draft:
    answer = item_draft(synthetic_output(Row.of_draft(call)), turn=call.turn, step=call.step)
    source = f"{call.source_id}{ABORTED_MARK}"
    return msgspec.structs.replace(answer, source_id=source, time=call.time)


def _place(entry: Entry) -> Place:
    """What an entry is within its turn."""
    if entry.kind != "item" or entry.flags & (Flags.CONTEXTUAL | Flags.VOLATILE):
        return "aside"
    shape = Row.of_draft(entry).shape
    if shape.type.endswith("_output"):
        return "output"
    return "input" if shape.type == "message" and shape.role != "assistant" else "model"
