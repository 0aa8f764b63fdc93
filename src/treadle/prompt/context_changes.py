"""Context changes: the messages between what the view knows and what is true now.

Owns the one path by which lasting context reaches the model; the initial context
is the difference to nothing. Invariant: where nothing changed, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from ..core.entries import FragmentMark
from ..core.items import InputText, Message
from ..core.sharing import share
from ..core.typed import decode_json
from ..core.wire import Json, json_bytes
from .fragment import Fragment, FragmentRole, Vocabulary
from .prompt_context import PromptContext
from .registry import Registry
from .state_fragment import Absent, Baseline, Known, StateFragment, Unrecorded

__all__ = ["ContextMessage", "ContextUpdate", "context_update", "take_snapshots"]


class ContextMessage(Struct, frozen=True):
    """A message of the runtime, and which state each of its parts belongs to."""

    message: Message
    marks: tuple[FragmentMark, ...]


class ContextUpdate(Struct, frozen=True):
    """What to append so that the view knows the present.

    `silent` are states to record without words, `cut` the ids of fragments that
    did not fit their cap.
    """

    messages: tuple[ContextMessage, ...] = ()
    silent: tuple[FragmentMark, ...] = ()
    cut: tuple[str, ...] = ()


def take_snapshots(registry: Registry, ctx: PromptContext) -> dict[str, Json | None]:
    """Take the snapshot of every state now; None for a state that has no value."""
    snapshots = {state.id: state.snapshot(ctx) for state in registry.states}
    return {
        state_id: None if snapshot is None else Raw(share(json_bytes(snapshot)))
        for state_id, snapshot in snapshots.items()
    }


def context_update(
    registry: Registry,
    baselines: Mapping[str, Baseline],
    snapshots: Mapping[str, Json | None],
    *,
    rebase: bool = False,
) -> ContextUpdate:
    """Return the difference between what the view knows and `snapshots`.

    A state without a baseline is `Absent`; one that is not in `snapshots` is skipped.
    States that are sent at a `rebase` only are skipped otherwise. Developer fragments
    come first and share a message, separate ones follow, then one message for each
    user fragment.
    """
    layout = _Layout(registry.vocabulary)
    for state in registry.states:
        if state.id not in snapshots or (state.when == "rebase" and not rebase):
            continue
        baseline, snapshot = baselines.get(state.id, Absent()), snapshots[state.id]
        if _is_known(baseline, snapshot):
            continue
        previous = _decode_baseline(state, baseline)
        current = _decode(state, snapshot)
        if not _is_same(state, previous, current):
            fragments = state.difference(previous, current)
            layout.add(_mark(state, current, is_told=bool(fragments)), fragments)
    return layout.update()


class _Layout(Struct):
    """Collects fragments and lays them out as messages."""

    vocabulary: Vocabulary
    shared: list[tuple[InputText, FragmentMark]] = field(default_factory=list)
    separate: list[ContextMessage] = field(default_factory=list)
    user: list[ContextMessage] = field(default_factory=list)
    silent: list[FragmentMark] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)

    def add(self, mark: FragmentMark, fragments: Sequence[Fragment]) -> None:
        if not fragments:
            self.silent.append(mark)
        for fragment in fragments:
            rendering = fragment.rendering(self.vocabulary)
            if rendering.cut:
                self.cut.append(fragment.id)
            part = InputText(text=rendering.text), mark
            if fragment.role == "user":
                self.user.append(_message("user", [part]))
            elif fragment.separate:
                self.separate.append(_message("developer", [part]))
            else:
                self.shared.append(part)

    def update(self) -> ContextUpdate:
        shared = [_message("developer", self.shared)] if self.shared else []
        messages = (*shared, *self.separate, *self.user)
        return ContextUpdate(messages, tuple(self.silent), tuple(self.cut))


def _message(role: FragmentRole, parts: Sequence[tuple[InputText, FragmentMark]]) -> ContextMessage:
    marks = (
        FragmentMark(id=mark.id, snapshot=mark.snapshot, part=number)
        for number, (_, mark) in enumerate(parts)
    )
    content = tuple(text for text, _ in parts)
    return ContextMessage(Message(role=role, content=content), tuple(marks))


def _is_known(baseline: Baseline, snapshot: Json | None) -> bool:
    """Return whether the view knows exactly this; most states are the same in most turns."""
    if isinstance(baseline, Known):
        known = baseline.snapshot
        return (
            known is snapshot
            if known is None or snapshot is None
            else bytes(known) == bytes(snapshot)
        )
    return isinstance(baseline, Absent) and snapshot is None


def _decode_baseline(
    state: StateFragment[Any], baseline: Baseline
) -> Absent | Unrecorded | Known[Any]:
    if not isinstance(baseline, Known):
        return baseline
    try:
        snapshot = _decode(state, baseline.snapshot)
    except msgspec.ValidationError:
        # An older version wrote it: the view shows the state, but we cannot know which.
        return Unrecorded()
    return Known(None if snapshot is None else state.comparable(snapshot))


def _decode(state: StateFragment[Any], snapshot: Json | None) -> Any:
    if snapshot is None:
        return None
    return decode_json(snapshot, state.snapshot_type | None)


def _is_same(
    state: StateFragment[Any], previous: Absent | Unrecorded | Known[Any], current: Any
) -> bool:
    if isinstance(previous, Unrecorded):
        return False
    known = previous.snapshot if isinstance(previous, Known) else None
    return bool(known == (None if current is None else state.comparable(current)))


def _mark(state: StateFragment[Any], current: Any, *, is_told: bool) -> FragmentMark:
    """Return the mark; it keeps what is sent whole, so that a later base can repeat it."""
    kept = current if is_told or current is None else state.comparable(current)
    return FragmentMark(id=state.id, snapshot=Raw(json_bytes(kept)))
