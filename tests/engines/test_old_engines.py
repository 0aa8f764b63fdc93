from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from tests.engines.scenes import Twins, engine_message, epochs
from tests.harness.scenes import call, hear, scripted
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.engines.contract import ContextEngine, EngineInfo
from treadle.engines.linear import LinearEngine
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    CompactParams,
    CompactResult,
    ContextItem,
    IngestParams,
    IngestResult,
    ThreadRef,
    recall_item,
)
from treadle.prompt.instructions import compaction_prompt
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

ANNOUNCED = InputProvenance(
    kind="inter_session",
    source_thread="thr_child",
    source_tool="subagent_announce",
    source_role="subagent",
)
DONE = InternalEvent(
    source="subagent", child_thread="thr_child", task="count", status="ok", result="four"
)
SUMMARY = Answer(when=compaction_prompt()[:40], times=0, text="A summary.")


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


class OldParams(Struct, frozen=True, kw_only=True):
    """What assembling was given before there were signals."""

    thread: ThreadRef
    items: tuple[ContextItem, ...]
    token_budget: int | None = None
    available_tools: frozenset[str] = frozenset()
    citations: str = "auto"
    model: str = ""
    prompt: str | None = None


def older(given: AssembleParams) -> OldParams:
    """`given`, as a runtime of that time would have had it."""
    return OldParams(**{name: getattr(given, name) for name in OldParams.__struct_fields__})


def windowed(items: Sequence[ContextItem], prompt: str | None) -> AssembleResult:
    """Remembers something at every turn, and drops the first turns of a long conversation."""
    if prompt is None:
        return AssembleResult(items=tuple(items))
    history, now = items[:-1], items[-1]
    memory = recall_item(f"{len(history)} items came before {prompt!r}.")
    turns = sorted({item.turn for item in history})
    if len(turns) > 3:
        kept = [item for item in history if item.turn >= turns[2]]
        return AssembleResult(items=(engine_message("Earlier things."), *kept, memory, now))
    return AssembleResult(
        items=(*history, memory, now), system_prompt_addition=f"Knows {len(turns) // 2} things."
    )


class Recent:
    """An engine of today that ignores every signal."""

    def __init__(self, *, owns_compaction: bool) -> None:
        self.info = EngineInfo(id="windowed", name="Windowed", owns_compaction=owns_compaction)

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        return IngestResult(bool(given.item.id))

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        return windowed(given.items, given.prompt)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        assert given.delegate is not None
        return await given.delegate()


class Old(Recent):
    """The same engine, written when the parameters had no signals."""

    async def assemble(self, given: Any, /) -> AssembleResult:
        return await self.assemble_old(older(given))

    async def assemble_old(self, given: OldParams) -> AssembleResult:
        return windowed(given.items, given.prompt)


class Blind(Recent):
    """The same engine, in a runtime that fills in no signal."""

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        blank = msgspec.structs.replace(
            given,
            provenance=(),
            internal_events=(),
            persist=(),
            pre_prompt_count=None,
            current_tokens=None,
            settings=None,
            context=None,
        )
        return await super().assemble(blank)


async def lived(twins: Twins, name: str, engine: ContextEngine | str) -> list[bytes]:
    """The requests of a whole life: tools, announcements, a compaction, a rollback."""
    model = scripted(
        Answer(when="first", calls=(call("look"),)), SUMMARY, Answer(times=0, text="Noted.")
    )
    async with twins.opened(name, model, tools=(look,), engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "Done.", provenance=ANNOUNCED, events=(DONE,))
        sent = InputProvenance(kind="inter_session", source_thread="thr_other")
        await hear(thread, "A word.", provenance=sent)
        await hear(thread, "fourth " * 400)
        await hear(thread, "fifth")
        await thread.compact()
        await hear(thread, "sixth")
        await thread.rollback()
        await hear(thread, "seventh")
        if not isinstance(engine, str | LinearEngine):
            assert ("publish", "windowed") in await epochs(thread)
    async with twins.opened(name, model, tools=(look,), engine=engine) as thread:
        await hear(thread, "eighth")
    return [request.body for request in model.requests]


@pytest.mark.parametrize("owns", [False, True], ids=["asked once", "asked at every step"])
async def test_an_engine_that_ignores_the_signals_makes_the_requests_it_made_before_them(
    tmp_path: Path, owns
):
    twins = await Twins.born(tmp_path)
    recent = await lived(twins, "recent", Recent(owns_compaction=owns))
    old = await lived(twins, "old", Old(owns_compaction=owns))
    blind = await lived(twins, "blind", Blind(owns_compaction=owns))
    assert len(recent) > 9
    assert old == recent
    assert blind == recent


class Passing(LinearEngine):
    """Shows what it is given, through the whole of the lifecycle."""

    info = EngineInfo(id="windowed", name="Passing")


async def test_an_engine_that_changes_nothing_makes_the_requests_of_no_engine_at_all(
    tmp_path: Path,
):
    twins = await Twins.born(tmp_path)
    plain = await lived(twins, "plain", "linear")
    passing = await lived(twins, "passing", Passing())
    assert passing == plain


async def test_an_old_engine_gets_the_items_that_a_new_one_gets(tmp_path: Path):
    twins = await Twins.born(tmp_path)
    seen: dict[str, list[OldParams]] = {"old": [], "recent": []}

    class OldNoting(Old):
        async def assemble_old(self, given: OldParams) -> AssembleResult:
            seen["old"].append(given)
            return await super().assemble_old(given)

    class RecentNoting(Recent):
        async def assemble(self, given: AssembleParams, /) -> AssembleResult:
            seen["recent"].append(older(given))
            return await super().assemble(given)

    await lived(twins, "old", OldNoting(owns_compaction=True))
    await lived(twins, "recent", RecentNoting(owns_compaction=True))
    assert seen["old"] == seen["recent"]
    assert len(seen["old"]) > 8
