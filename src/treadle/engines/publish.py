"""Publishing: an engine's conversation as the new base of a thread.

Owns the way from items to a recipe. Invariant: a plan counts only for the epoch it was
made in, and what was appended since it was made is kept.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..context.recipe import recipe_tokens
from ..context.view import View
from ..core.entries import Node, ProjectionMark, Reason, Recipe
from ..core.errors import StaleEpoch
from ..log.thread_log import ThreadLog
from .values import ContextItem
from .view_change import ViewChange, recipe_parts, view_change

__all__ = ["publish", "recipe_for", "view_at"]


def view_at(view: View, upto: int) -> View:
    """`view` as it was at entry `upto`, in the same epoch."""
    if upto >= view.upto:
        return view
    rows = [row for row in view.rows if row.seq is None or row.seq <= upto]
    return replace(view, rows=rows, upto=upto)


async def recipe_for(log: ThreadLog, change: ViewChange) -> Recipe:
    """The recipe that shows a change: summaries, then what changed, then the rest."""
    head = change.head or ()
    blobs = {
        item.body: await log.store.put_blob(log.id, item.body)
        for item in head
        if item.covers is not None
    }
    made = recipe_parts(head, log.view, blobs)
    last = max((at for at, part in enumerate(made) if isinstance(part, Node)), default=-1)
    return log.epochs.plan_base(change.keep_from, before=made[: last + 1], after=made[last + 1 :])


async def publish(
    log: ThreadLog,
    items: tuple[ContextItem, ...],
    *,
    by: str,
    epoch: int,
    upto: int,
    smaller: bool = False,
    reason: Reason = Reason.PUBLISH,
    projection: ProjectionMark | None = None,
) -> tuple[int, int] | None:
    """Make `items` the conversation; its size before and after, None when nothing changed.

    `epoch` and `upto` say which view they were planned for; with `smaller` a view that
    would not shrink stays. Raises `StaleEpoch` and `InvalidEngineOutput`.
    """
    if log.view.epoch != epoch:
        raise StaleEpoch(f"the view of thread {log.id!r} has moved on; plan it again")
    change = view_change(view_at(log.view, upto), items)
    if change.head is None:
        return None
    recipe = await recipe_for(log, change)
    view = log.view
    before, after = view.tokens, recipe_tokens(recipe, view)
    if smaller and after >= before:
        return None
    await log.epochs.publish(
        recipe, epoch=epoch, upto=view.upto, reason=reason, by=by, projection=projection
    )
    return before, after
