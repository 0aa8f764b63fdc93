"""The lossless engine: nothing is forgotten, and the view stays small.

Owns when summaries are made, shown and told about. Invariants: the log is the only copy
of what was said; a view changes in one step from high to low water; inside an epoch what
was shown before is an exact prefix of what is shown next, and a step that changes nothing
costs what is new.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import field

from ...core.service import Service, later
from ...tools.contract import Tool
from ..info import EngineInfo, Transcript
from ..values import (
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    Complete,
    ContextItem,
    ConversationParams,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    Projection,
    Rebase,
    ResetParams,
)
from .call_limits import CallLimiter
from .choose import Chosen, choose, token_count
from .library import Library, RecentThreads
from .memory import Memory
from .mending import mended, restored, written_again
from .nodes import SummaryNode, summary_names
from .plan import Measures, Stretch, condensable, mergeable, stretches
from .reading import Reading, read
from .scene import Full, Scene, Shown, newest_turn

if TYPE_CHECKING:
    from .workshop import Workshop

__all__ = ["INFO", "LosslessEngine"]

INFO = EngineInfo(
    id="lossless",
    name="Lossless",
    version="1",
    owns_compaction=True,
    turn_maintenance_mode="background",
    transcript=Transcript(
        current_turn_fence="before-current-turn-entry-v1",
        turn_advancement="atomic-idempotent-v1",
    ),
)

_BUDGET = 100_000
"""Tokens for a conversation where nobody knows the model's window."""
_PRESSED = 2
"""How many times the room of summaries they may take before good ones are merged with weak."""


class LosslessEngine(Service):
    """Keeps the view small with summaries that can be opened again."""

    library: Library
    measures: Measures = field(default_factory=Measures)
    limiter: CallLimiter = field(default_factory=CallLimiter)
    info: EngineInfo = INFO
    memory: Memory = later()
    _made: Workshop | None = None
    _read: dict[str, Reading] = field(default_factory=RecentThreads)
    """The conversations of threads, as far as they were read."""
    _shown: dict[str, Shown] = field(default_factory=RecentThreads)
    _full: dict[str, Full] = field(default_factory=RecentThreads)

    def __post_init__(self) -> None:
        self.memory = Memory(self.library)

    @property
    def _workshop(self) -> Workshop:
        # Many threads end before a summary is due.
        from .workshop import Workshop

        self._made = self._made or Workshop(self.library, self.limiter)
        return self._made

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Nothing to read: the thread's log is the store."""
        self.library.open_in_background()
        self.memory.forget(given.thread.id)
        self._shown.pop(given.thread.id, None)
        return BootstrapResult(bootstrapped=True, reason="the log has it all")

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Nothing to keep: the log has it."""
        del given
        return IngestResult(ingested=False)

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Note how far the thread has come."""
        new = await self.library.commit_turn(
            given.key, given.thread.id, given.number, given.first, given.last
        )
        return CommitResult("committed" if new else "duplicate")

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """The view, brought down in one step where it has grown too large, and memory."""
        live = len(given.items) if given.pre_prompt_count is None else given.pre_prompt_count
        scene = self._scene(given, live, given.token_budget, said=bool(given.prompt))
        await self._restore(scene)
        items = await self._reduced(scene)
        seen = scene.seen if items is given.items else read(items)
        self.memory.look(given.thread.id, given.log, seen)
        recalled = await self.memory.recalled(given, seen, scene.budget - seen.tokens)
        if recalled:
            at = len(items) - (len(given.items) - live)
            items = (*items[:at], *recalled, *items[at:])
        return AssembleResult(
            items=items,
            estimated_tokens=seen.tokens + token_count(recalled),
            system_prompt_addition=await self.memory.guidance(given.thread.id, seen),
            projection=_projection(seen.names),
        )

    async def maintain(self, given: MaintainParams, /) -> MaintainResult:
        """Make ready what will be needed; ask for a smaller view when all of it is ready."""
        if given.reason == "bootstrap":
            # Before a turn no model can be asked, and what can be done without, assembling does.
            return MaintainResult(reason="the turn that begins does it")
        budget = given.context.token_budget if given.context else None
        complete = given.context.complete if given.context else None
        scene = self._scene(given, len(given.items), budget)
        self.memory.look(given.thread.id, given.log, scene.seen)
        await self._restore(scene)
        made, rebase = 0, None
        if self._is_due(scene):
            scene = scene.beside(await self._under_way(given))
            if scene.is_filling:
                made += await self._prepare(scene, complete, given.cancelled)
            if complete is not None and self._is_weak(scene.thread):
                made += await written_again(self.library, self._workshop, scene, given, complete)
            await self._forget_jobs(scene)
            chosen = await self._chosen(scene, force=False)
            if chosen is not None:
                rebase = Rebase(items=await mended(self.library, chosen.items))
        return MaintainResult(changed=made > 0, reason=f"{made} summaries made", rebase=rebase)

    def _is_due(self, scene: Scene) -> bool:
        """Whether there is anything to make, to mend or to forget."""
        weak = self._is_weak(scene.thread)
        return scene.is_filling or weak or not self.library.is_idle(scene.thread)

    def _is_weak(self, thread: str) -> bool:
        """Whether summaries in view may only have been extracted."""
        shown = self._shown.get(thread)
        return shown is None or shown.weak

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Fold what is not fresh, now; the model is asked as long as somebody waits."""
        complete = given.context.complete if given.context else None
        scene = self._scene(given, _live(given), given.token_budget)
        await self._restore(scene)
        target = 0 if given.trigger == "manual" else int(scene.measures.low * scene.budget)
        parts = [*await self._older(scene), *scene.stretches(unfinished=True)]
        if not parts:
            scene = scene.eager()
            parts = scene.stretches(unfinished=True)
        nodes: dict[str, SummaryNode] = {}
        left = scene.size
        for part in parts:
            if left <= target or (given.cancelled is not None and given.cancelled.is_set()):
                break
            manual = given.trigger == "manual"
            node = await self._node(scene, part, complete, given.cancelled, manual=manual)
            nodes[part.key] = node
            left += node.tokens - part.tokens
        chosen = choose(scene.items, parts, nodes, target)
        if not chosen.used:
            return CompactResult(ok=False, reason="everything that is left is fresh")
        return CompactResult(
            compacted=True,
            rebase=Rebase(items=await mended(self.library, chosen.items)),
            tokens_before=scene.size,
            tokens_after=chosen.tokens,
        )

    async def thread_reset(self, given: ResetParams, /) -> None:
        """Work about what was hidden is no longer wanted; nodes stay for what still shows it."""
        await self.library.drop_jobs(given.thread.id, given.first)

    def tools(self) -> Sequence[Tool]:
        """The tools with which the past is opened again."""
        return self.memory.tools

    async def dispose(self) -> None:
        """Close the library."""
        await self.library.close()

    def _scene(
        self, given: ConversationParams, live: int, budget: int | None, *, said: bool = False
    ) -> Scene:
        """What is given; with `said` the present input ends it, under a name that will not stay."""
        tokens = budget or _BUDGET
        thread, items = given.thread.id, given.items
        seen = read(items[:live] if said else items, self._read.get(thread))
        self._read[thread] = seen
        return Scene(
            thread=thread,
            said=given,
            seen=read(items, seen) if said else seen,
            live=live,
            budget=tokens,
            measures=self.measures.within(tokens),
            model=(given.settings.model.resolved or "") if given.settings else "",
            log=given.log,
        )

    async def _under_way(self, given: MaintainParams) -> int:
        """Where a turn begins that runs beside maintenance, or may; the end where none does."""
        known = await self.library.last_committed_entry(given.thread.id)
        items = given.items
        if not items or items[-1].seq is None or items[-1].seq <= known:
            return len(items)
        return newest_turn(items)

    async def _reduced(self, scene: Scene) -> Sequence[ContextItem]:
        """The conversation, smaller if it must be and can be."""
        if self.memory.wants_fresh_start(scene.thread, scene.seen):
            return await self._fresh_start(scene)
        chosen = await self._chosen(scene, force=scene.size > scene.measures.hard * scene.budget)
        return scene.said.items if chosen is None else await mended(self.library, chosen.items)

    async def _fresh_start(self, scene: Scene) -> tuple[ContextItem, ...]:
        """Fold all that lies before the current turn."""
        parts = stretches(scene.items, scene.live, scene.measures, upto=scene.live, unfinished=True)
        nodes = await self._ready(scene, parts)
        return choose(scene.items, parts, nodes, 0).items

    async def _chosen(self, scene: Scene, *, force: bool) -> Chosen | None:
        """The step from high to low water, if it is due and can be done whole."""
        measures = scene.measures
        if scene.size <= measures.high * scene.budget:
            self._full.pop(scene.thread, None)
            return None
        full = Full.at(scene, force=force)
        if (known := self._full.get(scene.thread)) is not None and known.covers(full):
            return None
        low = int(measures.low * scene.budget)
        parts = [*await self._older(scene), *scene.stretches(unfinished=force)]
        nodes = await self.library.best_nodes(part.key for part in parts)
        # Extracts need no model, so there is nothing to wait for.
        merged = [part for part in parts if part.merged and part.key not in nodes]
        nodes |= await self._ready(scene, merged)
        chosen = choose(scene.items, parts, nodes, low)
        if force and chosen.tokens > low and chosen.lacking:
            nodes |= await self._ready(scene, [part for part in parts if not part.depth])
            chosen = choose(scene.items, parts, nodes, low)
        if force and not chosen.used:
            eager = scene.eager()
            parts = eager.stretches(unfinished=True)
            chosen = choose(scene.items, parts, await self._ready(eager, parts), low)
        # What is fresh or unfinished may keep a view above low water for good.
        midway = (measures.low + measures.high) / 2
        enough = low if chosen.lacking else int(midway * scene.budget)
        if not chosen.used or (chosen.tokens > enough and not force):
            if not chosen.lacking:
                self._full[scene.thread] = full
            return None
        return chosen

    async def _ready(self, scene: Scene, parts: Sequence[Stretch]) -> dict[str, SummaryNode]:
        """A node for every stretch, at once; what no model has written yet is extracted."""
        nodes = await self.library.best_nodes(part.key for part in parts)
        for part in parts:
            if part.key not in nodes:
                nodes[part.key] = await self._extracted(scene, part)
        return nodes

    async def _prepare(
        self, scene: Scene, complete: Complete | None, cancelled: asyncio.Event | None
    ) -> int:
        """Make the summaries that the next step down will need."""
        parts = [*await self._older(scene), *scene.stretches()]
        nodes = await self.library.best_nodes(part.key for part in parts)
        made = 0
        for part in parts:
            if cancelled is not None and cancelled.is_set():
                break
            known = nodes.get(part.key)
            if known is not None and not known.degraded:
                continue
            made += await self._written(scene, part, complete, cancelled) is not None
        return made

    async def _written(
        self,
        scene: Scene,
        part: Stretch,
        complete: Complete | None,
        cancelled: asyncio.Event | None,
        *,
        manual: bool = False,
    ) -> SummaryNode | None:
        """A node by the model, or an extract where it fails; None while it must wait."""
        return await self._workshop.prepared(
            scene.thread,
            part,
            scene.measures,
            complete,
            model=scene.model,
            log=scene.log,
            previous=await self._before(scene, part),
            volatile=scene.volatile,
            manual=manual,
            cancelled=cancelled,
        )

    async def _forget_jobs(self, scene: Scene) -> None:
        """Drop work that no view will need any more."""
        parts = [*await self._older(scene), *scene.stretches()]
        shown = await self.library.nodes(summary_names(scene.items))
        weak = [node.key for node in shown.values() if node.degraded]
        await self.library.keep_only_jobs(scene.thread, [*weak, *(part.key for part in parts)])

    async def _older(self, scene: Scene) -> list[Stretch]:
        """Summaries that should become one, where they take too much room."""
        shown = [item for item in scene.items if item.covers is not None]
        room = scene.measures.summaries * scene.budget
        if token_count(shown) <= room:
            return []
        nodes = await self.library.nodes(summary_names(shown))
        depths = {name: node.depth for name, node in nodes.items() if not node.degraded}
        extracts = nodes.keys() - depths.keys()
        found = condensable(scene.items, depths, scene.live, scene.measures)
        found = found or mergeable(scene.items, extracts, scene.live, scene.measures)
        if found is None and token_count(shown) > _PRESSED * room:
            # Extracts among summaries that nobody mends must not fill the view for ever.
            found = mergeable(scene.items, nodes.keys(), scene.live, scene.measures)
        return [] if found is None else [found]

    async def _extracted(self, scene: Scene, part: Stretch) -> SummaryNode:
        return await self._workshop.extracted(
            scene.thread, part, scene.measures, scene.volatile, scene.log
        )

    async def _before(self, scene: Scene, part: Stretch) -> str:
        """The text of the summary that stands right before a stretch."""
        names = summary_names(scene.items[: part.start])[-1:]
        return "".join(node.text for node in (await self.library.nodes(names)).values())

    async def _restore(self, scene: Scene) -> None:
        """See, once for each set of summaries in view, that the library has them."""
        checked = self._shown.get(scene.thread)
        if checked is None or checked.names != scene.seen.names:
            self._shown[scene.thread] = await restored(self.library, scene)

    async def _node(
        self,
        scene: Scene,
        part: Stretch,
        complete: Complete | None,
        cancelled: asyncio.Event | None,
        *,
        manual: bool,
    ) -> SummaryNode:
        known = (await self.library.best_nodes([part.key])).get(part.key)
        if known is not None and not known.degraded:
            return known
        made = await self._written(scene, part, complete, cancelled, manual=manual)
        return made or known or await self._extracted(scene, part)


def _live(given: CompactParams) -> int:
    """Where the current turn begins, if one is under way."""
    if not given.live or not given.items:
        return len(given.items)
    return newest_turn(given.items)


def _projection(names: Sequence[str]) -> Projection:
    """What a view stands on: as long as its summaries are the same, it only grows."""
    epoch = hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]
    return Projection(mode="per_epoch", epoch=epoch)
