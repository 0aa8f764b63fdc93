"""Mending: summaries in view that the library has lost, or that no model has written.

Owns how they come back and get better. Invariant: nothing here changes a view; what is
better is shown with the next step down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..values import Complete, ContextItem, MaintainParams
from .choose import token_count
from .library import Library
from .nodes import SummaryNode, node_from_log, summary_names
from .plan import Stretch
from .scene import Scene, Shown, volatile_of

if TYPE_CHECKING:
    from .workshop import Workshop

__all__ = ["mended", "restored", "written_again"]


async def restored(library: Library, scene: Scene) -> Shown:
    """Take nodes in that the view shows and the library has lost."""
    names = scene.seen.names
    known = await library.nodes(names)
    for item in scene.items if len(known) < len(names) else ():
        if item.name and item.name not in known and item.covers is not None:
            past = await scene.log.spans([(item.covers.first, item.covers.last)])
            known[item.name] = await library.add_node(node_from_log(scene.thread, item, past.items))
    return Shown(names, weak=any(node.degraded for node in known.values()))


async def mended(library: Library, items: tuple[ContextItem, ...]) -> tuple[ContextItem, ...]:
    """`items`, with better summaries where they were written since."""
    shown = await library.nodes(summary_names(items))
    weak = {name: node.key for name, node in shown.items() if node.degraded}
    if not weak:
        return items
    best = await library.best_nodes(weak.values())
    return tuple(
        best[weak[item.name]].item() if item.name is not None and item.name in weak else item
        for item in items
    )


async def written_again(
    library: Library,
    workshop: Workshop,
    scene: Scene,
    given: MaintainParams,
    complete: Complete,
) -> int:
    """Write, with a model, what was only extracted; how many summaries are better by it."""
    made = 0
    shown = await library.nodes(summary_names(scene.items))
    best = await library.best_nodes(node.key for node in shown.values())
    for node in shown.values():
        if not best[node.key].degraded or (given.cancelled and given.cancelled.is_set()):
            continue
        past = await given.log.spans(node.spans)
        part = _part_of(node, past.items)
        if part is not None:
            again = await workshop.prepared(
                scene.thread,
                part,
                scene.measures,
                complete,
                model=scene.model,
                volatile=volatile_of(past),
                cancelled=given.cancelled,
            )
            made += again is not None and not again.degraded
    return made


def _part_of(node: SummaryNode, items: Sequence[ContextItem]) -> Stretch | None:
    """A node's own range as something to be summarised again."""
    if node.depth or not items:
        return None
    tokens = token_count(items)
    return Stretch(start=0, end=len(items), items=tuple(items), key=node.key, tokens=tokens)
