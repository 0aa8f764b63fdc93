"""Engines that break one sentence of the contract each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
from treadle_retrieval import RetrievalEngine
from treadle_retrieval.memory import Memory

from treadle.engines.loading import EngineContext
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    ContextItem,
    Conversation,
    IngestParams,
    IngestResult,
    ResetParams,
)
from treadle.prompt.input import user_message
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool


class Retrieval(RetrievalEngine):
    """Breaks nothing yet."""

    def __init__(self, home: Path | None) -> None:
        super().__init__(Memory(home and home / "memory.db"))

    @classmethod
    async def made(cls, context: EngineContext) -> Self:
        return cls(context.home)


class Fickle(Retrieval):
    """Never says the same thing twice."""

    said = 0

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        result = await super().assemble(given)
        type(self).said += 1
        return msgspec.structs.replace(result, system_prompt_addition=f"number {self.said}")


class Meddling(Retrieval):
    """Changes what it is given."""

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        result = await super().assemble(given)
        msgspec.structs.force_setattr(given, "items", given.items[:-1])
        return result


class Greedy(Retrieval):
    """Takes more room than there is."""

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        result = await super().assemble(given)
        if not given.items[:-1]:
            return result
        much = ContextItem.of(user_message("much " * 2_000), recall=True)
        return msgspec.structs.replace(result, items=(much, *result.items))


class Careless(Retrieval):
    """Leaves outputs out."""

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        result = await super().assemble(given)
        kept = tuple(item for item in result.items if b"_output" not in item.body)
        return msgspec.structs.replace(result, items=kept)


class Deaf(Retrieval):
    """Loses what was just said where there is a past."""

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        result = await super().assemble(given)
        if len(given.items) < 2:
            return result
        return msgspec.structs.replace(result, items=result.items[:-1])


class Mumbling(Retrieval):
    """Writes what nobody can read."""

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        result = await super().assemble(given)
        if not given.items[:-1]:
            return result
        return msgspec.structs.replace(result, items=(*result.items, ContextItem(body=b"hm")))


class Idle(Retrieval):
    """Compacts nothing and says nothing of it."""

    async def compact(self, given: CompactParams, /) -> CompactResult:
        del given
        return CompactResult()


class Inventive(Retrieval):
    """Has other tools every time."""

    asked = 0

    def tools(self) -> Sequence[Tool]:
        type(self).asked += 1

        @tool(name=f"tool_{self.asked}")
        async def another() -> str:
            """Another one."""
            return ""

        return (another,)


class Repeating(Retrieval):
    """Takes every commit for a new one."""

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        await super().commit_turn(given)
        return CommitResult("committed")


class Hoarding(Retrieval):
    """Keeps a turn again each time it comes."""

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        result = await super().commit_turn(given)
        if result.status == "duplicate":
            await super().commit_turn(_elsewhere(given))
        return result

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        result = await super().ingest(given)
        if not result.ingested:
            await super().ingest(msgspec.structs.replace(given, item=_moved(given.item)))
        return result


class Chatty(Retrieval):
    """Knows only one thread."""

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        return await super().commit_turn(_one_thread(given))

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        return await super().assemble(_one_thread(given))


class Curious(Retrieval):
    """Keeps what is not to be kept."""

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        count = len(given.items)
        kept = {"persist": (True,) * count, "internal_events": (None,) * count}
        return await super().commit_turn(msgspec.structs.replace(given, **kept))


class Grudging(Retrieval):
    """Forgets nothing."""

    async def thread_reset(self, given: ResetParams, /) -> None:
        del given


class Forgetful(Retrieval):
    """Keeps everything in mind and nothing on disk."""

    def __init__(self, home: Path | None) -> None:
        del home
        super().__init__(None)


class Eager(Retrieval):
    """Takes the past for new whenever it catches up."""

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        past = await given.log.read()
        moved = tuple(map(_moved, past.items))
        log = _Log(msgspec.structs.replace(past, items=moved))
        await super().bootstrap(given)
        return await super().bootstrap(msgspec.structs.replace(given, log=log))


class Fragile(Retrieval):
    """Can be let go of once."""

    gone = False

    async def dispose(self) -> None:
        if self.gone:
            raise RuntimeError("it is gone already")
        self.gone = True
        await super().dispose()


class _Log:
    def __init__(self, past: Conversation) -> None:
        self.past = past

    async def read(self, first: int = 1, last: int | None = None) -> Conversation:
        del first, last
        return self.past

    async def search(self, query: str, *, limit: int = 20) -> Sequence[tuple[int, str]]:
        del query, limit
        return ()


def _moved(item: ContextItem) -> ContextItem:
    return msgspec.structs.replace(item, seq=(item.seq or 0) + 1_000)


def _elsewhere(given: CommitParams) -> CommitParams:
    items = tuple(map(_moved, given.items))
    return msgspec.structs.replace(given, key=f"{given.key} again", items=items)


def _one_thread(given: Any) -> Any:
    return msgspec.structs.replace(
        given, thread=msgspec.structs.replace(given.thread, id="thr_only")
    )


KINDS = (
    Careless, Chatty, Curious, Deaf, Eager, Fickle, Forgetful, Fragile, Greedy, Grudging,
    Hoarding, Idle, Inventive, Meddling, Mumbling, Repeating,
)  # fmt: skip
