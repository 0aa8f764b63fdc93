"""The contract of an index: every sentence of `Index`, as a test."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ...core.entries import Draft, Flags, Rollback, control_draft
from ...core.errors import NotFound, SearchRefused
from ...core.items import FunctionCall, FunctionCallOutput, Message, OutputText, encode_item
from ...core.usage import TokenUsage
from ...store.contract import (
    Change,
    Index,
    LedgerRow,
    Search,
    SearchMode,
    Segment,
    Store,
)
from .drafts import append, user_body, user_draft

__all__ = ["IndexContract"]


def _row(number: int, *, thread: str = "thr_1", segments: int, shared: int) -> LedgerRow:
    return LedgerRow(
        thread=thread,
        number=number,
        seq=number * 10,
        turn=1,
        step=number,
        time=1_000 + number,
        epoch=1,
        segments=segments,
        size=segments * 100,
        digest=f"sha256:{number}",
        shared_segments=shared,
        shared_size=shared * 100,
    )


def _segments(generation: int, first: int, end: int) -> list[Segment]:
    return [
        Segment(n, "item" if n > 2 else "params", 100, f"{generation}:{n}", n if n > 2 else None)
        for n in range(first, end)
    ]


async def _find(index: Index, query: str, thread: str | None = None) -> list[tuple[str, int]]:
    hits = await index.search(query, thread=thread)
    return sorted((hit.thread, hit.seq) for hit in hits)


class IndexContract:
    """What every `Index` must do.

    Give a subclass two async fixtures: `store`, a fresh `Store`, and `index`, a fresh
    index over it. Run it under pytest-asyncio's auto mode.
    """

    async def test_requests_come_back_oldest_first(self, index: Index) -> None:
        assert await index.rows("thr_1") == []
        assert await index.newest_request("thr_1") is None
        assert await index.newest_row("thr_1") is None
        odd = msgspec.structs.replace(
            _row(2, segments=5, shared=3),
            reason="compaction",
            difference="item 3",
            unexplained=True,
        )
        first = _row(1, segments=4, shared=0)
        await index.record(first, _segments(1, 0, 4))
        await index.record(odd, _segments(2, 3, 5))
        await index.record(_row(1, thread="thr_2", segments=1, shared=0), _segments(1, 0, 1))
        assert await index.rows("thr_1") == [first, odd]
        assert await index.newest_row("thr_1") == odd

    async def test_the_last_request_has_all_of_its_segments(self, index: Index) -> None:
        await index.record(_row(1, segments=5, shared=0), _segments(1, 0, 5))
        await index.record(_row(2, segments=7, shared=5), _segments(2, 5, 7))
        third = _row(3, segments=4, shared=3)
        await index.record(third, _segments(3, 3, 4))
        expected = [*_segments(1, 0, 3), *_segments(3, 3, 4)]
        assert await index.newest_request("thr_1") == (third, expected)
        fourth = _row(4, segments=6, shared=4)
        await index.record(fourth, _segments(4, 4, 6))
        assert await index.newest_request("thr_1") == (fourth, [*expected, *_segments(4, 4, 6)])

    async def test_recording_a_number_again_replaces_it(self, index: Index) -> None:
        await index.record(_row(1, segments=3, shared=0), _segments(7, 0, 3))
        again = _row(1, segments=2, shared=0)
        await index.record(again, _segments(1, 0, 2))
        assert await index.rows("thr_1") == [again]
        assert await index.newest_request("thr_1") == (again, _segments(1, 0, 2))

    async def test_what_the_provider_said_is_noted(self, index: Index) -> None:
        row = _row(1, segments=1, shared=0)
        await index.record(row, _segments(1, 0, 1))
        await index.record_usage(
            "thr_1", row.seq, TokenUsage(input_tokens=50, cached_input_tokens=40)
        )
        await index.record_usage("thr_1", 999, TokenUsage(input_tokens=1))
        expected = msgspec.structs.replace(row, input_tokens=50, cached_tokens=40)
        assert await index.rows("thr_1") == [expected]

    async def test_words_are_found_as_soon_as_they_are_appended(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        await append(
            store, thread, Change(entries=(user_draft("the quick brown fox"), user_draft("a dog")))
        )
        assert await _find(index, "quick FOX") == [(thread, 1)]
        await append(store, thread, Change(entries=(user_draft("another fox"),)))
        assert await _find(index, "fox") == [(thread, 1), (thread, 3)]
        assert await _find(index, "fox dog") == [(thread, 1), (thread, 2), (thread, 3)]
        assert await index.search(Search("fox dog", all_words=True)) == []
        (hit,) = await index.search("brown")
        assert hit.snippet == "the quick brown fox"
        assert await index.search(Search("brown", skip_common=True)) == [hit]

    async def test_what_must_be_indexed_is_found_and_what_need_not_is_found_later(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        await append(
            store, thread, Change(entries=(user_draft("the first fox"), user_draft("a second fox")))
        )
        asked = Search("first", threads=(thread,), indexed_upto=1)
        assert [hit.seq for hit in await index.search(asked)] == [1]
        await append(store, thread, Change(entries=(user_draft("the third fox"),)))
        assert [hit.seq for hit in await index.search(asked)] == [1]
        assert await _find(index, "third") == [(thread, 3)]

    async def test_calls_and_their_outputs_are_find(self, store: Store, index: Index) -> None:
        thread = (await store.create()).id
        call = FunctionCall(name="exec_command", arguments='{"cmd":"pytest -x"}', call_id="c")
        output = FunctionCallOutput(call_id="c", output="1 failed, ZeroDivisionError")
        bodies = (encode_item(call), encode_item(output))
        await append(store, thread, Change(entries=tuple(Draft(body=body) for body in bodies)))
        assert await _find(index, "exec_command pytest") == [(thread, 1)]
        assert await _find(index, "zerodivisionerror") == [(thread, 2)]

    async def test_contextual_and_volatile_entries_are_not_find(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        entries = tuple(
            Draft(body=user_body("secret"), flags=flags)
            for flags in (Flags.CONTEXTUAL, Flags.VOLATILE, Flags.HIDDEN)
        )
        await append(store, thread, Change(entries=entries))
        assert await _find(index, "secret") == [(thread, 3)]

    async def test_what_was_rolled_back_is_still_find(self, store: Store, index: Index) -> None:
        thread = (await store.create()).id
        rollback = control_draft(Rollback(1))
        await append(store, thread, Change(entries=(user_draft("regretted"), rollback)))
        assert await _find(index, "regretted") == [(thread, 1)]

    async def test_the_best_hit_comes_first_and_the_limit_holds(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        texts = ("apple " + "filler " * 50, "apple apple", *("pear " * 30 for _ in range(9)))
        await append(store, thread, Change(entries=tuple(map(user_draft, texts))))
        hits = await index.search("apple")
        assert [hit.seq for hit in hits] == [2, 1]
        assert hits[0].score > hits[1].score
        assert len(await index.search("pear", limit=4)) == 4

    async def test_a_thread_is_searched_with_its_shared_prefix(
        self, store: Store, index: Index
    ) -> None:
        parent = await store.create()
        await append(
            store, parent.id, Change(entries=(user_draft("common word"), user_draft("parent word")))
        )
        fork = await store.fork(parent.id, 1)
        await append(store, fork.id, Change(entries=(user_draft("fork word"),)))
        assert await _find(index, "word", fork.id) == [(fork.id, 1), (fork.id, 2)]
        assert await _find(index, "word", parent.id) == [(parent.id, 1), (parent.id, 2)]
        assert await _find(index, "common") == [(parent.id, 1)]
        with pytest.raises(NotFound):
            await index.search("word", thread="thr_none")

    async def test_deleted_words_are_not_found_unless_a_fork_shares_them(
        self, store: Store, index: Index
    ) -> None:
        parent = await store.create()
        await append(
            store, parent.id, Change(entries=(user_draft("shared word"), user_draft("own word")))
        )
        fork = await store.fork(parent.id, 1)
        assert len(await index.search("word")) == 2
        await store.delete(parent.id)
        assert await _find(index, "word") == [(fork.id, 1)]
        assert await _find(index, "word") == [(fork.id, 1)]
        await store.delete(fork.id)
        assert await index.search("word") == []

    async def test_what_was_forgotten_is_built_again(self, store: Store, index: Index) -> None:
        parent = await store.create()
        await append(store, parent.id, Change(entries=(user_draft("one"),)))
        fork = await store.fork(parent.id, 1)
        await append(store, fork.id, Change(entries=(user_draft("one more"),)))
        await index.record(_row(1, thread=fork.id, segments=1, shared=0), _segments(1, 0, 1))
        expected = [(parent.id, 1), (fork.id, 2)]
        for thread in (fork.id, parent.id, None):
            assert await _find(index, "one") == expected
            await index.forget(thread)
            assert await index.rows(fork.id) == []
        assert await _find(index, "one", fork.id) == [(fork.id, 1), (fork.id, 2)]

    async def test_forms_of_words_and_parts_of_names_are_find(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        texts = ("deployments failed", "raise ZeroDivisionError", "データベースの接続")
        await append(store, thread, Change(entries=tuple(map(user_draft, texts))))
        asked = {"deployment": 1, "failing": 1, "zero division": 2, "接続": 3}
        found = {query: await _find(index, query) for query in asked}
        assert found == {query: [(thread, seq)] for query, seq in asked.items()}

    async def test_text_as_it_stands_and_patterns_are_found_newest_first(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        texts = ("exit code 1", "EXIT CODE 22", "no exit")
        await append(store, thread, Change(entries=tuple(map(user_draft, texts))))

        async def seqs(text: str, mode: SearchMode) -> list[int]:
            return [hit.seq for hit in await index.search(Search(text, mode=mode))]

        assert await seqs("xit cod", "substring") == [2, 1]
        assert await seqs(r"code \d$", "regex") == [1]
        assert await seqs(r"(?i)e[xX]it.*\d+", "regex") == [2, 1]
        with pytest.raises(SearchRefused):
            await seqs("(", "regex")

    async def test_a_search_is_narrowed_by_role_time_and_threads(
        self, store: Store, index: Index
    ) -> None:
        thread, other = (await store.create()).id, (await store.create()).id
        answer = encode_item(Message(role="assistant", content=(OutputText("a word"),)))
        await append(store, thread, Change(entries=(user_draft("my word"), Draft(body=answer))))
        await append(store, other, Change(entries=(user_draft("a word elsewhere"),)))
        end = max(entry.time for entry in await store.read(other))

        async def search(**how: Any) -> list[tuple[str, int]]:
            hits = await index.search(Search("word", **how))
            return sorted((hit.thread, hit.seq) for hit in hits)

        assert await search(roles=("assistant",)) == [(thread, 2)]
        assert await search(threads=(other,)) == [(other, 1)]
        assert await search(threads=(thread, other), until=end) == sorted(
            [(thread, 1), (thread, 2), (other, 1)]
        )
        assert await search(since=end + 1) == []

    async def test_a_hit_tells_about_its_entry_and_its_neighbours(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        found = msgspec.structs.replace(user_draft("needle", turn=3), source_id="m-1")
        await append(
            store,
            thread,
            Change(entries=(user_draft("a"), found, user_draft("b"), user_draft("c"))),
        )
        (hit,) = await index.search(Search("needle", neighbours=1))
        (entry,) = await store.read(thread, 2, 2)
        assert (hit.time, hit.role, hit.turn, hit.source_id, hit.neighbours) == (
            entry.time,
            "user",
            3,
            "m-1",
            (1, 3),
        )

    async def test_catching_up_is_told_and_can_be_left_out(
        self, store: Store, index: Index
    ) -> None:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=(user_draft("one"), user_draft("two"))))
        assert await index.search("one", catch_up=False) == []
        progress: list[tuple[int, int]] = []
        await index.catch_up(progress=lambda done, total: progress.append((done, total)))
        assert progress[-1] == (2, 2)
        assert [hit.seq for hit in await index.search("one", catch_up=False)] == [1]

    async def test_any_text_is_a_legal_question(self, store: Store, index: Index) -> None:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=(user_draft("alpha beta"),)))
        for noise in ('"', "(", "^", "-", "*", ":", "_", "{}", "\x00", "\ud800", "'; --", ""):
            assert await index.search(noise) == []
            assert await _find(index, f"{noise}alpha{noise} {noise}") == [(thread, 1)]
        for words in ("NEAR(alpha beta)", "alpha AND", "text:alpha", "alpha*beta OR", "NOT alpha"):
            assert {hit.seq for hit in await index.search(words)} <= {1}
