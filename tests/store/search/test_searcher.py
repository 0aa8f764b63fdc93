from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.core.entries import Draft
from treadle.core.errors import NotFound, SearchRefused
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    SummaryText,
    encode_item,
)
from treadle.store import Change, MemoryIndex, MemoryStore, SqliteIndex, SqliteStore
from treadle.store.contract import Hit, Hits, Index, Search, Store
from treadle.store.search.terms import fold
from treadle.testing.contracts.drafts import append, user_draft


@dataclass
class Home:
    """A store with one thread, and its index."""

    store: Store
    index: Index
    thread: str

    async def say(self, *drafts: str | Draft, thread: str | None = None) -> None:
        entries = tuple(user_draft(each) if isinstance(each, str) else each for each in drafts)
        await append(self.store, thread or self.thread, Change(entries=entries))

    async def seqs(self, query: str | Search, **options) -> list[int]:
        return [hit.seq for hit in await self.index.search(query, **options)]


@pytest.fixture
async def home():
    store = MemoryStore()
    index = MemoryIndex(store)
    yield Home(store, index, (await store.create()).id)
    await index.close()


def answers(text: str, **about) -> Draft:
    return Draft(body=encode_item(Message(role="assistant", content=(OutputText(text),))), **about)


def calls(name: str, given: str, call: str) -> Draft:
    return Draft(body=encode_item(FunctionCall(name=name, arguments=given, call_id=call)))


def returns(output: str, call: str) -> Draft:
    return Draft(body=encode_item(FunctionCallOutput(call_id=call, output=output)))


async def test_a_hit_says_who_said_it_when_and_where(home):
    await home.say("hello", answers("deployed to Kestrel", turn=4, source_id="m-7"), "thanks a lot")
    (hit,) = await home.index.search(Search("Kestrel", neighbours=1))
    (entry,) = await home.store.read(home.thread, 2, 2)
    assert msgspec.structs.replace(hit, score=1.0) == Hit(
        thread=home.thread,
        seq=2,
        score=1.0,
        snippet="deployed to Kestrel",
        time=entry.time,
        role="assistant",
        turn=4,
        source_id="m-7",
        neighbours=(1, 3),
    )


async def test_forms_of_words_accents_and_parts_of_names_are_found(home):
    await home.say(
        "the deployments were failing",
        "Müller's café",
        "raise ZeroDivisionError in parse_http_request",
        "reading src/store/finderIndex.py",
    )
    asked = {
        "deployment fails": [1],
        "muller CAFE": [2],
        "zero division": [3],
        "zero_division_error": [3],
        "HttpRequest": [3],
        "ZeroDivisionError": [3],
        "finder": [4],
    }
    assert {text: await home.seqs(text) for text in asked} == asked


async def test_scripts_without_spaces_are_found_by_any_of_their_characters(home):
    await home.say("データベースの接続が切れた", "构建失败", "테스트가 통과했다", "plain words")
    asked = {
        "接続": [1],
        "データ": [1],
        "た": [1],
        "失败": [2],
        "败": [2],
        "통과": [3],
        "続が切": [1],
    }
    assert {text: await home.seqs(text) for text in asked} == asked


async def test_more_words_rarer_words_and_all_words_come_first(home):
    await home.say(*["gateway timeout"] * 5, "rollout of Kestrel", "Kestrel gateway", "gateway")
    assert (await home.seqs("Kestrel gateway"))[:2] == [7, 6]
    assert await home.seqs(Search("Kestrel gateway", all_words=True)) == [7]


async def test_quoted_words_count_as_a_phrase(home):
    await home.say(
        "signing the keys, then rotate them, keys signing again", "we rotate signing  keys"
    )
    assert (await home.seqs("signing keys"))[0] == 2
    assert (await home.seqs('rotate "keys signing"'))[0] == 1


async def test_an_answer_without_the_words_is_found_beside_its_question(home):
    filler = [f"note {n} about nothing" for n in range(30)]
    await home.say(*filler, "which database should the ledger use?", answers("Postgres."), *filler)
    assert (await home.seqs("database chosen for the ledger"))[:2] == [31, 32]
    assert 32 not in await home.seqs("ledger database")
    assert 32 not in await home.seqs(Search("database chosen for the ledger", roles=("user",)))


async def test_a_neighbour_with_some_of_the_words_lifts_a_hit(home):
    alone, beside = "the gateway was slow", "the gateway was late"
    await home.say(alone, *["filler"] * 5, "Kestrel", beside, *["filler"] * 5)
    assert (await home.seqs("Kestrel gateway"))[:3] == [7, 8, 1]


async def test_function_words_count_only_among_themselves(home):
    await home.say("to be or not to be", "the gateway")
    assert await home.seqs("what is the gateway?") == [2]
    assert await home.seqs("to be") == [1]


async def test_roles_and_tools_narrow_a_search(home):
    thought = Reasoning(summary=(SummaryText("needle thought"),))
    await home.say(
        "needle asked",
        answers("needle answered"),
        calls("exec_command", '{"cmd":"needle"}', "c1"),
        returns("needle put out", "c1"),
        calls("apply_patch", "needle", "c2"),
        Draft(body=encode_item(thought)),
    )
    asked = {
        ("user",): [1],
        ("assistant",): [2],
        ("tool",): [3, 4, 5],
        ("thinking",): [6],
        ("user", "thinking"): [1, 6],
        ("nobody",): [],
    }
    for roles, seqs in asked.items():
        assert sorted(await home.seqs(Search("needle", roles=roles))) == seqs
    assert sorted(await home.seqs(Search("needle", tools=("exec_command",)))) == [3, 4]
    assert await home.seqs(Search("needle", tools=("apply_patch",))) == [5]
    assert await home.seqs(Search("needle", mode="substring", tools=("exec_command",))) == [4, 3]


async def test_an_output_is_its_tools_also_when_the_call_was_indexed_before(home):
    await home.say(calls("exec_command", "{}", "c1"))
    await home.index.catch_up()
    await home.say(returns("needle", "c1"))
    assert await home.seqs(Search("needle", tools=("exec_command",))) == [2]


async def test_times_narrow_a_search(tmp_path):
    now = [0.0]
    async with await SqliteStore.open(tmp_path, clock=lambda: now[0]) as store:
        index = SqliteIndex(store, tmp_path)
        home = Home(store, index, (await store.create()).id)
        for now[0] in (10.0, 20.0, 30.0):
            await home.say("needle")
        asked = {(None, None): [1, 2, 3], (20_000, None): [2, 3], (None, 20_000): [1, 2]}
        asked |= {(11_000, 29_000): [2], (31_000, None): []}
        for (since, until), seqs in asked.items():
            query = Search("needle", since=since, until=until)
            assert sorted(await home.seqs(query)) == seqs
            regex = Search("ne+dle", mode="regex", since=since, until=until)
            assert await home.seqs(regex) == seqs[::-1]
        await index.close()


async def test_several_threads_are_searched_each_with_its_prefix(home):
    await home.say("needle one", "needle two")
    fork = (await home.store.fork(home.thread, 1)).id
    other = (await home.store.create()).id
    await home.say("needle fork", thread=fork)
    await home.say("needle other", thread=other)

    async def found(*threads: str, **how) -> list[tuple[str, int]]:
        hits = await home.index.search(Search("needle", threads=threads, **how))
        return sorted((hit.thread, hit.seq) for hit in hits)

    assert await found(fork) == [(fork, 1), (fork, 2)]
    assert await found(fork, mode="substring") == [(fork, 1), (fork, 2)]
    assert await found(fork, other) == sorted([(fork, 1), (fork, 2), (other, 1)])
    assert await found() == []
    with pytest.raises(NotFound):
        await found("thr_none")


async def test_text_as_it_stands_is_found_newest_first(home):
    await home.say(
        "raise ZeroDivisionError(x)",
        "a/b-c/d.py: unexpected EOF",
        "ZERODIVISION again",
        "x = foo->bar[0]",
        "データベースの接続",
    )
    asked = {
        "visionErr": [1],
        "zerodiv": [3, 1],
        "b-c/d.p": [2],
        "foo->bar": [4],
        "->": [4],
        "ベースの接": [5],
        "x": [4, 2, 1],
        "pected EO": [2],
        "pected  EO": [],
        "nowhere": [],
        "": [],
    }
    found = {text: await home.seqs(Search(text, mode="substring")) for text in asked}
    assert found == asked


async def test_regular_expressions_are_found_newest_first(home):
    await home.say("exit code 1", "exit code 137", "EXIT CODE 2", "no code")
    asked = {
        r"exit code \d{3}": [2],
        r"(?i)exit code \d": [3, 2, 1],
        "^no": [4],
        "code$": [4],
        r"\d": [3, 2, 1],
        "nothing of this": [],
    }
    assert {text: await home.seqs(Search(text, mode="regex")) for text in asked} == asked
    with pytest.raises(SearchRefused, match="looks ahead"):
        await home.index.search(Search("a(?=b)", mode="regex"))


async def test_a_search_that_looked_at_too_much_says_so(home):
    await home.say(*["x" * 5_000] * 2_500)
    hits = await home.index.search(Search("x+y|x+z", mode="regex"))
    assert list(hits) == []
    assert hits.note.startswith("only the newest 2,000 entries that could match were looked at")
    assert "narrow the search" in hits.note


async def test_a_pattern_that_is_long_when_compiled_looks_at_fewer_entries(home):
    await home.say(*["x" * 5_000] * 200)
    hits = await home.index.search(Search("x[xy]{500}z", mode="regex"))
    assert hits.note.startswith("only the newest 125 entries that could match were looked at")


def word(number: int) -> str:
    return "q" + str(number).translate(str.maketrans("0123456789", "bcdfghjklm")) + "q"


async def test_a_search_indexes_so_much_and_says_what_is_left(home):
    entries = tuple(user_draft(word(n)) for n in range(21_500))
    await append(home.store, home.thread, Change(entries=entries))
    hits = await home.index.search(word(100))
    assert [hit.seq for hit in hits] == [101]
    assert hits.note == "about 1,500 entries are not indexed yet; search again to go on"
    assert await home.seqs(word(21_400), catch_up=False) == []
    told: list[tuple[int, int]] = []
    await home.index.catch_up(progress=lambda done, total: told.append((done, total)))
    assert told == [(1_000, 1_500), (1_500, 1_500)]
    hits = await home.index.search(word(21_400), catch_up=False)
    assert ([hit.seq for hit in hits], hits.note) == ([21_401], "")


async def test_very_common_words_find_the_newest_and_tell_apart_what_rare_ones_found(home):
    common = [user_draft("alpha beta"), user_draft("alpha"), user_draft("beta")]
    await home.say("alpha beta gamma", "gamma itself again", *common * 10_500)
    await home.index.catch_up()
    last = 2 + 3 * 10_500
    assert (await home.seqs("alpha", limit=2)) == [last - 1, last - 4]
    assert (await home.seqs("alpha beta", limit=2)) == [last - 2, last - 5]
    assert (await home.seqs("gamma alpha beta", limit=2)) == [1, 2]
    assert (await home.seqs(Search("alpha", roles=("assistant",)))) == []


async def test_words_that_stand_everywhere_tell_nothing(home):
    await home.say("alpha gamma", *["alpha"] * 5_000)
    assert len(await home.index.search("alpha")) > 0
    assert await home.seqs(Search("alpha", skip_common=True)) == []
    assert await home.seqs(Search("alpha gamma", skip_common=True)) == [1]
    assert await home.seqs(Search("gamma", skip_common=True)) == [1]


async def test_what_need_not_be_indexed_is_not_waited_for(home):
    await home.say("alpha one")
    assert await home.seqs(Search("alpha", threads=(home.thread,), indexed_upto=1)) == [1]
    await home.say("alpha two")
    assert await home.seqs(Search("alpha", threads=(home.thread,), indexed_upto=1)) == [1]
    assert await home.seqs(Search("alpha", threads=(home.thread,), indexed_upto=2)) == [2, 1]
    with pytest.raises(NotFound):
        await home.index.search(Search("alpha", threads=("thr_none",), indexed_upto=1))
    await home.say("alpha three")
    assert await home.seqs(Search("alpha", threads=(home.thread,))) == [3, 2, 1]


async def test_a_deleted_threads_words_are_gone_and_the_rest_is_found(home):
    other = (await home.store.create()).id
    await home.say(*(f"kept{n} word" for n in range(2_500)))
    await home.say("secret word", "other word", thread=other)
    assert len(await home.index.search("secret")) == 1
    await home.store.delete(other)
    assert await home.index.search("secret") == []
    assert await home.seqs("kept2400") == [2_401]
    assert await home.index.search("secret", catch_up=False) == []


async def test_debris_of_deleted_threads_is_cleared_away(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        home = Home(store, index, (await store.create()).id)
        other = (await store.create()).id
        await home.say("kept word")
        await home.say("hunter2secret", thread=other)
        assert len(await index.search("hunter2secret")) == 1
        await store.delete(other)
        assert await index.search("hunter2secret") == []
        assert await home.seqs("kept") == [1]
        await index.close()
    left = b"".join(path.read_bytes() for path in tmp_path.glob("index.db*"))
    assert b"kept" in left
    assert b"hunter2" not in left


async def test_hits_are_a_list_with_a_note(home):
    await home.say("one")
    hits = await home.index.search("one")
    assert isinstance(hits, Hits)
    assert hits == [hits[0]]
    assert Hits().note == ""


async def test_searches_and_writes_at_once_see_whole_entries(home):
    async def write() -> None:
        for n in range(40):
            await home.say(f"needle {n}", answers(f"answer {n}"))

    async def search() -> None:
        seen = 0
        while seen < 20:
            found = len(await home.index.search("needle", limit=100))
            assert found >= seen
            seen = found

    await asyncio.gather(write(), search(), search())
    assert len(await home.index.search("needle", limit=100)) == 40


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text() | st.text('"()*:^-+{}_ [a]|\\\\.bANDORNEAR接続'), data=st.data())
async def test_no_text_breaks_a_search(home, text, data):
    if not await home.store.read(home.thread):
        await home.say("a b AND OR NEAR 接続 [x]")
    query = Search(text, mode=data.draw(st.sampled_from(["words", "substring", "regex"])))
    try:
        hits = await home.index.search(query)
    except SearchRefused:
        assert query.mode == "regex"
    else:
        assert {hit.seq for hit in hits} <= {1}
        if query.mode == "substring" and text:
            assert bool(hits) == (fold(text) in fold("a b AND OR NEAR 接続 [x]"))


async def test_hundreds_of_threads_can_be_named(home):
    threads = [(await home.store.create()).id for _ in range(400)]
    for thread in (threads[0], threads[-1]):
        await home.say("needle", thread=thread)
    hits = await home.index.search(Search("needle", threads=tuple(threads)))
    assert {hit.thread for hit in hits} == {threads[0], threads[-1]}


async def test_many_small_threads_are_indexed_together(home):
    threads = [(await home.store.create()).id for _ in range(120)]
    for thread in threads[20:]:
        await home.say("a needle", "another needle", thread=thread)
    told: list[tuple[int, int]] = []
    await home.index.catch_up(progress=lambda done, total: told.append((done, total)))
    assert told == [(200, 200)]
    hits = await home.index.search("needle", limit=500)
    assert {hit.thread for hit in hits} == set(threads[20:])
    assert (len(hits), hits.note) == (200, "")
