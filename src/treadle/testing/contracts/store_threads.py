"""The part of the store's contract about threads, forks, deletion and blobs."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import hashlib

import pytest

from ...core.entries import Draft
from ...core.errors import IllegalCut, NotFound, ThreadBusy, TurnConflict
from ...core.wire import Json
from ...store.contract import Admission, Change, InboxDraft, Span, Store, ThreadInfo, TurnEnd
from .drafts import append, turn_change, user_body, user_draft

__all__ = ["ThreadsContract"]


async def _bodies(store: Store, thread: str) -> list[bytes]:
    return [entry.body for entry in await store.read(thread)]


async def _write(store: Store, thread: str, *texts: str) -> None:
    await append(store, thread, Change(entries=tuple(map(user_draft, texts))))


class ThreadsContract:
    """Threads, forks, deletion and blobs."""

    async def test_a_new_thread_is_empty(self, store: Store) -> None:
        info = await store.create(cwd="/repo", title="fix it")
        assert info.id.startswith("thr_")
        assert info == ThreadInfo(
            id=info.id,
            root=info.id,
            cwd="/repo",
            title="fix it",
            created=info.created,
            updated=info.created,
        )
        assert await store.info(info.id) == info
        assert await store.read(info.id) == []
        assert await store.lineage(info.id) == []

    async def test_threads_are_listed_by_their_last_write(self, store: Store) -> None:
        ids = [(await store.create()).id for _ in range(3)]
        assert [info.id for info in await store.threads()] == ids[::-1]
        assert [info.id for info in await store.threads(limit=1)] == ids[2:]

    async def test_a_change_moves_last_turns_title_and_updated(self, store: Store) -> None:
        created = await store.create(title="old")
        await append(store, created.id, turn_change("t1", "a", "b"), Change(title="new"))
        info = await store.info(created.id)
        assert (info.last, info.turns, info.title) == (2, 1, "new")
        assert info.updated >= created.updated

    async def test_an_unknown_thread_is_not_found(self, store: Store) -> None:
        async def expect_not_found(call: object) -> None:
            with pytest.raises(NotFound, match="thr_none"):
                await call  # type: ignore[misc]

        await expect_not_found(store.info("thr_none"))
        await expect_not_found(store.read("thr_none"))
        await expect_not_found(store.read_ranges("thr_none", [(1, 2)]))
        await expect_not_found(store.lineage("thr_none"))
        await expect_not_found(store.turn("thr_none", 1))
        await expect_not_found(store.turns("thr_none"))
        await expect_not_found(store.acquire("thr_none"))
        await expect_not_found(store.fork("thr_none", 0))
        await expect_not_found(store.delete("thr_none"))
        await expect_not_found(store.put_blob("thr_none", b"x"))
        await expect_not_found(store.inbox("thr_none"))
        await expect_not_found(store.outbox(thread="thr_none"))
        await expect_not_found(
            store.post("thr_none", InboxDraft(key="k", kind="steer", body=Json(b"1")))
        )

    async def test_a_fork_shares_the_prefix_and_goes_on(self, store: Store) -> None:
        parent = await store.create(cwd="/repo")
        await append(store, parent.id, turn_change("t1", "1", "2"), turn_change("t2", "3"))
        fork = await store.fork(parent.id, 2, title="try")
        assert fork == ThreadInfo(
            id=fork.id,
            root=parent.id,
            parent=parent.id,
            cut=2,
            cwd="/repo",
            title="try",
            created=fork.created,
            updated=fork.updated,
            last=2,
            turns=1,
        )
        await append(store, fork.id, turn_change("t3", "x"))
        await _write(store, parent.id, "4")
        assert await _bodies(store, fork.id) == [user_body(text) for text in "12x"]
        assert await _bodies(store, parent.id) == [user_body(text) for text in "1234"]
        assert [entry.seq for entry in await store.read(fork.id)] == [1, 2, 3]
        assert [turn.id for turn in await store.turns(fork.id)] == ["t1", "t3"]
        assert [turn.number for turn in await store.turns(fork.id)] == [1, 2]

    async def test_a_shared_entry_is_the_same_value_in_every_fork(self, store: Store) -> None:
        parent = await store.create()
        end = Change(end=TurnEnd(number=1, state="completed"))
        await append(store, parent.id, turn_change("t1", "1", "2"), end)
        fork = await store.fork(parent.id, 2)
        assert await store.read(fork.id) == await store.read(parent.id)
        assert await store.turn(fork.id, 1) == await store.turn(parent.id, 1)

    async def test_forks_of_forks_read_through(self, store: Store) -> None:
        line = [await store.create()]
        for text in "abcd":
            await _write(store, line[-1].id, f"{text}1", f"{text}2")
            last = (await store.info(line[-1].id)).last
            line.append(await store.fork(line[-1].id, last - 1))
        leaf = line[-1].id
        assert await _bodies(store, leaf) == [user_body(f"{text}1") for text in "abcd"]
        assert await store.lineage(leaf) == [Span(line[n].id, n + 1, n + 1) for n in range(4)]
        entries = await store.read(leaf, 2, 3, reverse=True)
        assert [entry.body for entry in entries] == [user_body("c1"), user_body("b1")]
        newest = await store.read(leaf, reverse=True, limit=3)
        assert [entry.seq for entry in newest] == [4, 3, 2]
        picked = await store.read_ranges(leaf, [(3, 4), (1, 2)])
        assert [entry.seq for entry in picked] == [3, 4, 1, 2]
        assert (await store.info(leaf)).root == line[0].id

    async def test_a_cut_inside_a_shared_prefix_reaches_through(self, store: Store) -> None:
        root = await store.create()
        await append(
            store, root.id, turn_change("t1", "1"), turn_change("t2", "2"), turn_change("t3", "3")
        )
        child = await store.fork(root.id, 3)
        await append(store, child.id, turn_change("t4", "4"))
        grandchild = await store.fork(child.id, 2)
        assert (grandchild.parent, grandchild.turns) == (child.id, 2)
        await append(store, grandchild.id, turn_change("t4", "other"))
        assert await _bodies(store, grandchild.id) == [
            user_body("1"),
            user_body("2"),
            user_body("other"),
        ]
        assert await store.lineage(grandchild.id) == [
            Span(root.id, 1, 2),
            Span(grandchild.id, 3, 3),
        ]
        assert [turn.id for turn in await store.turns(grandchild.id)] == ["t1", "t2", "t4"]

    async def test_a_fork_may_share_nothing(self, store: Store) -> None:
        parent = await store.create()
        await append(store, parent.id, turn_change("t1", "1"))
        fork = await store.fork(parent.id, 0)
        assert await store.read(fork.id) == []
        assert await store.turns(fork.id) == []
        assert fork.root == parent.id

    async def test_a_cut_outside_the_log_is_illegal(self, store: Store) -> None:
        parent = await store.create()
        await _write(store, parent.id, "1")
        for cut in (-1, 2):
            with pytest.raises(IllegalCut, match="1 to 1"):
                await store.fork(parent.id, cut)

    async def test_a_shared_turn_id_is_known_in_the_fork(self, store: Store) -> None:
        parent = await store.create()
        await append(store, parent.id, turn_change("t1", "1"), turn_change("t2", "2"))
        fork = await store.fork(parent.id, 1)
        again, fresh = await append(store, fork.id, turn_change("t1", "1"), turn_change("t2", "2"))
        assert (again.repeated, fresh.repeated) == (True, False)
        with pytest.raises(TurnConflict):
            await append(store, fork.id, Change(admit=_other("t1")))

    async def test_a_fork_does_not_inherit_an_open_turn(self, store: Store) -> None:
        root = (await store.create()).id
        end = Change(end=TurnEnd(number=1, state="completed"))
        await append(store, root, turn_change("t1", "a"), end, turn_change("t2", "b"))
        fork = (await store.fork(root, 2)).id
        again = (await store.fork(fork, 2)).id
        for thread in (fork, again):
            states = [(turn.id, turn.state) for turn in await store.turns(thread)]
            assert states == [("t1", "completed"), ("t2", "aborted")]
            (repeated,) = await append(store, thread, turn_change("t2", "b"))
            assert repeated.repeated
            assert repeated.turn == await store.turn(thread, 2)
            (admitted,) = await append(store, thread, turn_change("t3", "c"))
            assert admitted.turn is not None
            assert admitted.turn.number == 3
        assert (await store.turn(root, 2)).state == "admitted"
        await append(store, root, Change(end=TurnEnd(number=2, state="completed")))
        assert (await store.turn(fork, 2)).state == "aborted"
        await store.delete(root)
        assert [turn.id for turn in await store.turns(fork)] == ["t1", "t2", "t3"]

    async def test_a_fork_cannot_end_a_turn_it_shares(self, store: Store) -> None:
        parent = await store.create()
        end = Change(end=TurnEnd(number=1, state="completed"))
        await append(store, parent.id, turn_change("t1", "1"), end)
        fork = await store.fork(parent.id, 1)
        with pytest.raises(NotFound):
            await append(store, fork.id, Change(end=TurnEnd(number=1, state="aborted")))

    async def test_a_deleted_thread_is_gone(self, store: Store) -> None:
        thread = (await store.create()).id
        await _write(store, thread, "1")
        await store.post(thread, InboxDraft(key="k", kind="steer", body=Json(b"1")))
        await store.delete(thread)
        with pytest.raises(NotFound):
            await store.read(thread)
        with pytest.raises(NotFound):
            await store.delete(thread)
        assert await store.threads() == []

    async def test_a_thread_being_written_cannot_be_deleted(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        with pytest.raises(ThreadBusy):
            await store.delete(thread)
        await store.commit(lease, Change(entries=(user_draft("still here"),)))
        await lease.release()
        await store.delete(thread)

    async def test_what_forks_share_outlives_its_writer(self, store: Store) -> None:
        root = await store.create()
        await append(store, root.id, turn_change("t1", "1", "2"))
        blob = await store.put_blob(root.id, b"shared")
        await append(store, root.id, turn_change("t2", "3"))
        child = await store.fork(root.id, 3)
        await _write(store, child.id, "4")
        leaf = await store.fork(child.id, 4)
        before = await store.read(leaf.id), await store.turns(leaf.id)
        await store.delete(root.id)
        await store.delete(child.id)
        assert (await store.read(leaf.id), await store.turns(leaf.id)) == before
        assert await store.blob(blob) == b"shared"
        assert await store.lineage(leaf.id) == [Span(root.id, 1, 3), Span(child.id, 4, 4)]
        assert (await store.info(leaf.id)).root == root.id
        await store.delete(leaf.id)
        with pytest.raises(NotFound):
            await store.blob(blob)

    async def test_a_blob_is_stored_under_its_digest(self, store: Store) -> None:
        thread = (await store.create()).id
        data = b"\x00\xffimage"
        digest = await store.put_blob(thread, data)
        assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert await store.put_blob(thread, data) == digest
        assert await store.blob(digest) == data
        with pytest.raises(NotFound):
            await store.blob("sha256:00")

    async def test_several_blobs_come_in_the_order_asked_for(self, store: Store) -> None:
        thread = (await store.create()).id
        one, two = [await store.put_blob(thread, data) for data in (b"one", b"two")]
        assert await store.blobs([two, one, two]) == [b"two", b"one", b"two"]
        assert await store.blobs([]) == []
        with pytest.raises(NotFound):
            await store.blobs([one, "sha256:00"])

    async def test_a_blob_lives_as_long_as_its_last_thread(self, store: Store) -> None:
        one, two = (await store.create()).id, (await store.create()).id
        digest = await store.put_blob(one, b"common")
        await store.put_blob(two, b"common")
        await store.delete(one)
        assert await store.blob(digest) == b"common"
        await store.delete(two)
        with pytest.raises(NotFound):
            await store.blob(digest)

    async def test_a_large_body_is_kept_for_each_thread_that_has_it(self, store: Store) -> None:
        large = user_body("y" * 100_000)
        one, two = (await store.create()).id, (await store.create()).id
        for thread in (one, two):
            await append(store, thread, Change(entries=(Draft(body=large),)))
        await store.delete(one)
        assert await _bodies(store, two) == [large]


def _other(turn: str) -> Admission:
    return Admission(id=turn, input=Json(b'"something else"'))
