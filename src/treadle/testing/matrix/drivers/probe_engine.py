"""The probe: a context engine that does what a row says, and records its calls.

Owns the engine in rows about context. Invariant: without a plan in the row the view stays as
it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ....core.items import InputText, Message
from ....core.typed import convert
from ....engines.contract import EngineInfo
from ....engines.linear import LinearEngine
from ....engines.values import (
    AfterTurnParams,
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    ContextItem,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    Projection,
    Rebase,
    ResetParams,
    recall_item,
)

__all__ = ["ProbeEngine", "probe_engine"]


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it changes the view."""

    addition: str | None = None
    recall: str = ""
    """Memory, right before the present input."""
    shows: tuple[str, ...] | None = None
    """Records in the place of all that came before the present input."""
    padded: int = 0
    """How many more sentences each record has, before its end."""
    without_input: bool = False
    """The present input is not given back."""
    parted: bool = False
    """Gives an item back twice, which makes no sense."""
    epoch: str = ""
    """Holds for as long as this stays the same; empty: for the turn."""
    fingerprint: str = ""


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a row asks of the engine."""

    way: str = "commit_turn"
    """How it is given turns: commit_turn, after_turn, ingest_batch or ingest."""
    owns: bool = False
    plans: tuple[Plan, ...] = (Plan(),)
    """One for each time it assembles; the last one stays."""
    folds: str = ""
    """What stands for the conversation when it compacts; empty: it lets the runtime."""
    fails: tuple[str, ...] = ()
    """Calls that raise."""
    fails_once: tuple[str, ...] = ()


class ProbeEngine(LinearEngine):
    """Records its calls; the classes below add the way it is given turns."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.info = EngineInfo(id="probe", name="Probe", version="1", owns_compaction=part.owns)
        self.requests: list[tuple[str, Any]] = []
        self._once = list(part.fails_once)

    @property
    def calls(self) -> list[str]:
        """Return the names of its calls, in order."""
        return [call for call, _ in self.requests]

    def params_of(self, *calls: str) -> list[Any]:
        """Return the parameters of some calls, in order."""
        return [given for call, given in self.requests if call in calls]

    def note(self, call: str, given: Any) -> None:
        """Record a call. Raises where the row says so."""
        self.requests.append((call, given))
        if call in self._once:
            self._once.remove(call)
            raise RuntimeError("api_key=hunter2 is wrong")
        if call in self.part.fails:
            raise RuntimeError("api_key=hunter2 is wrong")

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """Return the view that the row plans."""
        self.note("assemble", given)
        plans = self.part.plans[: len(self.params_of("assemble"))]
        return _assemble(plans[-1], given)

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Record the call."""
        self.note("bootstrap", given)
        return BootstrapResult(bootstrapped=True)

    async def maintain(self, given: MaintainParams, /) -> MaintainResult:
        """Record the call."""
        self.note("maintain", given)
        return MaintainResult()

    async def thread_reset(self, given: ResetParams, /) -> None:
        """Record the call."""
        self.note("thread_reset", given)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Replace all but the newest item with one record, or delegate to the runtime."""
        self.note("compact", given)
        if not self.part.folds:
            return await super().compact(given)
        rebase = Rebase(items=(_user_item(self.part.folds), *given.items[-1:]))
        return CompactResult(compacted=True, rebase=rebase)


class _Committing(ProbeEngine):
    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        self.note("commit_turn", given)
        return CommitResult("committed")


class _Following(ProbeEngine):
    async def after_turn(self, given: AfterTurnParams, /) -> None:
        self.note("after_turn", given)


class _Batching(ProbeEngine):
    async def ingest_batch(self, given: IngestBatchParams, /) -> IngestBatchResult:
        self.note("ingest_batch", given)
        return IngestBatchResult(len(given.items))


class _Ingesting(ProbeEngine):
    async def ingest(self, given: IngestParams, /) -> IngestResult:
        self.note("ingest", given)
        return IngestResult(ingested=True)


_WAYS: Mapping[str, type[ProbeEngine]] = {
    "commit_turn": _Committing,
    "after_turn": _Following,
    "ingest_batch": _Batching,
    "ingest": _Ingesting,
}


def probe_engine(given: Mapping[str, Any]) -> ProbeEngine:
    """Return the engine that a row describes."""
    part = convert(given, Part)
    return _WAYS[part.way](part)


def _assemble(plan: Plan, given: AssembleParams) -> AssembleResult:
    now = len(given.items) if given.pre_prompt_count is None else given.pre_prompt_count
    before, present = given.items[:now], given.items[now:]
    if plan.shows is not None:
        padding = " Drop by drop." * plan.padded + " The end." * bool(plan.padded)
        before = tuple(_user_item(text + padding) for text in plan.shows)
    memory = (recall_item(plan.recall),) if plan.recall else ()
    kept = () if plan.without_input else present
    items = (*before, *memory, *kept, *(present if plan.parted else ()))
    mode = Projection(mode="per_epoch", epoch=plan.epoch, fingerprint=plan.fingerprint)
    return AssembleResult(
        items=items,
        system_prompt_addition=plan.addition,
        projection=mode if plan.epoch else Projection(),
    )


def _user_item(text: str) -> ContextItem:
    return ContextItem.of(Message(role="user", content=(InputText(text),)))
