from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot
from treadle_retrieval import RetrievalEngine, engine

from treadle.core.items import Message, text_of
from treadle.core.provenance import InputProvenance
from treadle.engines.loading import EngineContext
from treadle.engines.values import AssembleResult, BootstrapParams, CommitParams, ResetParams
from treadle.testing.conversations import ANNOUNCED, ANNOUNCEMENT, FakeConversation, assemble_recall


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "engines" / "retrieval"


@pytest.fixture
async def retrieval(home: Path) -> AsyncIterator[RetrievalEngine]:
    made = engine(EngineContext(home=home))
    yield made
    await made.dispose()


@pytest.fixture
def past() -> FakeConversation:
    return FakeConversation()


def texts(result: AssembleResult) -> list[str]:
    messages = [item.item for item in result.items]
    return [text_of(each.content) for each in messages if isinstance(each, Message)]


def spoken(past: FakeConversation) -> list[CommitParams]:
    """A talk about animals, turn by turn."""
    return [
        past.turn("Where does the zebra sleep?", "Standing, in the long grass."),
        past.turn("And the heron?", "On one leg."),
        past.turn("Do zebras bite?", "They do."),
    ]


async def remembers(retrieval: RetrievalEngine, past: FakeConversation) -> None:
    for turn in spoken(past):
        await retrieval.commit_turn(turn)


async def test_what_is_out_of_sight_and_asked_for_stands_before_the_request(
    retrieval: RetrievalEngine, past: FakeConversation
):
    await remembers(retrieval, past)
    result = await assemble_recall(retrieval, past, "Tell me about the zebra again")
    assert [item.recall for item in result.items] == [True, False]
    assert texts(result)[0] == snapshot("""\
<recalled_memory>
Found in the thread's memory. This is a record of what was said before, not a request.

turn 1, user: Where does the zebra sleep?
turn 1, assistant: Standing, in the long grass.
turn 3, user: Do zebras bite?
turn 3, assistant: They do.
</recalled_memory>\
""")


async def test_what_is_in_sight_is_not_told_twice(
    retrieval: RetrievalEngine, past: FakeConversation
):
    await remembers(retrieval, past)
    given = past.assemble_params("Tell me about the zebra again")
    result = await retrieval.assemble(given)
    assert result.items == given.items
    last_turn = await retrieval.assemble(past.assemble_params("zebra", visible=4))
    assert "turn 1, user" in texts(last_turn)[2]
    assert "turn 3" not in texts(last_turn)[2]
    assert [item.recall for item in last_turn.items] == [False] * 4 + [True, False]


async def test_guidance_is_the_same_whatever_there_is_to_show(
    retrieval: RetrievalEngine, past: FakeConversation
):
    first = await assemble_recall(retrieval, past, "zebra")
    await remembers(retrieval, past)
    assert (await assemble_recall(retrieval, past, "zebra")).system_prompt_addition == (
        first.system_prompt_addition
    )
    assert first.system_prompt_addition


@pytest.mark.parametrize(
    "signals",
    [
        {"persist": False},
        {"events": (ANNOUNCEMENT,)},
        {"provenance": InputProvenance(kind="internal_system")},
        {"provenance": ANNOUNCED, "events": (ANNOUNCEMENT,), "persist": False},
    ],
    ids=["volatile", "event", "system", "announcement"],
)
async def test_the_runtimes_own_input_asks_memory_nothing(
    retrieval: RetrievalEngine, past: FakeConversation, signals: dict[str, Any]
):
    await remembers(retrieval, past)
    given = past.assemble_params("Where does the zebra sleep?", visible=0, **signals)
    assert (await retrieval.assemble(given)).items == given.items


async def test_the_same_words_are_kept_or_not_by_their_signals(retrieval: RetrievalEngine):
    past = FakeConversation()
    words = "[Internal] a zebra task is complete"
    await retrieval.commit_turn(past.turn(words, "aha", events=(ANNOUNCEMENT,)))
    await retrieval.commit_turn(past.turn(words, "aha", persist=False))
    assert len((await assemble_recall(retrieval, past, "zebra")).items) == 1
    await retrieval.commit_turn(past.turn(words, "aha"))
    assert texts(await assemble_recall(retrieval, past, "zebra"))[0].count(words) == 1


async def test_messages_of_other_threads_are_told_as_theirs(retrieval: RetrievalEngine):
    past = FakeConversation()
    sent = InputProvenance(kind="inter_session", source_thread="thr_other")
    await retrieval.commit_turn(past.turn("the zebra escaped", "oh", provenance=sent))
    recalled = texts(await assemble_recall(retrieval, past, "zebra"))[0]
    assert "turn 1, another thread: the zebra escaped" in recalled


async def test_turns_that_share_more_words_come_first_and_then_newer_ones(
    retrieval: RetrievalEngine,
):
    past = FakeConversation()
    for asked in ("zebra foal", "zebra one", "zebra two", "zebra three"):
        await retrieval.commit_turn(past.turn(asked, "yes"))
    recalled = texts(await assemble_recall(retrieval, past, "The zebra and its foal"))[0]
    assert [line for line in recalled.splitlines() if "user" in line] == [
        "turn 1, user: zebra foal",
        "turn 3, user: zebra two",
        "turn 4, user: zebra three",
    ]


async def test_memory_never_takes_the_room_of_the_conversation(
    retrieval: RetrievalEngine, past: FakeConversation
):
    for number in range(20):
        await retrieval.commit_turn(past.turn(f"zebra {number} " * 2_000))
    result = await assemble_recall(retrieval, past, "zebra")
    assert result.items[0].recall
    assert 500 < result.items[0].tokens < 1_000
    tight = past.assemble_params("zebra", visible=0, token_budget=500)
    assert (await retrieval.assemble(tight)).items == tight.items


async def test_catching_up_reads_only_what_is_new(
    retrieval: RetrievalEngine, past: FakeConversation
):
    spoken(past)
    given = BootstrapParams(thread=past.ref, log=past)
    first = await retrieval.bootstrap(given)
    again = await retrieval.bootstrap(given)
    past.turn("One more zebra")
    more = await retrieval.bootstrap(given)
    assert [first.imported, again.bootstrapped, more.imported] == [6, False, 2]


async def test_turns_that_were_handed_over_without_catching_up_leave_no_gap(
    retrieval: RetrievalEngine, past: FakeConversation
):
    spoken(past)
    await retrieval.commit_turn(past.turn("The latest zebra"))
    caught_up = await retrieval.bootstrap(BootstrapParams(thread=past.ref, log=past))
    assert caught_up.imported == 6


async def test_a_rolled_back_turn_is_forgotten_and_its_key_is_not(
    retrieval: RetrievalEngine, past: FakeConversation
):
    turn = past.turn("The spotted zebra")
    await retrieval.commit_turn(turn)
    await retrieval.thread_reset(
        ResetParams(thread=past.ref, log=past, reason="rollback", first=turn.first, last=turn.last)
    )
    assert (await retrieval.commit_turn(turn)).status == "duplicate"
    assert len((await assemble_recall(retrieval, past, "spotted zebra")).items) == 1


async def test_a_commit_that_fails_halfway_keeps_nothing(
    retrieval: RetrievalEngine, past: FakeConversation, home: Path
):
    turn = past.turn("The last zebra")
    await assemble_recall(retrieval, past)
    await asyncio.to_thread(break_the_index, home)
    with pytest.raises(sqlite3.OperationalError):
        await retrieval.commit_turn(turn)
    await asyncio.to_thread(mend_the_index, home)
    assert (await retrieval.commit_turn(turn)).status == "committed"
    assert "The last zebra" in texts(await assemble_recall(retrieval, past, "zebra"))[0]


def break_the_index(home: Path) -> None:
    with closing(sqlite3.connect(home / "memory.db")) as db:
        db.execute("ALTER TABLE words RENAME TO lost")


def mend_the_index(home: Path) -> None:
    with closing(sqlite3.connect(home / "memory.db")) as db:
        db.execute("ALTER TABLE lost RENAME TO words")


async def test_two_engines_share_one_file(
    retrieval: RetrievalEngine, past: FakeConversation, home: Path
):
    other = engine(EngineContext(home=home))
    turns = spoken(past)
    async with asyncio.TaskGroup() as group:
        for turn in turns:
            group.create_task(retrieval.commit_turn(turn))
            group.create_task(other.commit_turn(turn))
    assert await assemble_recall(retrieval, past) == await assemble_recall(other, past)
    await other.dispose()
    assert [(await retrieval.commit_turn(turn)).status for turn in turns] == ["duplicate"] * 3


async def test_without_a_home_it_keeps_things_in_mind(past: FakeConversation):
    made = engine(EngineContext())
    await remembers(made, past)
    assert (await assemble_recall(made, past, "zebra")).items[0].recall
    await made.dispose()


@pytest.mark.parametrize("prompt", ['"', "zebra OR NEAR(", "text:zebra*", "", "a b c", "zebra'--"])
async def test_any_words_can_be_asked_for(
    retrieval: RetrievalEngine, past: FakeConversation, prompt: str
):
    await remembers(retrieval, past)
    result = await assemble_recall(retrieval, past, prompt)
    assert result.items[0].recall == ("zebra" in prompt)


async def test_an_engine_that_knows_no_new_field_gives_the_same_bytes(
    retrieval: RetrievalEngine, past: FakeConversation
):
    await remembers(retrieval, past)
    given = past.assemble_params("zebra", visible=0)
    bare = msgspec.structs.replace(
        given, settings=None, context=None, citations="auto", current_tokens=None
    )
    assert await retrieval.assemble(bare) == await retrieval.assemble(given)
