"""Recipes: how an epoch starts from a new base without losing what is cached.

Owns the layout ``C0 │ before │ Δ │ after │ live``: the first context block and
older summaries keep their bytes, what changed since is told once as a difference,
the live rows follow raw. Invariant: a recipe never parts a call from its output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from msgspec import Raw

from ..core.entries import Flags, Inline, Node, Range, Recipe, RecipePart, Snapshots
from ..core.errors import IllegalCut
from ..core.items import encode_item
from ..core.wire import Json
from ..prompt.context_changes import context_update
from ..prompt.registry import Registry
from ..prompt.state_fragment import Baseline, Known
from .row import Row
from .rules import legal_cuts
from .skill_texts import tell_again
from .tokens import estimate_item
from .view import View, note_baselines

__all__ = ["first_context", "ranges", "rebase", "recipe_tokens"]


def rebase(
    view: View,
    registry: Registry,
    keep_from: int,
    *,
    before: Sequence[RecipePart] = (),
    after: Sequence[RecipePart] = (),
    states: Mapping[str, Json | None] | None = None,
    skill_tokens: int = 0,
) -> Recipe:
    """A recipe that keeps the rows from `keep_from` on and replaces those before.

    `before` stands between the first context and the difference (summaries whose
    bytes should stay cached), `after` between the difference and the live rows.
    `states` adds snapshots that no row tells, such as the task's. Texts of skills that would
    be lost are told again, with `skill_tokens` at most.
    """
    if keep_from not in legal_cuts(view.rows):
        raise IllegalCut(
            f"row {keep_from} lies inside a step; "
            "cut at one of the indexes that legal_cuts() returns"
        )
    first = first_context(view.rows)
    live = view.rows[max(keep_from, len(first)) :]
    gone = view.rows[len(first) : keep_from]
    return Recipe(
        (
            *ranges(first, view.gaps),
            *before,
            *_difference(view, registry, len(first), keep_from, states or {}),
            *tell_again(gone, [*first, *live], registry.vocabulary, skill_tokens),
            *after,
            *ranges(live, view.gaps),
        )
    )


def recipe_tokens(recipe: Recipe, view: View) -> int:
    """The estimated size of a recipe that was planned from `view`."""
    known = {row.seq: row.tokens for row in view.rows if row.seq is not None}
    total = 0
    for part in recipe.parts:
        if isinstance(part, Range):
            total += sum(known.get(seq, 0) for seq in range(part.first, part.last + 1))
        elif isinstance(part, Inline | Node):
            total += part.tokens
    return total


def first_context(rows: Sequence[Row]) -> list[Row]:
    """The first context block: the lasting words of the runtime that the thread opened with."""
    return list(takewhile(_lasting, rows))


def _lasting(row: Row) -> bool:
    return row.contextual and not row.volatile and row.seq is not None


def ranges(rows: Sequence[Row], gaps: Sequence[tuple[int, int]]) -> list[RecipePart]:
    """`rows` as recipe parts: stretches of the log as ranges, the rest as they are."""
    parts: list[RecipePart] = []
    for row in rows:
        last = parts[-1] if parts else None
        if row.seq is None:
            parts.append(row.node or row.as_inline())
        elif isinstance(last, Range) and _adjoin(last.last, row.seq, gaps):
            parts[-1] = Range(last.first, row.seq)
        else:
            parts.append(Range(row.seq, row.seq))
    return parts


def _adjoin(left: int, right: int, gaps: Sequence[tuple[int, int]]) -> bool:
    """Whether nothing that the view leaves out lies between two entries."""
    if right <= left:
        return False
    return not any(left < last and first < right for first, last in gaps)


def _difference(
    view: View,
    registry: Registry,
    opening: int,
    keep_from: int,
    states: Mapping[str, Json | None],
) -> list[RecipePart]:
    """What changed between the first context and the boundary, as inline items."""
    known: dict[str, Baseline] = {}
    note_baselines(known, view.rows[:opening], registry)
    reached = {**known, **view.noted}
    note_baselines(reached, view.rows[opening:keep_from], registry)
    snapshots: dict[str, Json | None] = {
        name: state.snapshot for name, state in reached.items() if isinstance(state, Known)
    }
    telling = context_update(registry, known, {**snapshots, **states}, rebase=True)
    parts: list[RecipePart] = []
    for told in telling.messages:
        body = encode_item(told.message)
        parts.append(
            Inline(
                body=Raw(body),
                tokens=estimate_item(told.message, len(body)),
                flags=int(Flags.CONTEXTUAL),
                fragments=told.marks,
            )
        )
    return [*parts, Snapshots(telling.silent)] if telling.silent else parts
