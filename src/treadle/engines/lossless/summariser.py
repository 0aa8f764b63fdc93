"""Turn chunks of a conversation into nodes.

Owns the way from a chunk to a node in the library. Invariants: a job is leased before a
model is asked, and a node is stored before anyone may show it; what no model can write
now is extracted now and written later.
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from ...context.tokens import estimate_item
from ...core.items import encode_item
from ...prompt.engine_fragments import history_message
from ...prompt.registry import builtin_vocabulary
from ..values import Complete
from .call_limits import CallLimiter
from .call_pace import CallPace
from .chunks import ItemChunk, Thresholds
from .library import LONGEST_WAIT_MS, Library, SummaryJob
from .nodes import SummaryNode, join_spans, node_id, summary_names
from .view_state import ViewState, ids_of_others
from .writing.extract import extract
from .writing.source import Summary, SummarySource, without_empty_line
from .writing.summarise import summarise
from .writing.summary_prompts import render_source

__all__ = ["Summariser"]

_MOST_SOURCE_TOKENS = 400_000
"""Tokens that are read again to merge extracts; beyond that their own texts are used."""
_RETRY_SECONDS = 300.0
_MOST_RETRY_SECONDS = LONGEST_WAIT_MS / 1000


class Summariser:
    """Writes nodes and stores them in the library."""

    def __init__(self, library: Library, limiter: CallLimiter) -> None:
        self._library = library
        self._limiter = limiter
        self._pace = CallPace()
        self._owner = platform.node()
        """The name under which jobs are leased: a process continues what an earlier one left."""

    async def write_node(
        self,
        state: ViewState,
        chunk: ItemChunk,
        complete: Complete | None,
        *,
        volatile: AbstractSet[str],
        previous: str = "",
        manual: bool = False,
        cancelled: asyncio.Event | None = None,
    ) -> SummaryNode | None:
        """Return a node for `chunk` by the model; None when its job is leased or must wait.

        Where the model fails, an extract is stored and the job stays for later.
        """
        thread = state.thread
        await self._library.add_jobs([_job_for(thread, chunk)])
        job = await self._library.lease_job(thread, chunk.key, self._owner, at_once=manual)
        if job is None:
            return None
        summary = await summarise(
            await self._source(state, chunk, volatile, previous),
            complete=complete,
            model=state.model,
            target=_target_tokens(chunk, state.thresholds),
            limiter=self._limiter.for_thread(thread, manual=manual),
            cancelled=cancelled,
            pace=self._pace,
        )
        node = await self._store(thread, chunk, summary)
        if node.degraded:
            wait = min(_MOST_RETRY_SECONDS, _RETRY_SECONDS * 2 ** (job.attempts - 1))
            await self._library.return_job(job, "no model wrote it", wait)
        return node

    async def extract_node(self, state: ViewState, chunk: ItemChunk) -> SummaryNode:
        """Return a node for `chunk` at once, without a model; a job asks for a better one."""
        await self._library.add_jobs([_job_for(state.thread, chunk)])
        source = await self._source(state, chunk, state.volatile)
        summary = extract(source, _target_tokens(chunk, state.thresholds))
        return await self._store(state.thread, chunk, summary)

    async def _source(
        self, state: ViewState, chunk: ItemChunk, volatile: AbstractSet[str], previous: str = ""
    ) -> SummarySource:
        """Return what is summarised: never volatile items."""
        if chunk.depth == 0 and not chunk.merged:
            items = tuple(item for item in chunk.items if item.id not in volatile)
            return SummarySource(items=items, previous=previous, others=state.others)
        nodes = await self._library.nodes(summary_names(chunk.items))
        if chunk.merged and _source_tokens(nodes.values()) <= _MOST_SOURCE_TOKENS:
            log = await state.log.spans((await self._covered_entries(chunk))[2])
            pairs = zip(log.items, log.persist, strict=True)
            kept = tuple(item for item, persist in pairs if persist)
            return SummarySource(items=kept, others=ids_of_others(log))
        texts = tuple(
            nodes[item.name].text
            if item.name in nodes
            else render_source(SummarySource(items=(item,), others=state.others))
            for item in chunk.items
            if item.id not in volatile
        )
        return SummarySource(children=texts, depth=max(chunk.depth, 1), previous=previous)

    async def _store(self, thread: str, chunk: ItemChunk, summary: Summary) -> SummaryNode:
        """Store a summary as a node."""
        name = node_id(chunk.key, summary.prompt)
        first, last, spans = await self._covered_entries(chunk)
        message = history_message(
            id=name,
            depth=chunk.depth,
            first=first,
            last=last,
            turns=await self._turn_range(chunk),
            text=without_empty_line(summary.text),
            degraded=summary.degraded,
            vocabulary=builtin_vocabulary(),
        )
        body = encode_item(message)
        children = summary_names(chunk.items)
        below = (await self._library.nodes(children)).values()
        raw_tokens = sum(item.tokens for item in chunk.items if item.seq is not None)
        node = SummaryNode(
            id=name,
            key=chunk.key,
            thread=thread,
            first=first,
            last=last,
            spans=spans,
            depth=chunk.depth,
            text=summary.text,
            body=body,
            tokens=estimate_item(message, len(body)),
            source_tokens=raw_tokens + _source_tokens(below),
            children=tuple(children),
            model=summary.model,
            prompt=summary.prompt,
            degraded=summary.degraded,
            missing=summary.missing,
            created=int(time.time() * 1000),
        )
        return await self._library.add_node(node)

    async def _turn_range(self, chunk: ItemChunk) -> str:
        """Return the turns of a chunk, with those that its summaries stand for."""
        turns = [item.turn for item in chunk.items if item.turn]
        for node in (await self._library.nodes(summary_names(chunk.items))).values():
            turns += node.turns
        if not turns:
            return ""
        first, last = min(turns), max(turns)
        return str(first) if first == last else f"{first}-{last}"

    async def _covered_entries(
        self, chunk: ItemChunk
    ) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        """Return the first and the last entry of a chunk, and exactly which it covers."""
        nodes = await self._library.nodes(summary_names(chunk.items))
        spans: list[tuple[int, int]] = []
        for item in chunk.items:
            if item.seq is not None:
                spans.append((item.seq, item.seq))
            elif item.name is not None:
                spans += nodes[item.name].spans
        joined = join_spans(spans)
        return joined[0][0], joined[-1][1], joined


def _source_tokens(nodes: Iterable[SummaryNode]) -> int:
    return sum(node.source_tokens for node in nodes)


def _job_for(thread: str, chunk: ItemChunk) -> SummaryJob:
    covered = [item.covers for item in chunk.items if item.covers is not None]
    entries = [item.seq for item in chunk.items if item.seq is not None]
    first = covered[0].first if covered else min(entries, default=0)
    last = covered[-1].last if covered else max(entries, default=0)
    return SummaryJob(key=chunk.key, thread=thread, first=first, last=last, depth=chunk.depth)


def _target_tokens(chunk: ItemChunk, thresholds: Thresholds) -> int:
    return thresholds.condensed_target if chunk.depth else thresholds.leaf_target
