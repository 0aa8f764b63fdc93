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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

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
    Conversation,
    ConversationParams,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    Projection,
    Rebase,
    ResetParams,
    ThreadLog,
)
from .choose import Chosen, choose, size_of
from .guards import Guards
from .library import Library
from .memory import Memory
from .nodes import Node, names_of, recovered
from .plan import Measures, Stretch, condensable, mergeable, stretches
from .reading import Reading, read
from .recent import Recent

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


class _Scene(Struct, frozen=True, kw_only=True):
    """A conversation as the engine looks at it."""

    thread: str
    said: Conversation
    seen: Reading
    live: int
    """Where the current turn begins."""
    budget: int
    measures: Measures
    model: str = ""
    log: ThreadLog

    @property
    def items(self) -> tuple[ContextItem, ...]:
        return tuple(self.said.items)

    @property
    def volatile(self) -> frozenset[str]:
        return _volatile(self.said)

    @property
    def size(self) -> int:
        return self.seen.tokens

    @property
    def is_filling(self) -> bool:
        """Whether summaries should be made ready."""
        return self.size > self.measures.prepare * self.budget


class _Shown(Struct, frozen=True):
    """Summaries in a view that are known to be in the library."""

    names: tuple[str, ...] = ()
    weak: bool = False
    """Whether some of them were only extracted."""


class _Full(Struct, frozen=True):
    """A view that could not be made smaller, however large it is."""

    live: int
    force: bool
    size: int
    worth_more: int
    """By how much it must grow before something may have come up that can be folded."""

    @classmethod
    def at(cls, scene: _Scene, *, force: bool) -> _Full:
        return cls(scene.live, force, scene.size, scene.measures.leaf_tokens // 4)

    def covers(self, later: _Full) -> bool:
        """Whether looking again would find what was found before."""
        same = (self.live, self.force) == (later.live, later.force)
        return same and self.size <= later.size < self.size + self.worth_more


@dataclass(slots=True, eq=False, repr=False)
class LosslessEngine:
    """Keeps the view small with summaries that can be opened again."""

    library: Library
    measures: Measures = field(default_factory=Measures)
    guards: Guards = field(default_factory=Guards)
    info: EngineInfo = INFO
    memory: Memory = field(init=False)
    _made: Workshop | None = field(init=False, default=None)
    _read: dict[str, Reading] = field(init=False, default_factory=Recent)
    """The conversations of threads, as far as they were read."""
    _shown: dict[str, _Shown] = field(init=False, default_factory=Recent)
    _full: dict[str, _Full] = field(init=False, default_factory=Recent)

    def __post_init__(self) -> None:
        self.memory = Memory(self.library)

    @property
    def _workshop(self) -> Workshop:
        # Many threads end before a summary is due.
        from .workshop import Workshop

        self._made = self._made or Workshop(self.library, self.guards)
        return self._made

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Nothing to read: the thread's log is the store."""
        self.memory.forget(given.thread.id)
        self._shown.pop(given.thread.id, None)
        return BootstrapResult(bootstrapped=True, reason="the log has it all")

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Nothing to keep: the log has it."""
        del given
        return IngestResult(ingested=False)

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Note how far the thread has come."""
        new = await self.library.commit(
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
            estimated_tokens=seen.tokens + size_of(recalled),
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
            scene = msgspec.structs.replace(scene, live=await self._under_way(given))
            if scene.is_filling:
                made += await self._prepare(scene, complete, given.cancelled)
            made += await self._mend(scene, given, complete)
            await self._forget_jobs(scene)
            chosen = await self._chosen(scene, force=False)
            rebase = None if chosen is None else Rebase(items=await self._mended(chosen.items))
        return MaintainResult(changed=made > 0, reason=f"{made} summaries made", rebase=rebase)

    def _is_due(self, scene: _Scene) -> bool:
        """Whether there is anything to make, to mend or to forget."""
        shown = self._shown.get(scene.thread)
        weak = shown is None or shown.weak
        return scene.is_filling or weak or not self.library.idle(scene.thread)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Fold what is not fresh, now; the model is asked as long as somebody waits."""
        complete = given.context.complete if given.context else None
        scene = self._scene(given, _live(given), given.token_budget)
        await self._restore(scene)
        target = 0 if given.trigger == "manual" else int(scene.measures.low * scene.budget)
        parts = [*await self._older(scene), *self._stretches(scene, unfinished=True)]
        if not parts:
            scene = _eager(scene)
            parts = self._stretches(scene, unfinished=True)
        nodes: dict[str, Node] = {}
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
            rebase=Rebase(items=await self._mended(chosen.items)),
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
    ) -> _Scene:
        """What is given; with `said` the present input ends it, under a name that will not stay."""
        tokens = budget or _BUDGET
        thread, items = given.thread.id, given.items
        seen = read(items[:live] if said else items, self._read.get(thread))
        self._read[thread] = seen
        return _Scene(
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
        known = await self.library.committed(given.thread.id)
        items = given.items
        if not items or items[-1].seq is None or items[-1].seq <= known:
            return len(items)
        return _newest_turn(items)

    async def _reduced(self, scene: _Scene) -> Sequence[ContextItem]:
        """The conversation, smaller if it must be and can be."""
        if self.memory.wants_fresh_start(scene.thread, scene.seen):
            return await self._fresh_start(scene)
        chosen = await self._chosen(scene, force=scene.size > scene.measures.hard * scene.budget)
        return scene.said.items if chosen is None else await self._mended(chosen.items)

    async def _fresh_start(self, scene: _Scene) -> tuple[ContextItem, ...]:
        """Fold all that lies before the current turn."""
        parts = stretches(scene.items, scene.live, scene.measures, upto=scene.live, unfinished=True)
        nodes = await self._ready(scene, parts)
        return choose(scene.items, parts, nodes, 0).items

    async def _chosen(self, scene: _Scene, *, force: bool) -> Chosen | None:
        """The step from high to low water, if it is due and can be done whole."""
        measures = scene.measures
        if scene.size <= measures.high * scene.budget:
            self._full.pop(scene.thread, None)
            return None
        full = _Full.at(scene, force=force)
        if (known := self._full.get(scene.thread)) is not None and known.covers(full):
            return None
        low = int(measures.low * scene.budget)
        parts = [*await self._older(scene), *self._stretches(scene, unfinished=force)]
        nodes = await self.library.find(part.key for part in parts)
        # Extracts need no model, so there is nothing to wait for.
        merged = [part for part in parts if part.merged]
        nodes |= await self._ready(scene, merged)
        chosen = choose(scene.items, parts, nodes, low)
        if force and chosen.tokens > low and chosen.lacking:
            nodes |= await self._ready(scene, [part for part in parts if not part.depth])
            chosen = choose(scene.items, parts, nodes, low)
        if force and not chosen.used:
            eager = _eager(scene)
            parts = self._stretches(eager, unfinished=True)
            chosen = choose(scene.items, parts, await self._ready(eager, parts), low)
        # What is fresh or unfinished may keep a view above low water for good.
        enough = low if chosen.lacking else int(_midway(measures) * scene.budget)
        if not chosen.used or (chosen.tokens > enough and not force):
            if not chosen.lacking:
                self._full[scene.thread] = full
            return None
        return chosen

    async def _ready(self, scene: _Scene, parts: Sequence[Stretch]) -> dict[str, Node]:
        """A node for every stretch, at once; what no model has written yet is extracted."""
        nodes = await self.library.find(part.key for part in parts)
        for part in parts:
            if part.key not in nodes:
                nodes[part.key] = await self._extracted(scene, part)
        return nodes

    def _stretches(self, scene: _Scene, *, unfinished: bool = False) -> list[Stretch]:
        return stretches(scene.items, scene.live, scene.measures, unfinished=unfinished)

    async def _prepare(
        self, scene: _Scene, complete: Complete | None, cancelled: asyncio.Event | None
    ) -> int:
        """Make the summaries that the next step down will need."""
        parts = [*await self._older(scene), *self._stretches(scene)]
        nodes = await self.library.find(part.key for part in parts)
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
        scene: _Scene,
        part: Stretch,
        complete: Complete | None,
        cancelled: asyncio.Event | None,
        *,
        manual: bool = False,
    ) -> Node | None:
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

    async def _forget_jobs(self, scene: _Scene) -> None:
        """Drop work that no view will need any more."""
        parts = [*await self._older(scene), *self._stretches(scene)]
        shown = await self.library.get(names_of(scene.items))
        weak = [node.key for node in shown.values() if node.degraded]
        await self.library.keep_jobs(scene.thread, [*weak, *(part.key for part in parts)])

    async def _older(self, scene: _Scene) -> list[Stretch]:
        """Summaries that should become one, where they take too much room."""
        shown = [item for item in scene.items if item.covers is not None]
        room = scene.measures.summaries * scene.budget
        if size_of(shown) <= room:
            return []
        nodes = await self.library.get(names_of(shown))
        depths = {name: node.depth for name, node in nodes.items() if not node.degraded}
        extracts = nodes.keys() - depths.keys()
        found = condensable(scene.items, depths, scene.live, scene.measures)
        found = found or mergeable(scene.items, extracts, scene.live, scene.measures)
        if found is None and size_of(shown) > _PRESSED * room:
            # Extracts among summaries that nobody mends must not fill the view for ever.
            found = mergeable(scene.items, nodes.keys(), scene.live, scene.measures)
        return [] if found is None else [found]

    async def _extracted(self, scene: _Scene, part: Stretch) -> Node:
        return await self._workshop.extracted(
            scene.thread, part, scene.measures, scene.volatile, scene.log
        )

    async def _before(self, scene: _Scene, part: Stretch) -> str:
        """The text of the summary that stands right before a stretch."""
        names = names_of(scene.items[: part.start])[-1:]
        return "".join(node.text for node in (await self.library.get(names)).values())

    async def _node(
        self,
        scene: _Scene,
        part: Stretch,
        complete: Complete | None,
        cancelled: asyncio.Event | None,
        *,
        manual: bool,
    ) -> Node:
        known = (await self.library.find([part.key])).get(part.key)
        if known is not None and not known.degraded:
            return known
        made = await self._written(scene, part, complete, cancelled, manual=manual)
        return made or known or await self._extracted(scene, part)

    async def _restore(self, scene: _Scene) -> None:
        """Take nodes in that the view shows and the library has lost."""
        names = scene.seen.names
        checked = self._shown.get(scene.thread)
        if checked is not None and checked.names == names:
            return
        known = await self.library.get(names)
        for item in scene.items if len(known) < len(names) else ():
            if item.name and item.name not in known and item.covers is not None:
                past = await scene.log.spans([(item.covers.first, item.covers.last)])
                node = await self.library.add(recovered(scene.thread, item, past.items))
                known[item.name] = node
        weak = any(node.degraded for node in known.values())
        self._shown[scene.thread] = _Shown(names, weak)

    async def _mend(self, scene: _Scene, given: MaintainParams, complete: Complete | None) -> int:
        """Write again, with a model, what was only extracted; shown with the next step down."""
        if complete is None:
            return 0
        made = 0
        shown = await self.library.get(names_of(scene.items))
        best = await self.library.find(node.key for node in shown.values())
        for node in shown.values():
            if not best[node.key].degraded or (given.cancelled and given.cancelled.is_set()):
                continue
            past = await given.log.spans(node.spans)
            part = _part_of(node, past.items)
            if part is not None:
                again = await self._workshop.prepared(
                    scene.thread,
                    part,
                    scene.measures,
                    complete,
                    model=scene.model,
                    volatile=_volatile(past),
                    cancelled=given.cancelled,
                )
                made += again is not None and not again.degraded
        return made

    async def _mended(self, items: tuple[ContextItem, ...]) -> tuple[ContextItem, ...]:
        """`items`, with better summaries where they were written since."""
        shown = await self.library.get(names_of(items))
        weak = {name: node.key for name, node in shown.items() if node.degraded}
        if not weak:
            return items
        best = await self.library.find(weak.values())
        return tuple(
            best[weak[item.name]].item() if item.name is not None and item.name in weak else item
            for item in items
        )


def _midway(measures: Measures) -> float:
    return (measures.low + measures.high) / 2


def _live(given: CompactParams) -> int:
    """Where the current turn begins, if one is under way."""
    if not given.live or not given.items:
        return len(given.items)
    return _newest_turn(given.items)


def _newest_turn(items: Sequence[ContextItem]) -> int:
    """Where the newest turn begins."""
    return next(at for at, item in enumerate(items) if item.turn == items[-1].turn)


def _eager(scene: _Scene) -> _Scene:
    """The same with nothing but the newest step counted as fresh."""
    measures = msgspec.structs.replace(scene.measures, tail_tokens=0)
    return msgspec.structs.replace(scene, measures=measures)


def _projection(names: Sequence[str]) -> Projection:
    """What a view stands on: as long as its summaries are the same, it only grows."""
    epoch = hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]
    return Projection(mode="per_epoch", epoch=epoch)


def _volatile(given: Conversation) -> frozenset[str]:
    pairs = zip(given.items, given.persist, strict=True)
    return frozenset(item.id for item, persist in pairs if not persist and item.id is not None)


def _part_of(node: Node, items: Sequence[ContextItem]) -> Stretch | None:
    """A node's own range as something to be summarised again."""
    if node.depth or not items:
        return None
    tokens = size_of(items)
    return Stretch(start=0, end=len(items), items=tuple(items), key=node.key, tokens=tokens)
