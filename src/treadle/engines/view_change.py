"""View changes: from the items that an engine wants to what must change in the view.

Owns the one rule of engines: what extends the view is appended, anything else is a new base.
Invariants: the result pairs every call with its output, names only rows of this thread, and
keeps the fragments of the runtime where they belong; what an engine wrote speaks neither as
the developer nor with a marker that is not the engine's; a plan counts only for the epoch it was
made in, and what was appended since it was made is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from ..context.compose import is_recordable, item_draft
from ..context.recipe import ranges, recipe_tokens
from ..context.row import Row, Shape, shape_of
from ..context.rules import Pairing, legal_cuts
from ..context.tokens import estimate_item
from ..context.view import View
from ..core.entries import Draft, Flags, Inline, Node, Reason, Recipe, RecipePart
from ..core.errors import StaleEpoch, TreadleError
from ..core.ids import derived_id
from ..core.items import AgentMessage, Item, Message, ToolSearchOutput, Unknown, encode_item
from ..core.redact import blank_json
from ..log.thread_log import ThreadLog
from ..prompt.engine_fragments import quote_engine_parts
from ..prompt.registry import Registry
from ..store.contract import THIS_TURN
from .conversation import PROMPT, named_rows
from .values import ContextItem

__all__ = [
    "InvalidEngineOutput",
    "ViewChange",
    "added_drafts",
    "check_live",
    "prompt_name",
    "publish",
    "recipe_for",
    "recipe_parts",
    "tokens_of",
    "view_at",
    "view_change",
]

_ADDED = Flags.VOLATILE | Flags.HIDDEN
_ROLES = ("user", "assistant")
_NAME = r"thr_[\w-]{1,64}:[\w.-]{1,128}"


class InvalidEngineOutput(TreadleError):
    """What an engine asked for cannot be shown to a model."""


class ViewChange(Struct, frozen=True, kw_only=True):
    """What an engine's items mean for a view."""

    before: tuple[ContextItem, ...] = ()
    """To be appended before the present input."""
    after: tuple[ContextItem, ...] = ()
    """To be appended after it, or at the end where there is none."""
    head: tuple[ContextItem, ...] | None = None
    """What a new base starts with; None while the base stays."""
    keep_from: int = 0
    """The row from which on a new base keeps everything."""
    shows_prompt: bool = True


def prompt_name(thread: str, number: int = 0) -> str:
    """Return the name of an input that is not in the log yet; others wait behind the first."""
    return f"{thread}:{PROMPT}.{number}" if number else f"{thread}:{PROMPT}"


def view_change(
    view: View, items: Sequence[ContextItem], registry: Registry, *, prompts: Sequence[str] = ()
) -> ViewChange:
    """Return what must change so that the view shows `items`. Raises `InvalidEngineOutput`.

    `prompts` name the present inputs where they stand among them but not in the view. Texts
    that the engine wrote are quoted where they read as a marker of `registry`.
    """
    offered = named_rows(view.thread, view.rows)
    _check(items, offered, prompts, view.upto)
    items = tuple(
        _quote(item, registry) if item.id not in prompts and _is_written(item, offered) else item
        for item in items
    )
    history, after = _split(items, prompts)
    given = {item.id for item in items}
    shown = all(prompt in given for prompt in prompts)
    names = list(offered)
    if _is_unchanged(history[: len(names)], offered) and len(history) >= len(names):
        added = history[len(names) :]
        if all(_is_written(item, offered) and item.covers is None for item in added):
            if not prompts:
                return ViewChange(after=added)
            return ViewChange(before=added, after=after, shows_prompt=shown)
    memory = _memory_at_end(history) if prompts else ()
    base = history[: len(history) - len(memory)]
    keep_from, head = _tail(view, base, offered)
    return ViewChange(
        before=memory, after=after, head=head, keep_from=keep_from, shows_prompt=shown
    )


def check_live(view: View, turn: int, items: Sequence[ContextItem]) -> None:
    """Check that `items` keep the inputs of the turn under way. Raises `InvalidEngineOutput`."""
    given = {item.id for item in items}
    for name, row in named_rows(view.thread, view.rows).items():
        # What an engine added itself has no sender and may go.
        is_input = row.shape.role == "user" and (not row.volatile or row.provenance is not None)
        if row.turn == turn and is_input and name not in given:
            raise InvalidEngineOutput("it left out what was said to the turn under way")


def tokens_of(items: Sequence[ContextItem], view: View) -> int:
    """Return the size of `items`: as the log knows it, or estimated."""
    offered = named_rows(view.thread, view.rows)
    return sum(
        _tokens(item) if _is_written(item, offered) else offered[item.id or ""].tokens
        for item in items
    )


def added_drafts(items: Sequence[ContextItem], turn: int = THIS_TURN, step: int = 0) -> list[Draft]:
    """Return the drafts of what an engine adds: shown, and never taken for conversation."""
    return [
        item_draft(
            item.item,
            turn=turn,
            step=step,
            flags=_ADDED | Flags.CONTEXTUAL if item.recall else _ADDED,
        )
        for item in items
    ]


def recipe_parts(
    head: Sequence[ContextItem], view: View, blobs: Mapping[bytes, str]
) -> list[RecipePart]:
    """Return what a new base starts with, as parts of a recipe.

    `blobs` are the digests under which its new summaries are stored.
    """
    offered = named_rows(view.thread, view.rows)
    kept = {item.id for item in head if not _is_written(item, offered)}
    gaps = [*view.gaps, *_left_out(view, {offered[name].seq for name in kept if name})]
    result: list[RecipePart] = []
    chunk: list[Row] = []
    for item in head:
        if item.id is not None and item.id in kept:
            chunk.append(_without_states(offered[item.id]))
            continue
        result += [*ranges(chunk, gaps), _part(item, blobs)]
        chunk = []
    return [*result, *ranges(chunk, gaps)]


def _without_states(row: Row) -> Row:
    """Return `row` without the states on it: after the difference they would be out of date."""
    marks = tuple(mark for mark in row.fragments if mark.part is not None)
    if len(marks) == len(row.fragments):
        return row
    return msgspec.structs.replace(row, seq=None, fragments=marks)


def _left_out(view: View, kept: set[int | None]) -> list[tuple[int, int]]:
    """Return every row that is not kept, as a gap that no range may span."""
    return [(row.seq, row.seq) for row in view.rows if row.seq is not None and row.seq not in kept]


def _part(item: ContextItem, blobs: Mapping[bytes, str]) -> RecipePart:
    if item.covers is not None:
        digest = blobs[item.body]
        first, last = item.covers.first, item.covers.last
        name = item.name or derived_id("sum", digest, first, last)
        return Node(name, digest, first, last, _tokens(item))
    flags = Flags.VOLATILE | Flags.CONTEXTUAL | Flags.HIDDEN if item.recall else Flags.NONE
    return Inline(body=Raw(item.body), tokens=_tokens(item), flags=int(flags))


def _tokens(item: ContextItem) -> int:
    return estimate_item(item.item, len(item.body))


def _is_written(item: ContextItem, offered: Mapping[str, Row]) -> bool:
    """Whether the engine wrote it, or changed it."""
    row = offered.get(item.id or "")
    return row is None or row.body != item.body


def _is_unchanged(items: Sequence[ContextItem], offered: Mapping[str, Row]) -> bool:
    return all(
        item.id == name and not _is_written(item, offered)
        for item, name in zip(items, offered, strict=False)
    )


def _split(
    items: Sequence[ContextItem], prompts: Sequence[str]
) -> tuple[tuple[ContextItem, ...], tuple[ContextItem, ...]]:
    """Return what stands before the inputs, and after the first of them."""
    places = [at for at, item in enumerate(items) if item.id in prompts]
    if not places:
        return tuple(items), ()
    at = places[0]
    after = tuple(item for item in items[at + 1 :] if item.id not in prompts)
    if any(item.id is not None for item in after):
        raise InvalidEngineOutput("it put older items after the present input")
    return tuple(items[:at]), after


def _memory_at_end(history: Sequence[ContextItem]) -> tuple[ContextItem, ...]:
    """Return the recalled items at the end."""
    count = 0
    for item in reversed(history):
        if not item.recall:
            break
        count += 1
    return tuple(history[len(history) - count :])


def _tail(
    view: View, items: Sequence[ContextItem], offered: Mapping[str, Row]
) -> tuple[int, tuple[ContextItem, ...]]:
    """Return from where the view's end can stay as it is, and what stands before that."""
    positions = {row.seq: index for index, row in enumerate(view.rows) if row.seq is not None}
    cuts = set(legal_cuts(view.rows))
    best, kept = len(view.rows), 0
    pairs = zip(reversed(items), reversed(list(offered.items())), strict=False)
    for count, (item, (name, row)) in enumerate(pairs, start=1):
        if item.id != name or row.seq is None or _is_written(item, offered):
            break
        if (cut := _cut_at(view, positions[row.seq], cuts)) is not None:
            best, kept = cut, count
    if best == len(view.rows) and best not in cuts:
        raise InvalidEngineOutput("it cut between a call and its output")
    return best, tuple(items[: len(items) - kept])


def _cut_at(view: View, index: int, cuts: set[int]) -> int | None:
    """Return the legal cut at `index`, or before the context rows that lead up to it."""
    while index not in cuts:
        index -= 1
        if index < 0 or not view.rows[index].contextual:
            return None
    return index


def _check(
    items: Sequence[ContextItem], offered: Mapping[str, Row], prompts: Sequence[str], upto: int
) -> None:
    if not items:
        raise InvalidEngineOutput(f"it gave no items at all ({len(offered)} were there)")
    names: set[str] = set()
    for item in items:
        if not isinstance(item, ContextItem):
            raise InvalidEngineOutput(f"it gave a {type(item).__name__} among its items")
        if item.id is not None and item.id not in prompts and item.id not in offered:
            raise InvalidEngineOutput(
                f"it named {_safe_name(item.id)}, which is no item of this thread's view"
            )
        if item.id is not None and item.id in names:
            raise InvalidEngineOutput(f"it gave {item.id!r} twice")
        names.add(item.id or "")
        if item.id not in prompts and _is_written(item, offered):
            _check_written(item, upto)
    _check_summaries(items)
    _check_pairs([item for item in items if item.id not in prompts], offered)


def _safe_name(name: str) -> str:
    """Return what an engine calls an item, if that is a name: reports hold no prose."""
    return repr(name) if re.fullmatch(_NAME, name) else "something"


def _check_written(item: ContextItem, upto: int) -> None:
    try:
        decoded = item.item
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise InvalidEngineOutput("one of its items cannot be read") from error
    if not is_recordable(decoded):
        raise InvalidEngineOutput("one of its items is a system message or a control of requests")
    if isinstance(decoded, Message) and decoded.role == "developer":
        raise InvalidEngineOutput(
            "one of its items speaks as the developer, for which there is the guidance"
        )
    if not _is_writable(decoded):
        raise InvalidEngineOutput("one of its items is none that a model could read")
    covers = item.covers
    if covers is not None and not 1 <= covers.first <= covers.last <= upto:
        raise InvalidEngineOutput("one of its summaries covers entries that are not there")


def _is_writable(item: Item) -> bool:
    """Whether an engine may have written it; unknown parts count as unreadable."""
    if isinstance(item, Message):
        unknown = any(isinstance(part, Unknown) for part in item.content)
        return item.role in _ROLES and not unknown
    return not isinstance(item, Unknown | AgentMessage | ToolSearchOutput)


def _quote(item: ContextItem, registry: Registry) -> ContextItem:
    """Return what an engine wrote without markers that are not the engine's."""
    written = item.item
    if not isinstance(written, Message) or written.role != "user":
        return item
    content = quote_engine_parts(written.content, registry.vocabulary, registry.added)
    if content == written.content:
        return item
    body = encode_item(msgspec.structs.replace(written, content=content))
    return msgspec.structs.replace(item, body=body, tokens=0)


def _check_summaries(items: Sequence[ContextItem]) -> None:
    names = [item.name for item in items if item.covers is not None and item.name is not None]
    if len(set(names)) < len(names):
        raise InvalidEngineOutput("it called two summaries by one name")


def _check_pairs(items: Sequence[ContextItem], offered: Mapping[str, Row]) -> None:
    before = _faults(row.shape for row in offered.values())
    after = _faults(shape_of(item.body) for item in items)
    if after[0] > before[0]:
        raise InvalidEngineOutput("it gave an output without its call, or one twice")
    if after[1] > before[1]:
        raise InvalidEngineOutput("it gave a call without its output")


def _faults(shapes: Iterator[Shape]) -> tuple[int, int]:
    """Return the number of orphans and duplicates, and of calls without an output."""
    pairing = Pairing()
    orphans = sum(not pairing.admits(shape, at) for at, shape in enumerate(shapes))
    return orphans, len(pairing.open)


def view_at(view: View, upto: int) -> View:
    """Return `view` as it was at entry `upto`, in the same epoch."""
    if upto >= view.upto:
        return view
    rows = [row for row in view.rows if row.seq is None or row.seq <= upto]
    return msgspec.structs.replace(view, rows=rows, upto=upto)


async def recipe_for(log: ThreadLog, change: ViewChange) -> Recipe:
    """Store new summaries and return the recipe: summaries, then what changed, then the rest."""
    head = change.head or ()
    blobs = {
        item.body: await log.store.put_blob(log.id, blank_json(item.body))
        for item in head
        if item.covers is not None
    }
    parts = recipe_parts(head, log.view, blobs)
    last = max((at for at, part in enumerate(parts) if isinstance(part, Node)), default=-1)
    return log.epochs.plan_base(change.keep_from, before=parts[: last + 1], after=parts[last + 1 :])


async def publish(
    log: ThreadLog,
    items: tuple[ContextItem, ...],
    *,
    by: str,
    epoch: int,
    upto: int,
    smaller: bool = False,
    reason: Reason = Reason.PUBLISH,
) -> tuple[int, int] | None:
    """Make `items` the conversation; return its size before and after, None for no change.

    `epoch` and `upto` say which view they were planned for; with `smaller` a view that
    would not shrink stays. Raises `StaleEpoch` and `InvalidEngineOutput`.
    """
    if log.view.epoch != epoch:
        raise StaleEpoch(f"the view of thread {log.id!r} has moved on; plan it again")
    change = view_change(view_at(log.view, upto), items, log.registry)
    if change.head is None:
        return None
    recipe = await recipe_for(log, change)
    view = log.view
    before, after = view.tokens, recipe_tokens(recipe, view)
    if smaller and after >= before:
        return None
    await log.epochs.publish(recipe, epoch=epoch, upto=view.upto, reason=reason, by=by)
    return before, after
