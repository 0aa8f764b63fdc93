"""Make a view smaller with nodes.

Owns which chunks get nodes, when extracts are used and when they are written again.
Invariants: a view changes in one step from high to low water; a view that cannot be made
smaller is not tried again at every step; better nodes are shown with the next reduction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..values import Complete, ContextItem, LogReader
from .call_limits import CallLimiter
from .chunks import (
    ItemChunk,
    ReducedItems,
    chunk_to_condense,
    chunk_to_merge,
    chunks_to_squeeze,
    leaf_chunks,
    replace_chunks,
    token_count,
)
from .library import Library, RecentThreads
from .nodes import SummaryNode, node_from_log, summary_names
from .view_state import IrreducibleView, KnownSummaries, ViewState, volatile_ids

if TYPE_CHECKING:
    from .summariser import Summariser

__all__ = ["Reducer"]

_PRESSED = 2
"""How many times their share summaries may take before good ones are merged with extracts."""


class Reducer:
    """Makes the views of one engine smaller."""

    def __init__(self, library: Library, limiter: CallLimiter) -> None:
        self._library = library
        self._limiter = limiter
        self._made_summariser: Summariser | None = None
        self._irreducible: dict[str, IrreducibleView] = RecentThreads()

    @property
    def _summariser(self) -> Summariser:
        # Many threads end before they need a summary.
        from .summariser import Summariser

        if self._made_summariser is None:
            self._made_summariser = Summariser(self._library, self._limiter)
        return self._made_summariser

    async def reduce(self, state: ViewState, *, force: bool) -> ReducedItems | None:
        """Return the view at low water; None where no step is due or it cannot be complete.

        With `force`, extracts are used for what has no node yet.
        """
        thresholds = state.thresholds
        if state.size <= thresholds.high * state.budget:
            self._irreducible.pop(state.thread, None)
            return None
        view = IrreducibleView.of(state, force=force)
        if (known := self._irreducible.get(state.thread)) is not None and known.covers(view):
            return None
        low = int(thresholds.low * state.budget)
        reduced = await self._reduce_to(state, low, force=force)
        # The fresh tail and an unfinished chunk may keep a view above low water for good.
        midway = (thresholds.low + thresholds.high) / 2
        enough = low if reduced.missing else int(midway * state.budget)
        if not reduced.replaced or (reduced.tokens > enough and not force):
            if not reduced.missing:
                self._irreducible[state.thread] = view
            return None
        return reduced

    async def _reduce_to(self, state: ViewState, target: int, *, force: bool) -> ReducedItems:
        chunks = [*await self._older_chunks(state), *state.leaf_chunks(unfinished=force)]
        nodes = await self._library.best_nodes(chunk.key for chunk in chunks)
        # Merged extracts need no model, so there is nothing to wait for.
        merged = [chunk for chunk in chunks if chunk.merged and chunk.key not in nodes]
        nodes |= await self._ready_nodes(state, merged)
        reduced = replace_chunks(state.items, chunks, nodes, target)
        if force and reduced.tokens > target and reduced.missing:
            leaves = [chunk for chunk in chunks if not chunk.depth]
            nodes |= await self._ready_nodes(state, leaves)
            reduced = replace_chunks(state.items, chunks, nodes, target)
        if force and not reduced.replaced:
            whole = state.without_tail()
            chunks = whole.leaf_chunks(unfinished=True)
            nodes = await self._ready_nodes(whole, chunks)
            reduced = replace_chunks(state.items, chunks, nodes, target)
        return await self._squeeze(state, reduced) if force else reduced

    async def _squeeze(self, state: ViewState, reduced: ReducedItems) -> ReducedItems:
        """Merge summaries, whoever wrote them, until a view fits that was made for more room.

        A switch to a smaller window leaves many summaries, and some of another size.
        """
        most = int(state.thresholds.high * state.budget)
        while reduced.tokens > most:
            now = state.with_items(reduced.items)
            chunks = chunks_to_squeeze(now.items, now.live, now.thresholds)
            nodes: dict[str, SummaryNode] = {}
            left = now.size
            for chunk in chunks:
                if left > most:
                    nodes |= await self._ready_nodes(now, [chunk])
                    left += nodes[chunk.key].tokens - chunk.tokens
            less = replace_chunks(now.items, chunks, nodes, most)
            if not less.replaced:
                break
            replaced = reduced.replaced + less.replaced
            reduced = replace(less, replaced=replaced, missing=reduced.missing)
        return reduced

    async def compact_earlier_turns(self, state: ViewState) -> tuple[ContextItem, ...]:
        """Return the view with nodes in place of all that lies before the current turn."""
        chunks = leaf_chunks(
            state.items, state.live, state.thresholds, upto=state.live, unfinished=True
        )
        nodes = await self._ready_nodes(state, chunks)
        return replace_chunks(state.items, chunks, nodes, 0).items

    async def compact(
        self,
        state: ViewState,
        target: int,
        complete: Complete | None,
        cancelled: asyncio.Event | None,
        *,
        manual: bool,
    ) -> ReducedItems:
        """Return the view with all chunks replaced that it takes to reach `target`, by a model."""
        chunks = [*await self._older_chunks(state), *state.leaf_chunks(unfinished=True)]
        if not chunks:
            state = state.without_tail()
            chunks = state.leaf_chunks(unfinished=True)
        nodes: dict[str, SummaryNode] = {}
        left = state.size
        for chunk in chunks:
            if left <= target or (cancelled is not None and cancelled.is_set()):
                break
            known = (await self._library.best_nodes([chunk.key])).get(chunk.key)
            node = known
            if known is None or known.degraded:
                node = await self._write_node(state, chunk, complete, cancelled, manual=manual)
            nodes[chunk.key] = node or known or await self._summariser.extract_node(state, chunk)
            left += nodes[chunk.key].tokens - chunk.tokens
        if cancelled is not None and cancelled.is_set():
            return replace_chunks(state.items, chunks, nodes, target)
        return await self._squeeze(state, replace_chunks(state.items, chunks, nodes, target))

    async def prepare(
        self, state: ViewState, complete: Complete | None, cancelled: asyncio.Event | None
    ) -> int:
        """Write the summaries that the next reduction will need; return how many were made."""
        chunks = [*await self._older_chunks(state), *state.leaf_chunks()]
        nodes = await self._library.best_nodes(chunk.key for chunk in chunks)
        made = 0
        for chunk in chunks:
            if cancelled is not None and cancelled.is_set():
                break
            known = nodes.get(chunk.key)
            if known is None or known.degraded:
                node = await self._write_node(state, chunk, complete, cancelled)
                made += node is not None
        return made

    async def rewrite_extracts(
        self,
        state: ViewState,
        log: LogReader,
        complete: Complete,
        cancelled: asyncio.Event | None,
    ) -> int:
        """Write extracts in view again, with a model; return how many are better now."""
        made = 0
        shown = await self._library.nodes(summary_names(state.items))
        best = await self._library.best_nodes(node.key for node in shown.values())
        for node in shown.values():
            if not best[node.key].degraded or (cancelled and cancelled.is_set()):
                continue
            entries = await log.spans(node.spans)
            if node.depth or not entries.items:
                continue
            again = await self._summariser.write_node(
                state,
                _chunk_of(node, entries.items),
                complete,
                volatile=volatile_ids(entries),
                cancelled=cancelled,
            )
            made += again is not None and not again.degraded
        return made

    async def with_best_nodes(self, items: tuple[ContextItem, ...]) -> tuple[ContextItem, ...]:
        """Return `items` with better summaries in place of extracts, where there are some."""
        shown = await self._library.nodes(summary_names(items))
        extracts = {name: node.key for name, node in shown.items() if node.degraded}
        if not extracts:
            return items
        best = await self._library.best_nodes(extracts.values())
        return tuple(
            best[extracts[item.name]].item()
            if item.name is not None and item.name in extracts
            else item
            for item in items
        )

    async def restore_nodes(self, state: ViewState) -> KnownSummaries:
        """Add nodes to the library that the view shows and the library has lost."""
        names = state.stats.summaries
        known = await self._library.nodes(names)
        for item in state.items if len(known) < len(names) else ():
            if item.name and item.name not in known and item.covers is not None:
                entries = await state.log.spans([(item.covers.first, item.covers.last)])
                node = node_from_log(state.thread, item, entries.items)
                known[item.name] = await self._library.add_node(node)
        return KnownSummaries(names, any(node.degraded for node in known.values()))

    async def drop_needless_jobs(self, state: ViewState) -> None:
        """Drop jobs that no view will need any more."""
        chunks = [*await self._older_chunks(state), *state.leaf_chunks()]
        shown = await self._library.nodes(summary_names(state.items))
        extracts = [node.key for node in shown.values() if node.degraded]
        needed = [*extracts, *(chunk.key for chunk in chunks)]
        await self._library.keep_only_jobs(state.thread, needed)

    async def _older_chunks(self, state: ViewState) -> list[ItemChunk]:
        """Return the summaries that should become one, where they take too much room."""
        shown = [item for item in state.items if item.covers is not None]
        room = state.thresholds.summaries * state.budget
        if token_count(shown) <= room:
            return []
        items, live, thresholds = state.items, state.live, state.thresholds
        nodes = await self._library.nodes(summary_names(shown))
        depths = {name: node.depth for name, node in nodes.items() if not node.degraded}
        found = chunk_to_condense(items, depths, live, thresholds)
        found = found or chunk_to_merge(items, nodes.keys() - depths.keys(), live, thresholds)
        if found is None and token_count(shown) > _PRESSED * room:
            # Extracts that no model writes again must not fill the view for ever.
            found = chunk_to_merge(items, nodes.keys(), live, thresholds)
        return [] if found is None else [found]

    async def _ready_nodes(
        self, state: ViewState, chunks: Sequence[ItemChunk]
    ) -> dict[str, SummaryNode]:
        """Return a node for every chunk at once; extract those that have none yet."""
        nodes = await self._library.best_nodes(chunk.key for chunk in chunks)
        for chunk in chunks:
            if chunk.key not in nodes:
                nodes[chunk.key] = await self._summariser.extract_node(state, chunk)
        return nodes

    async def _write_node(
        self,
        state: ViewState,
        chunk: ItemChunk,
        complete: Complete | None,
        cancelled: asyncio.Event | None,
        *,
        manual: bool = False,
    ) -> SummaryNode | None:
        """Have the model write a node, with the summary before the chunk to read on from."""
        names = summary_names(state.items[: chunk.start])[-1:]
        before = await self._library.nodes(names)
        return await self._summariser.write_node(
            state,
            chunk,
            complete,
            volatile=state.volatile,
            previous="".join(node.text for node in before.values()),
            manual=manual,
            cancelled=cancelled,
        )


def _chunk_of(node: SummaryNode, items: Sequence[ContextItem]) -> ItemChunk:
    """Return a node's own range as a chunk."""
    tokens = token_count(items)
    return ItemChunk(start=0, end=len(items), items=tuple(items), key=node.key, tokens=tokens)
