"""The workshop: where stretches become nodes.

Owns the way from a stretch to a node that is kept. Invariants: a job is leased before a
model is asked and a node is kept before anyone may show it; what a model cannot do now
is extracted now and done again later.
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ...context.tokens import estimate_item
from ...core.items import encode_item
from ...prompt.history import history_message
from ...prompt.registry import builtin_vocabulary
from ..values import Complete, ContextItem, LogReader
from .call_limits import CallLimiter
from .library import Library, SummaryJob
from .nodes import SummaryNode, join_spans, node_id, summary_names
from .plan import Measures, Stretch
from .writing.extract import extract
from .writing.source import Summary, SummarySource
from .writing.summarise import summarise
from .writing.summary_prompts import render_source

__all__ = ["Workshop"]

_MOST_BEHIND = 400_000
"""Tokens that are read again to merge extracts; beyond that their own texts must do."""
_RETRY_SECONDS = 300.0
_MOST_RETRY_SECONDS = 1800.0


@dataclass(slots=True)
class Workshop:
    """Makes nodes and keeps them."""

    library: Library
    limiter: CallLimiter
    owner: str = field(default_factory=platform.node)
    """Who takes jobs: this machine, so that a process takes up what one before it left."""

    async def prepared(
        self,
        thread: str,
        stretch: Stretch,
        measures: Measures,
        complete: Complete | None,
        *,
        model: str = "",
        log: LogReader | None = None,
        previous: str = "",
        volatile: AbstractSet[str] = frozenset(),
        manual: bool = False,
        cancelled: asyncio.Event | None = None,
    ) -> SummaryNode | None:
        """A node for `stretch` by the model; None when someone else is at it or it must wait.

        An extract is kept where the model fails, and the job stays for later.
        """
        await self.library.add_jobs([_job(thread, stretch)])
        job = await self.library.lease_job(thread, stretch.key, self.owner, at_once=manual)
        if job is None:
            return None
        source = await self._source(stretch, volatile, log, previous)
        summary = await summarise(
            source,
            complete=complete,
            model=model,
            target=_target(stretch, measures),
            limiter=self.limiter.for_thread(thread, manual=manual),
            cancelled=cancelled,
        )
        node = await self._kept(thread, stretch, summary)
        if node.degraded:
            wait = min(_MOST_RETRY_SECONDS, _RETRY_SECONDS * 2 ** (job.attempts - 1))
            await self.library.return_job(job, "no model wrote it", wait)
        return node

    async def extracted(
        self,
        thread: str,
        stretch: Stretch,
        measures: Measures,
        volatile: AbstractSet[str] = frozenset(),
        log: LogReader | None = None,
    ) -> SummaryNode:
        """A node for `stretch` at once, without a model; a better one is wanted."""
        await self.library.add_jobs([_job(thread, stretch)])
        source = await self._source(stretch, volatile, log)
        return await self._kept(thread, stretch, extract(source, _target(stretch, measures)))

    async def _source(
        self,
        stretch: Stretch,
        volatile: AbstractSet[str],
        log: LogReader | None,
        previous: str = "",
    ) -> SummarySource:
        """What is summarised: never what was only shown and not to be kept."""
        if stretch.depth == 0 and not stretch.merged:
            items = tuple(item for item in stretch.items if item.id not in volatile)
            return SummarySource(items=items, previous=previous)
        nodes = await self.library.nodes(summary_names(stretch.items))
        known = [nodes[name] for name in summary_names(stretch.items) if name in nodes]
        if stretch.merged and log is not None and _behind(known) <= _MOST_BEHIND:
            past = await log.spans((await self._covered(stretch))[2])
            pairs = zip(past.items, past.persist, strict=True)
            return SummarySource(items=tuple(item for item, persist in pairs if persist))
        kept = [item for item in stretch.items if item.id not in volatile]
        texts = tuple(
            nodes[item.name].text
            if item.name in nodes
            else render_source(SummarySource(items=(item,)))
            for item in kept
        )
        return SummarySource(children=texts, depth=max(stretch.depth, 1), previous=previous)

    async def _kept(self, thread: str, stretch: Stretch, summary: Summary) -> SummaryNode:
        name = node_id(stretch.key, summary.prompt)
        first, last, spans = await self._covered(stretch)
        message = history_message(
            id=name,
            depth=stretch.depth,
            first=first,
            last=last,
            turns=_turns(stretch.items),
            text=summary.text,
            degraded=summary.degraded,
            vocabulary=builtin_vocabulary(),
        )
        body = encode_item(message)
        node = SummaryNode(
            id=name,
            key=stretch.key,
            thread=thread,
            first=first,
            last=last,
            spans=spans,
            depth=stretch.depth,
            text=summary.text,
            body=body,
            tokens=estimate_item(message, len(body)),
            source_tokens=await self._weight(stretch),
            children=tuple(summary_names(stretch.items)),
            model=summary.model,
            prompt=summary.prompt,
            degraded=summary.degraded,
            missing=summary.missing,
            created=int(time.time() * 1000),
        )
        return await self.library.add_node(node)

    async def _weight(self, stretch: Stretch) -> int:
        """How many tokens of the log stand behind a stretch."""
        raw = sum(item.tokens for item in stretch.items if item.seq is not None)
        return raw + _behind((await self.library.nodes(summary_names(stretch.items))).values())

    async def _covered(self, stretch: Stretch) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        """The first and the last entry of a stretch, and exactly which."""
        nodes = await self.library.nodes(summary_names(stretch.items))
        spans: list[tuple[int, int]] = []
        for item in stretch.items:
            if item.seq is not None:
                spans.append((item.seq, item.seq))
            elif item.name is not None:
                spans += nodes[item.name].spans
        joined = join_spans(spans)
        return joined[0][0], joined[-1][1], joined


def _behind(nodes: Iterable[SummaryNode]) -> int:
    return sum(node.source_tokens for node in nodes)


def _job(thread: str, stretch: Stretch) -> SummaryJob:
    covered = [item.covers for item in stretch.items if item.covers is not None]
    entries = [item.seq for item in stretch.items if item.seq is not None]
    first = covered[0].first if covered else min(entries, default=0)
    last = covered[-1].last if covered else max(entries, default=0)
    return SummaryJob(key=stretch.key, thread=thread, first=first, last=last, depth=stretch.depth)


def _target(stretch: Stretch, measures: Measures) -> int:
    return measures.condensed_target if stretch.depth else measures.leaf_target


def _turns(items: Sequence[ContextItem]) -> str:
    numbers = [item.turn for item in items if item.turn]
    if not numbers:
        return ""
    first, last = min(numbers), max(numbers)
    return str(first) if first == last else f"{first}-{last}"
