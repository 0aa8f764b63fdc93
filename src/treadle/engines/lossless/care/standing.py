"""The standing of threads: how far the engine has come with each, and what it owes.

Owns the figures that people look at. Invariant: what the log knows and what the library
knows are told side by side, so that a difference can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ....context.head import named_model
from ....context.view import View, load_view
from ....models.catalog import Catalog
from ....prompt.registry import Registry
from ....store.contract import OutboxRow, Store, ThreadInfo
from ...advance import topic_of
from ...frame import reserve_for
from .findings import ENGINE
from .inventory import Debt, Inventory

__all__ = ["Standing", "standings"]


class Standing(Struct, frozen=True, kw_only=True):
    """How the engine stands with one thread."""

    thread: str
    title: str
    turns_in_log: int
    turns_known: int
    """Turns that reached the engine; of a fork only its own."""
    turns_waiting: int
    """Turns that are over and have not reached it yet."""
    last_in_log: int
    last_known: int
    """The newest entry that it was told of."""
    summaries: int
    degraded: int
    notes: int
    debts: tuple[Debt, ...]
    shown: int
    """Summaries in the view."""
    view_tokens: int
    budget: int | None
    """Tokens that the view's conversation may take; None where no model is known."""
    model: str | None


async def standings(
    store: Store,
    held: Inventory,
    catalog: Catalog,
    registry: Registry,
    *,
    thread: str | None = None,
) -> list[Standing]:
    """One thread, or every living one that the engine knows or that waits for it."""
    rows = await store.outbox(topic=topic_of(ENGINE))
    known = held.threads | {row.thread for row in rows} if thread is None else {thread}
    return [
        _standing(info, await load_view(store, info.id, registry), held, catalog, rows)
        for info in await store.threads()
        if info.id in known
    ]


def _standing(
    info: ThreadInfo, view: View, held: Inventory, catalog: Catalog, waiting: Sequence[OutboxRow]
) -> Standing:
    made = [node for node in held.nodes.values() if node.thread == info.id]
    known = held.turns.get(info.id)
    model = None if view.head is None else named_model(view.head)
    spoken = sum(row.tokens for row in view.rows if not row.contextual)
    return Standing(
        thread=info.id,
        title=info.title,
        turns_in_log=info.turns,
        turns_known=known.turns if known else 0,
        turns_waiting=sum(row.thread == info.id and row.state != "admitted" for row in waiting),
        last_in_log=info.last,
        last_known=known.last if known else 0,
        summaries=len(made),
        degraded=sum(node.degraded for node in made),
        notes=held.notes.get(info.id, 0),
        debts=tuple(debt for debt in held.debts if debt.thread == info.id),
        shown=sum(row.node is not None for row in view.rows),
        view_tokens=spoken,
        budget=_budget(catalog, model, view.tokens - spoken),
        model=model,
    )


def _budget(catalog: Catalog, model: str | None, around: int) -> int | None:
    """What is left of a model's window for the conversation, the head aside."""
    window = None if model is None else catalog.profile(model).effective_window
    return None if window is None else max(1, window - reserve_for(window) - around)
