"""The contract of stores that find work."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import pytest
from msgspec import Raw

from ...store.contract import Admission, Change, InboxDraft, Lease, Store, TurnEnd
from ...store.work import FindsWork, Work
from .drafts import user_draft

__all__ = ["WorkContract"]


class WorkContract:
    """What every store that `FindsWork` must do. Give a subclass the fixture of `StoreContract`."""

    async def test_a_posted_input_is_work_and_another_message_is_none(self, store: Store) -> None:
        told, asked = (await store.create()).id, (await store.create()).id
        await store.post(told, _message("a", "steer"))
        first = await store.post(asked, _message("b"))
        await store.post(asked, _message("c"))
        assert await _waiting(store) == [Work(thread=asked, since=first.time)]

    async def test_a_turn_that_nobody_ended_is_work_when_its_thread_is_free(
        self, store: Store
    ) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        admitted = await _admit(store, lease, "turn-1")
        assert await _waiting(store) == []
        await lease.release()
        assert await _waiting(store) == [Work(thread=thread, since=admitted, turn="turn-1")]

    @pytest.mark.parametrize("state", ["completed", "failed", "aborted"])
    async def test_what_was_ended_or_taken_is_no_work(self, store: Store, state: str) -> None:
        thread = (await store.create()).id
        message = await store.post(thread, _message("a"))
        lease = await store.acquire(thread)
        await _admit(store, lease, "turn-1", take=(message.number,))
        end = TurnEnd(number=1, state=state)  # type: ignore[arg-type]
        await store.commit(lease, Change(end=end))
        await lease.release()
        assert await _waiting(store) == []

    async def test_a_thread_is_found_once_with_its_open_turn(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        admitted = await _admit(store, lease, "turn-1")
        await store.post(thread, _message("a"))
        await lease.release()
        assert await _waiting(store) == [Work(thread=thread, since=admitted, turn="turn-1")]

    async def test_the_longest_waiting_comes_first_and_a_limit_cuts_the_others(
        self, store: Store
    ) -> None:
        threads = [(await store.create()).id for _ in range(4)]
        for number, thread in enumerate(threads):
            await store.post(thread, _message(f"k{number}"))
        busy = await store.acquire(threads[0])
        found = await _waiting(store, limit=2)
        assert [each.thread for each in found] == threads[1:3]
        assert [each.since for each in found] == sorted(each.since for each in found)
        await busy.release()

    async def test_what_was_deleted_is_no_work(self, store: Store) -> None:
        thread = (await store.create()).id
        await store.post(thread, _message("a"))
        await store.delete(thread)
        assert await _waiting(store) == []

    async def test_the_open_turn_of_a_parent_is_no_work_of_its_fork(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        await _admit(store, lease, "turn-1")
        fork = await store.fork(thread, 1)
        await lease.release()
        assert [each.thread for each in await _waiting(store)] == [thread]
        assert fork.id != thread


async def _waiting(store: Store, limit: int = 10) -> list[Work]:
    assert isinstance(store, FindsWork)
    return await store.waiting(limit=limit)


def _message(key: str, kind: str = "input") -> InboxDraft:
    return InboxDraft(key=key, kind=kind, body=Raw(b"1"))


async def _admit(store: Store, lease: Lease, turn: str, take: tuple[int, ...] = ()) -> int:
    admission = Admission(id=turn, input=Raw(b"1"))
    change = Change(admit=admission, entries=(user_draft("hello"),), take=take)
    admitted = (await store.commit(lease, change)).turn
    assert admitted is not None
    return admitted.admitted
