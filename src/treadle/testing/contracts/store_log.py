"""The part of the store's contract about leases, changes, entries and turns."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import Raw

from ...core.entries import (
    Draft,
    Entry,
    Flags,
    FragmentMark,
    Notice,
    Origin,
    Rollback,
    control_draft,
)
from ...core.errors import LeaseLost, NotFound, StoreClosed, ThreadBusy, TurnConflict
from ...core.ids import is_prefixed
from ...core.provenance import InputProvenance, InternalEvent
from ...core.usage import TokenUsage
from ...store.contract import (
    THIS_TURN,
    Admission,
    Change,
    ChangeResult,
    PastTurn,
    Store,
    Turn,
    TurnEnd,
)
from .drafts import append, dated_draft, turn_change, user_body, user_draft

__all__ = ["LogContract"]


class LogContract:
    """Leases, changes, entries and turns."""

    async def test_an_entry_comes_back_as_it_was_committed(self, store: Store) -> None:
        thread = (await store.create()).id
        draft = Draft(
            body=user_body("whole"),
            id="msg_1",
            turn=THIS_TURN,
            step=2,
            tokens=17,
            flags=Flags.CONTEXTUAL | Flags.HIDDEN,
            fragments=(FragmentMark("environment", Raw(b'{"cwd":"/x"}'), 1), FragmentMark("plan")),
            provenance=InputProvenance(kind="inter_session", source_thread="thr_2"),
            events=(InternalEvent(source="s", child_thread="c", task="t", status="ok"),),
            origin=Origin("openai", "responses", "m", "a", "treadle"),
            source_id="srv_9",
        )
        admit = Admission(id="t1", input=Raw(b"{}"))
        (committed,) = await append(store, thread, Change(admit=admit, entries=(draft,)))
        (entry,) = await store.read(thread)
        fields = {name: getattr(draft, name) for name in Draft.__struct_fields__}
        fields |= {"turn": 1, "time": entry.time}
        assert entry == Entry(**fields, thread=thread, seq=1)
        assert committed.entries == (entry,)

    async def test_the_rollbacks_of_a_log_are_known_by_where_they_stand(self, store: Store) -> None:
        root = (await store.create()).id
        await append(store, root, Change(entries=tuple(map(user_draft, "abc"))))
        assert await store.rollbacks(root) == []
        hiding = control_draft(Rollback(2))
        await append(store, root, Change(entries=(hiding, user_draft("d"))))
        child = (await store.fork(root, 4)).id
        outside = (await store.fork(root, 3)).id
        again = control_draft(Rollback(1))
        await append(store, child, Change(entries=(user_draft("e"), again)))
        assert await store.rollbacks(root) == [(4, 2)]
        assert await store.rollbacks(child) == [(4, 2), (6, 1)]
        assert await store.rollbacks(outside) == []
        with pytest.raises(NotFound):
            await store.rollbacks("thr_unknown")

    async def test_sequence_numbers_count_from_one_without_gaps(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(
            store,
            thread,
            Change(entries=(user_draft("a"), user_draft("b"))),
            Change(),
            turn_change("t"),
        )
        await append(store, thread, Change(entries=(user_draft("c"),)))
        entries = await store.read(thread)
        assert [(entry.seq, entry.body) for entry in entries] == [
            (1, user_body("a")),
            (2, user_body("b")),
            (3, user_body("c")),
        ]

    async def test_time_never_goes_backwards(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, *(Change(entries=(user_draft(str(n)),)) for n in range(20)))
        times = [entry.time for entry in await store.read(thread)]
        assert times == sorted(times)

    async def test_an_entry_keeps_the_time_it_happened_at(self, store: Store) -> None:
        thread = (await store.create()).id
        drafts = tuple(dated_draft(text, time) for text, time in (("a", 1_000), ("b", 2_000)))
        await append(
            store, thread, Change(entries=drafts), Change(entries=(dated_draft("c", 3_000),))
        )
        assert [entry.time for entry in await store.read(thread)] == [1_000, 2_000, 3_000]

    async def test_a_time_that_was_given_never_goes_backwards(self, store: Store) -> None:
        thread = (await store.create()).id
        first = Change(entries=(dated_draft("a", 5_000), dated_draft("b", 4_000)))
        await append(
            store, thread, first, Change(entries=(dated_draft("c", 3_000), user_draft("now")))
        )
        await append(store, thread, Change(entries=(dated_draft("d", 6_000),)))
        *early, now, after = [entry.time for entry in await store.read(thread)]
        assert (early, after) == ([5_000, 5_000, 5_000], now)

    async def test_a_time_that_was_given_is_never_ahead_of_the_clock(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=(dated_draft("a", 1 << 50), user_draft("now"))))
        times = [entry.time for entry in await store.read(thread)]
        assert times == sorted(times)
        assert times[-1] < 1 << 50

    async def test_a_fork_goes_on_from_the_time_of_what_it_shares(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(
            store, thread, Change(entries=(dated_draft("a", 5_000), dated_draft("b", 9_000)))
        )
        fork = (await store.fork(thread, 1)).id
        await append(
            store, fork, Change(entries=(dated_draft("c", 1_000), dated_draft("d", 7_000)))
        )
        assert [entry.time for entry in await store.read(fork)] == [5_000, 5_000, 7_000]

    async def test_past_turns_stand_whole_after_the_entries_of_their_change(
        self, store: Store
    ) -> None:
        thread = (await store.create()).id
        await append(store, thread, turn_change("t", "a"))
        past = tuple(
            PastTurn(
                id=name,
                input=Raw(b"{}"),
                entries=(dated_draft(f"{name}1", at), dated_draft(name, at)),
            )
            for name, at in (("p", 1_000), ("q", 2_000))
        )
        (committed,) = await append(
            store, thread, Change(entries=(user_draft("b", turn=1),), past=past)
        )
        entries = await store.read(thread)
        assert [(entry.turn, entry.body) for entry in entries] == [
            (1, user_body("a")),
            (1, user_body("b")),
            *((2, user_body(text)) for text in ("p1", "p")),
            *((3, user_body(text)) for text in ("q1", "q")),
        ]
        assert committed.entries == (entries[1],)
        info = await store.info(thread)
        assert (info.last, info.turns) == (6, 3)
        turns = (await store.turns(thread))[1:]
        at = entries[-1].time
        assert turns == [
            Turn(
                id=name,
                number=number,
                input=Raw(b"{}"),
                state="completed",
                admitted=at,
                first=first,
                ended=at,
            )
            for name, number, first in (("p", 2, 3), ("q", 3, 5))
        ]
        assert await store.turn((await store.fork(thread, 4)).id, 2) == turns[0]

    async def test_a_past_turn_is_told_under_a_new_id_only(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, turn_change("t", "a"))
        past = PastTurn(id="t", input=Raw(b"{}"), entries=(user_draft("b"),))
        with pytest.raises(TurnConflict, match="admitted before"):
            await append(store, thread, Change(entries=(user_draft("c"),), past=(past,)))
        assert len(await store.read(thread)) == 1

    async def test_an_item_without_an_id_gets_one_outside_its_body(self, store: Store) -> None:
        thread = (await store.create()).id
        bodies = (user_body("a"), b'{"type":"function_call"}', b'{"type":"from_the_future"}', b"?")
        await append(store, thread, Change(entries=tuple(Draft(body=body) for body in bodies)))
        entries = await store.read(thread)
        ids = [entry.id or "" for entry in entries]
        assert [name.partition("_")[0] for name in ids] == ["msg", "fc", "itm", "itm"]
        assert all(map(is_prefixed, ids))
        assert len(set(ids)) == 4
        assert tuple(entry.body for entry in entries) == bodies

    async def test_a_control_entry_needs_no_id(self, store: Store) -> None:
        thread = (await store.create()).id
        notice = Notice("warning", "disk nearly full")
        await append(store, thread, Change(entries=(control_draft(notice),)))
        (entry,) = await store.read(thread)
        assert (entry.id, entry.kind, entry.control) == (None, "notice", notice)

    async def test_large_bodies_come_back_whole(self, store: Store) -> None:
        thread = (await store.create()).id
        bodies = [user_body("x" * size) for size in (64 * 1024 - 200, 64 * 1024, 300_000, 300_000)]
        await append(store, thread, *(Change(entries=(Draft(body=body),)) for body in bodies))
        assert [entry.body for entry in await store.read(thread)] == bodies

    async def test_reading_a_range_includes_both_ends(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=tuple(user_draft(str(n)) for n in range(1, 11))))

        async def seqs(*bounds: int, reverse: bool = False, limit: int | None = None) -> list[int]:
            found = await store.read(thread, *bounds, reverse=reverse, limit=limit)
            return [entry.seq for entry in found]

        assert await seqs(3, 5) == [3, 4, 5]
        assert await seqs(9) == [9, 10]
        assert await seqs(9, 99) == [9, 10]
        assert await seqs(-5, 1) == [1]
        assert await seqs(6, 5) == []
        assert await seqs(11) == []
        assert await seqs(limit=2) == [1, 2]
        assert await seqs(reverse=True, limit=2) == [10, 9]
        assert await seqs(2, 4, reverse=True) == [4, 3, 2]
        assert await seqs(limit=0) == []

    async def test_several_ranges_come_in_the_order_given(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=tuple(user_draft(str(n)) for n in range(1, 7))))
        entries = await store.read_ranges(thread, [(5, 6), (1, 2), (2, 2), (9, 12)])
        assert [entry.seq for entry in entries] == [5, 6, 1, 2, 2]
        assert await store.read_ranges(thread, []) == []

    async def test_one_lease_at_a_time(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        with pytest.raises(ThreadBusy, match="process") as caught:
            await store.acquire(thread)
        assert caught.value.thread == thread
        await lease.release()
        await lease.release()
        again = await store.acquire(thread)
        assert again.fence > lease.fence
        await again.release()

    async def test_a_replaced_or_released_writer_cannot_append(self, store: Store) -> None:
        thread = (await store.create()).id
        old = await store.acquire(thread)
        await old.release()
        with pytest.raises(LeaseLost):
            await store.commit(old, Change(entries=(user_draft("late"),)))
        new = await store.acquire(thread)
        with pytest.raises(LeaseLost):
            await store.commit(old, Change(entries=(user_draft("later"),)))
        await old.release()
        await store.commit(new, Change(entries=(user_draft("mine"),)))
        await new.release()
        assert [entry.body for entry in await store.read(thread)] == [user_body("mine")]

    async def test_a_failed_change_leaves_nothing(self, store: Store) -> None:
        thread = (await store.create(title="before")).id
        await append(store, thread, turn_change("t1", "one"))
        info, turns = await store.info(thread), await store.turns(thread)
        lease = await store.acquire(thread)
        with pytest.raises(NotFound):
            await store.commit(
                lease,
                Change(
                    admit=Admission(id="t2", input=Raw(b"2")),
                    entries=(user_draft("two", turn=THIS_TURN),),
                    end=TurnEnd(number=1, state="completed"),
                    title="after",
                    take=(404,),
                ),
            )
        assert await store.info(thread) == info
        assert await store.turns(thread) == turns
        assert [entry.body for entry in await store.read(thread)] == [user_body("one")]
        await lease.release()

    async def test_changes_committed_at_once_all_land_and_failures_stay_alone(
        self, store: Store
    ) -> None:
        threads = [(await store.create()).id for _ in range(8)]
        leases = [await store.acquire(thread) for thread in threads]
        work = [
            store.commit(
                lease, Change(entries=(user_draft(f"{n}"),), take=(404,) if n % 5 == 0 else ())
            )
            for n in range(20)
            for lease in leases
        ]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(outcome, NotFound) for outcome in outcomes) == 4 * 8
        assert sum(isinstance(outcome, ChangeResult) for outcome in outcomes) == 16 * 8
        expected = [user_body(f"{n}") for n in range(20) if n % 5]
        for thread, lease in zip(threads, leases, strict=True):
            assert [entry.body for entry in await store.read(thread)] == expected
            await lease.release()

    async def test_a_cancelled_commit_lands_whole_or_not_at_all(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        pair = Change(entries=(user_draft("a"), user_draft("b")))
        tasks = [asyncio.create_task(store.commit(lease, pair)) for _ in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.commit(lease, pair)
        entries = await store.read(thread)
        assert [entry.body for entry in entries] == [user_body("a"), user_body("b")] * (
            len(entries) // 2
        )
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert len(entries) >= 2 * 16
        await lease.release()

    async def test_a_turn_is_admitted_once(self, store: Store) -> None:
        thread = (await store.create()).id
        first, second = await append(
            store, thread, turn_change("t1", "hi"), turn_change("t1", "hi")
        )
        assert first.turn == await store.turn(thread, 1)
        assert first.turn is not None
        assert (first.turn.id, first.turn.number, first.turn.state) == ("t1", 1, "admitted")
        assert second == ChangeResult(turn=first.turn, repeated=True)
        assert len(await store.read(thread)) == 1
        assert (await store.info(thread)).turns == 1

    async def test_a_repeated_turn_tells_what_became_of_it(self, store: Store) -> None:
        thread = (await store.create()).id
        end = Change(end=TurnEnd(number=1, state="completed", outcome=Raw(b'"done"')))
        *_, again = await append(
            store, thread, turn_change("t1", "hi"), end, turn_change("t1", "hi")
        )
        assert again.repeated
        assert again.turn == await store.turn(thread, 1)
        assert again.turn.state == "completed"

    async def test_admitting_a_turn_ends_those_that_were_left_open(self, store: Store) -> None:
        thread = (await store.create()).id
        end = Change(end=TurnEnd(number=1, state="failed"))
        admitted = [turn_change(f"t{number}", "x") for number in range(1, 5)]
        await append(store, thread, admitted[0], end, *admitted[1:])
        turns = await store.turns(thread)
        assert [turn.state for turn in turns] == ["failed", "aborted", "aborted", "admitted"]
        assert [turn.ended is None for turn in turns] == [False, False, False, True]

    async def test_a_change_that_fails_ends_no_turn(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, turn_change("t1", "x"))
        failing = msgspec.structs.replace(turn_change("t2", "x"), take=(99,))
        with pytest.raises(NotFound):
            await append(store, thread, failing)
        assert [turn.state for turn in await store.turns(thread)] == ["admitted"]

    async def test_only_the_newest_turn_goes_on_when_it_is_asked_for_again(
        self, store: Store
    ) -> None:
        thread = (await store.create()).id
        first, second = turn_change("t1", "x"), turn_change("t2", "x")
        *_, newest, older = await append(store, thread, first, second, second, first)
        assert newest.turn is not None
        assert older.turn is not None
        assert (newest.turn.state, older.turn.state) == ("admitted", "aborted")

    async def test_one_turn_id_with_two_inputs_is_a_conflict(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, turn_change("t1", "hi"))
        other = Change(admit=Admission(id="t1", input=Raw(b'"other"')), entries=(user_draft("x"),))
        with pytest.raises(TurnConflict, match="t1"):
            await append(store, thread, other)
        assert len(await store.read(thread)) == 1

    async def test_this_turn_stands_for_the_admitted_number(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, turn_change("t1", "a"), turn_change("t2", "b", "c"))
        assert [entry.turn for entry in await store.read(thread)] == [1, 2, 2]
        with pytest.raises(NotFound, match="THIS_TURN"):
            await append(store, thread, Change(entries=(user_draft("d", turn=THIS_TURN),)))

    async def test_a_turn_ends_with_outcome_and_usage(self, store: Store) -> None:
        thread = (await store.create()).id
        usage = TokenUsage(input_tokens=10, cached_input_tokens=4, output_tokens=2, total_tokens=12)
        end = TurnEnd(number=1, state="failed", outcome=Raw(b'{"why":1}'), usage=usage)
        running = Change(end=TurnEnd(number=1, state="running"))
        (admitted, *_) = await append(store, thread, turn_change("t1", "a"), running)
        assert (await store.turn(thread, 1)).state == "running"
        assert (await store.turn(thread, 1)).ended is None
        await append(store, thread, Change(end=end))
        turn = await store.turn(thread, 1)
        assert turn.ended is not None
        assert admitted.turn is not None
        assert turn == Turn(
            id="t1",
            number=1,
            input=Raw(b'"t1"'),
            state="failed",
            admitted=admitted.turn.admitted,
            first=1,
            ended=turn.ended,
            outcome=Raw(b'{"why":1}'),
            usage=usage,
        )

    async def test_a_turn_can_be_admitted_and_ended_in_one_change(self, store: Store) -> None:
        thread = (await store.create()).id
        change = Change(
            admit=Admission(id="t1", input=Raw(b"1")),
            end=TurnEnd(number=THIS_TURN, state="completed"),
        )
        (committed,) = await append(store, thread, change)
        assert committed.turn == await store.turn(thread, 1)
        assert committed.turn.state == "completed"

    async def test_ending_an_unknown_turn_fails(self, store: Store) -> None:
        thread = (await store.create()).id
        with pytest.raises(NotFound, match="turn 3"):
            await append(store, thread, Change(end=TurnEnd(number=3, state="aborted")))
        with pytest.raises(NotFound):
            await store.turn(thread, 1)

    async def test_turns_come_oldest_first_and_a_limit_keeps_the_newest(self, store: Store) -> None:
        thread = (await store.create()).id
        await append(store, thread, *(turn_change(f"t{n}", "x") for n in range(1, 6)))
        assert [turn.number for turn in await store.turns(thread)] == [1, 2, 3, 4, 5]
        assert [turn.id for turn in await store.turns(thread, limit=2)] == ["t4", "t5"]
        assert await store.turns(thread, limit=0) == []

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        await store.close()
        await store.close()
        await lease.release()
        with pytest.raises(StoreClosed):
            await store.read(thread)
        with pytest.raises(StoreClosed):
            await store.commit(lease, Change(entries=(user_draft("late"),)))
