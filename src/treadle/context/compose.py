"""Composing: turning what happened into drafts of entries.

Owns how a turn opens (what changed, then the input), and how model items and tool
outputs are recorded. Invariant: an id of ours never enters an item's bytes, and
nothing recorded is cut a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ..core.entries import Draft, Flags, FragmentMark, Head, Notice, Origin, Reason, control_draft
from ..core.items import (
    CustomToolCallOutput,
    FunctionCallOutput,
    Item,
    Message,
    Output,
    Unknown,
    decode_item,
    encode_item,
    item_type,
)
from ..core.provenance import (
    InputProvenance,
    InternalEvent,
    is_completion_report,
    is_coordination,
    normalize_events,
    normalize_provenance,
    suppresses_persistence,
)
from ..core.text import OUTPUT_SLACK, TruncationPolicy, truncate_output
from ..core.wire import Json
from ..models.formats import format_named
from ..prompt.context_changes import ContextUpdate, context_update
from ..prompt.registry import Registry
from ..prompt.signals import annotate
from ..prompt.standing_instructions import AgentsMdFragment
from ..store.contract import THIS_TURN, InboxMessage
from .rules import OUTCOME_UNKNOWN, synthetic_output
from .tokens import audio_tokens, estimate_item
from .view import View

__all__ = [
    "change_of_head",
    "inbox_draft",
    "input_draft",
    "is_recordable",
    "item_draft",
    "missing_outputs",
    "opening_drafts",
    "state_drafts",
]

_REQUEST_ONLY = frozenset({"compaction_trigger", "additional_tools"})


def is_recordable(item: Item) -> bool:
    """Whether an item belongs in a log: not a control of requests, not a system message."""
    if isinstance(item, Message) and item.role == "system":
        return False
    return item_type(item) not in _REQUEST_ONLY


def item_draft(
    item: Item,
    *,
    turn: int = 0,
    step: int = 0,
    origin: Origin | None = None,
    flags: Flags = Flags.NONE,
    limit: TruncationPolicy | None = None,
) -> Draft:
    """The draft of one item; with a `limit` a tool's output is cut to it."""
    if limit is not None and isinstance(item, FunctionCallOutput | CustomToolCallOutput):
        output: Output = truncate_output(item.output, limit.scale(OUTPUT_SLACK), audio_tokens)
        item = msgspec.structs.replace(item, output=output)
    given = None if isinstance(item, Unknown) else getattr(item, "id", None)
    if origin is None and given is not None:
        # Nobody else gave it this id, so nobody else needs to see it.
        item = msgspec.structs.replace(item, id=None)
    body = encode_item(item)
    return Draft(
        body=body,
        id=given,
        turn=turn,
        step=step,
        tokens=estimate_item(item, len(body)),
        flags=flags,
        origin=origin,
    )


def input_draft(
    item: Item,
    registry: Registry,
    *,
    turn: int,
    step: int = 0,
    provenance: InputProvenance | None = None,
    events: Sequence[InternalEvent] = (),
    flags: Flags = Flags.NONE,
) -> Draft:
    """The draft of an input with its signals: normal, in words, and as flags."""
    provenance, events = normalize_provenance(provenance), normalize_events(events)
    marks: tuple[FragmentMark, ...] = ()
    if isinstance(item, Message):
        annotated = annotate(item, provenance, events, registry.vocabulary)
        item, marks = annotated.message, annotated.marks
    return msgspec.structs.replace(
        item_draft(item, turn=turn, step=step, flags=flags | _implied_flags(provenance, events)),
        fragments=marks,
        provenance=provenance,
        events=events,
    )


def _implied_flags(provenance: InputProvenance | None, events: Sequence[InternalEvent]) -> Flags:
    """What may not be done with an input, by its signals."""
    if suppresses_persistence(provenance, events):
        return Flags.VOLATILE | Flags.HIDDEN
    hidden = is_completion_report(provenance) or is_coordination(provenance)
    return Flags.HIDDEN if hidden else Flags.NONE


def opening_drafts(
    view: View,
    registry: Registry,
    states: Mapping[str, Json | None],
    message: Message,
    *,
    provenance: InputProvenance | None = None,
    events: Sequence[InternalEvent] = (),
    flags: Flags = Flags.NONE,
    problems: Sequence[str] = (),
    before: Sequence[Draft] = (),
    after: Sequence[Draft] = (),
) -> tuple[Draft, ...]:
    """What a turn appends before its first request: what changed, then the input.

    `before` and `after` stand around the input.
    `problems` with the project's instructions are noted for the user when those are told.
    """
    telling = context_update(registry, view.baselines, states)
    drafts = _update_drafts(telling, THIS_TURN)
    said = input_draft(
        message, registry, turn=THIS_TURN, provenance=provenance, events=events, flags=flags
    )
    drafts += [*before, said, *after]
    # A state noted without words rides on the first draft: the first context when there
    # is one, so that a later base still knows it.
    noted = (*drafts[0].fragments, *telling.silent)
    drafts[0] = msgspec.structs.replace(drafts[0], fragments=noted)
    return (*drafts, *_notices(telling, problems))


def state_drafts(
    view: View, registry: Registry, states: Mapping[str, Json | None], turn: int, step: int
) -> tuple[Draft, ...]:
    """What changed of some states, within a turn; what has no words waits for the next one."""
    return tuple(_update_drafts(context_update(registry, view.baselines, states), turn, step))


def _update_drafts(telling: ContextUpdate, turn: int, step: int = 0) -> list[Draft]:
    return [
        msgspec.structs.replace(
            item_draft(told.message, turn=turn, step=step, flags=Flags.CONTEXTUAL),
            fragments=told.marks,
        )
        for told in telling.messages
    ]


def _notices(telling: ContextUpdate, problems: Sequence[str]) -> Iterator[Draft]:
    """What the user should know of what the model was told."""
    texts = [
        f"{fragment!r} was longer than its cap; the model sees it with its middle cut out"
        for fragment in telling.cut
    ]
    if any(mark.id == AgentsMdFragment.id for told in telling.messages for mark in told.marks):
        texts += problems
    for text in texts:
        yield control_draft(Notice("warning", text, "prompt"), turn=THIS_TURN)


def inbox_draft(message: InboxMessage, registry: Registry, turn: int, step: int) -> Draft:
    """The draft of an input that someone else left, with who they are."""
    return input_draft(
        decode_item(message.body),
        registry,
        turn=turn,
        step=step,
        provenance=message.provenance,
        events=message.events,
    )


def missing_outputs(view: View) -> tuple[Draft, ...]:
    """An output for every call that lost its own, to be appended before the next request."""
    return tuple(
        item_draft(synthetic_output(call, OUTCOME_UNKNOWN), turn=call.turn, step=call.step)
        for call in view.open_calls
    )


_HEAD_REASONS: tuple[tuple[Reason, Callable[[Head], object]], ...] = (
    (Reason.MODEL, lambda head: (head.provider, head.api, head.account, head.model)),
    (Reason.INSTRUCTIONS, lambda head: head.instructions),
    (Reason.TOOLS, lambda head: head.tools),
    (Reason.IMAGES, lambda head: head.refused_images),
)


def _is_told_alike(before: Head, now: Head) -> bool:
    """Whether two heads differ only in what not every API tells, and this one does not."""
    quiet = {name: getattr(now, name) for name in ("cache_key", "comp_hash", "summary")}
    if msgspec.structs.replace(before, **quiet) != now:
        return False
    one, other = (
        tuple(format_named(now.api).head_parts(head, "key" if head.cache_key else ""))
        for head in (before, now)
    )
    return one == other


def change_of_head(before: Head | None, now: Head) -> Reason | None:
    """Why a new head ends the prefix; None when it is the same."""
    if before is None:
        return Reason.START
    if before == now or _is_told_alike(before, now):
        return None
    for reason, part in _HEAD_REASONS:
        if part(before) != part(now):
            return reason
    return Reason.PARAMS
