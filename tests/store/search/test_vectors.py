"""What the extra `semantic` adds: texts are found that mean the same in other words."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.store.search.test_searcher import Home, answers, returns
from treadle.core.entries import Draft
from treadle.store import SqliteIndex, SqliteStore
from treadle.store.contract import Hit, Search
from treadle.store.search.weights import RankWeights

TALK: tuple[str | Draft, ...] = (
    "Petra: I twisted my knee on the way down, no running for weeks",
    answers("the kettle is on, come in whenever you like"),
    *(f"lorry {n} brings {n} tons of gravel to the quarry" for n in range(30)),
)
IN_OTHER_WORDS = "What injury does the runner have?"


@pytest.fixture
async def home(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        made = Home(store, index, (await store.create()).id)
        await made.say(*TALK)
        await index.catch_up()
        yield made
        await index.close()


async def ask(home: Home, text: str, **about) -> list[Hit]:
    threads = (home.thread,)
    asked = Search(text, threads=threads, explain=True, wait_for_vectors=True, **about)
    return await home.index.search(asked)


async def test_what_means_the_same_is_found_without_a_word_in_common(home):
    assert await ask(home, IN_OTHER_WORDS) == []
    await home.index.build_vectors()
    first, *_ = await ask(home, IN_OTHER_WORDS)
    assert first.seq == 1
    assert first.why is not None
    assert first.why.words == {}
    assert first.why.meaning > 1
    assert await ask(home, IN_OTHER_WORDS, weights=RankWeights(meaning=0)) == []


async def test_vectors_are_built_once_and_only_for_what_people_and_agents_said(home):
    await home.say(returns("a knee was twisted", "c1"))
    await home.index.catch_up()
    told: list[tuple[int, int]] = []
    await home.index.build_vectors(progress=lambda *done: told.append(done))
    assert told == [(33, 33)]
    await home.index.build_vectors(progress=lambda *done: told.append(done))
    assert told == [(33, 33)]
    coverage = await home.index.coverage()
    assert (coverage.entries, coverage.with_words, coverage.with_vectors) == (33, 33, 33)
    assert 33 not in [hit.seq for hit in await ask(home, IN_OTHER_WORDS)]
    await home.say("a sprained ankle, and no sport until May")
    await home.index.catch_up()
    await home.index.build_vectors()
    assert {hit.seq for hit in await ask(home, IN_OTHER_WORDS, limit=2)} == {1, 34}


async def test_names_and_quoted_words_are_looked_for_as_they_stand(home):
    asked = ("quarry", '"gravel to the quarry"', "quarry_gravel_lorry")
    before = [await ask(home, each) for each in asked]
    await home.index.build_vectors()
    assert [await ask(home, each) for each in asked] == before
    skips = Search(IN_OTHER_WORDS, threads=(home.thread,), skip_common=True)
    assert await home.index.search(skips) == [], "no turn waits for a model"


async def test_other_threads_have_no_part_in_what_is_close(home):
    other = (await home.store.create()).id
    await home.say("my leg is broken and I cannot run", thread=other)
    await home.index.catch_up()
    await home.index.build_vectors()
    assert {hit.thread for hit in await ask(home, IN_OTHER_WORDS)} == {home.thread}
    found = await home.index.search(Search(IN_OTHER_WORDS, wait_for_vectors=True, limit=2))
    assert {hit.thread for hit in found} == {home.thread, other}
    of_assistants = await ask(home, IN_OTHER_WORDS, roles=("assistant",))
    assert of_assistants == [], "vectors know no roles"


async def test_of_a_deleted_thread_no_vector_is_left(home, tmp_path):
    other = (await home.store.create()).id
    await home.say(*["a secret about a kettle"] * 3, thread=other)
    await home.index.catch_up()
    await home.index.build_vectors()
    assert vectors(tmp_path) == [32, 3]
    await home.store.delete(other)
    await home.index.catch_up()
    assert vectors(tmp_path) == [32]


async def test_vectors_of_another_model_are_made_again(home, tmp_path):
    await home.index.build_vectors()
    with closing(sqlite3.connect(tmp_path / "index.db")) as connection:
        connection.execute("UPDATE vector_progress SET model = 'an older one', upto = 7")
        connection.execute("UPDATE vectors SET codes = zeroblob(length(codes))")
        connection.commit()
    assert (await home.index.coverage()).with_vectors == 0
    await home.index.build_vectors()
    assert vectors(tmp_path) == [32]
    assert (await ask(home, IN_OTHER_WORDS))[0].seq == 1


def vectors(home) -> list[int]:
    """Return how many vectors each thread has."""
    with closing(sqlite3.connect(home / "index.db")) as connection:
        rows = connection.execute(
            "SELECT sum(length(codes)) / 64 FROM vectors GROUP BY thread ORDER BY thread"
        )
        return [count for (count,) in rows]


SEARCH_TWICE = """
import asyncio, sys
from pathlib import Path
from treadle.store import SqliteIndex, SqliteStore
from treadle.store.search.vector_model import load_model

async def main():
    home, asked = Path(sys.argv[1]), "What injury does the runner have?"
    async with await SqliteStore.open(home) as store:
        index = SqliteIndex(store, home)
        print([hit.seq for hit in await index.search(asked)])
        load_model()
        print([hit.seq for hit in await index.search(asked)][:1])
        await index.close()

asyncio.run(main())
"""


async def test_the_first_search_of_a_process_does_not_wait_for_the_model(home, tmp_path):
    await home.index.build_vectors()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SEARCH_TWICE, str(tmp_path), stdout=subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert printed.decode().split("\n")[:2] == ["[]", "[1]"]
