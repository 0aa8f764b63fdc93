"""The part of the store's contract about the inbox and the outbox."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import Raw

from ...core.errors import NotFound
from ...core.provenance import InputProvenance, InternalEvent
from ...store.contract import Change, InboxDraft, InboxMessage, OutboxDraft, OutboxRow, Store
from .drafts import append, user_draft

__all__ = ["BoxesContract"]


class BoxesContract:
    """The inbox and the outbox."""

    async def test_a_message_waits_until_it_is_taken(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        post = InboxDraft(
            key="k1",
            kind="steer",
            body=Raw(b'{"text":"stop"}'),
            provenance=InputProvenance(kind="external_user"),
            events=(InternalEvent(source="s", child_thread="c", task="t", status="error"),),
        )
        message = await store.post(thread, post)
        fields = {name: getattr(post, name) for name in InboxDraft.__struct_fields__}
        assert message == InboxMessage(
            **fields, number=message.number, thread=thread, time=message.time
        )
        assert await store.inbox(thread) == [message]
        await store.commit(lease, Change(entries=(user_draft("stop"),), take=(message.number,)))
        assert await store.inbox(thread) == []
        await lease.release()

    async def test_whoever_writes_hears_whether_messages_wait(self, store: Store) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        assert not (await store.commit(lease, Change(entries=(user_draft("one"),)))).mail
        message = await store.post(thread, InboxDraft(key="k", kind="input", body=Raw(b"1")))
        assert (await store.commit(lease, Change(entries=(user_draft("two"),)))).mail
        assert not (await store.commit(lease, Change(take=(message.number,)))).mail
        await lease.release()

    async def test_an_input_that_waits_holds_back_what_is_written_only_without_one(
        self, store: Store
    ) -> None:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        last = Change(entries=(user_draft("that is all"),), unless_input=True)
        await store.post(thread, InboxDraft(key="r", kind="report", body=Raw(b"1")))
        assert len((await store.commit(lease, last)).entries) == 1
        message = await store.post(thread, InboxDraft(key="k", kind="input", body=Raw(b"1")))
        held_back = await store.commit(lease, last)
        assert (held_back.held_back, held_back.entries) == (True, ())
        assert (await store.info(thread)).last == 1
        await store.commit(lease, Change(take=(message.number,)))
        written = await store.commit(lease, last)
        assert (written.held_back, len(written.entries)) == (False, 1)
        await lease.release()

    async def test_messages_come_oldest_first(self, store: Store) -> None:
        thread = (await store.create()).id
        for n in range(5):
            await store.post(thread, InboxDraft(key=f"k{n}", kind="message", body=Raw(b"%d" % n)))
        assert [message.key for message in await store.inbox(thread)] == [
            "k0",
            "k1",
            "k2",
            "k3",
            "k4",
        ]

    async def test_the_same_key_is_kept_once_even_after_it_was_taken(self, store: Store) -> None:
        thread, other = (await store.create()).id, (await store.create()).id
        first = await store.post(thread, InboxDraft(key="k", kind="steer", body=Raw(b"1")))
        assert await store.post(thread, InboxDraft(key="k", kind="steer", body=Raw(b"2"))) == first
        await append(store, thread, Change(take=(first.number,)))
        assert await store.post(thread, InboxDraft(key="k", kind="steer", body=Raw(b"1"))) == first
        assert await store.inbox(thread) == []
        elsewhere = await store.post(other, InboxDraft(key="k", kind="steer", body=Raw(b"3")))
        assert await store.inbox(other) == [elsewhere]

    async def test_a_message_is_taken_once_and_only_by_its_thread(self, store: Store) -> None:
        thread, other = (await store.create()).id, (await store.create()).id
        message = await store.post(thread, InboxDraft(key="k", kind="steer", body=Raw(b"1")))
        take = Change(entries=(user_draft("got it"),), take=(message.number,))
        with pytest.raises(NotFound):
            await append(store, other, take)
        with pytest.raises(NotFound):
            await append(store, thread, msgspec.structs.replace(take, take=(message.number,) * 2))
        assert await store.inbox(thread) == [message]
        await append(store, thread, take)
        with pytest.raises(NotFound):
            await append(store, thread, take)
        assert len(await store.read(thread)) == 1

    async def test_messages_can_be_posted_all_at_once(self, store: Store) -> None:
        thread = (await store.create()).id
        posts = [InboxDraft(key=f"k{n % 10}", kind="message", body=Raw(b"1")) for n in range(40)]
        await asyncio.gather(*(store.post(thread, post) for post in posts))
        assert sorted(message.key for message in await store.inbox(thread)) == [
            f"k{n}" for n in range(10)
        ]

    async def test_outbox_rows_wait_until_they_are_settled(self, store: Store) -> None:
        thread, other = (await store.create()).id, (await store.create()).id
        drafts = (
            OutboxDraft(topic="deliver", key="a", body=Raw(b"1")),
            OutboxDraft(topic="commit_turn", key="a", body=Raw(b"2"), state="ready"),
        )
        await append(store, thread, Change(outbox=drafts))
        await append(store, other, Change(outbox=drafts[:1]))
        rows = await store.outbox()
        assert rows == [
            _row(draft, row, name)
            for draft, row, name in zip(
                (*drafts, drafts[0]), rows, (thread, thread, other), strict=True
            )
        ]
        assert await store.outbox(thread=thread) == rows[:2]
        assert await store.outbox(topic="deliver") == [rows[0], rows[2]]
        assert await store.outbox(thread=other, topic="commit_turn") == []
        await append(store, thread, Change(settle=(rows[0].number, rows[2].number)))
        assert await store.outbox() == rows[1:]
        await append(store, thread, Change(settle=(rows[0].number,)))

    async def test_rows_that_are_done_leave_by_their_names_before_others_come(
        self, store: Store
    ) -> None:
        thread, other = (await store.create()).id, (await store.create()).id
        draft = OutboxDraft(topic="deliver", key="a", body=Raw(b"1"))
        for name in (thread, other):
            await append(store, name, Change(outbox=(draft,)))
        done = (("deliver", "a"), ("deliver", "nobody left it"))
        newer = msgspec.structs.replace(draft, body=Raw(b"2"))
        await append(store, thread, Change(done=done, outbox=(newer,)))
        (row,) = await store.outbox(thread=thread)
        assert (row.body, row.state) == (newer.body, "admitted")
        await append(store, thread, Change(done=done))
        assert [row.thread for row in await store.outbox()] == [other]

    async def test_the_same_topic_and_key_get_the_new_state_and_body(self, store: Store) -> None:
        thread = (await store.create()).id
        draft = OutboxDraft(topic="commit_turn", key="t1", body=Raw(b"1"))
        await append(store, thread, Change(outbox=(draft,)))
        (row,) = await store.outbox()
        await store.retry(row.number, "unreachable")
        newer = OutboxDraft(topic="commit_turn", key="t1", body=Raw(b"2"), state="ready")
        await append(store, thread, Change(outbox=(newer,)))
        (kept,) = await store.outbox()
        assert kept == msgspec.structs.replace(
            row,
            body=Raw(b"2"),
            state="ready",
            attempts=1,
            error="unreachable",
            updated=kept.updated,
        )

    async def test_failed_attempts_are_counted(self, store: Store) -> None:
        thread = (await store.create()).id
        draft = OutboxDraft(topic="deliver", key="a", body=Raw(b"1"))
        await append(store, thread, Change(outbox=(draft,)))
        (row,) = await store.outbox()
        await store.retry(row.number, "first")
        await store.retry(row.number, "second")
        (kept,) = await store.outbox()
        assert (kept.attempts, kept.error) == (2, "second")
        with pytest.raises(NotFound):
            await store.retry(row.number + 1000, "gone")

    async def test_a_deleted_thread_leaves_no_work(self, store: Store) -> None:
        thread = (await store.create()).id
        draft = OutboxDraft(topic="deliver", key="a", body=Raw(b"1"))
        await append(store, thread, Change(outbox=(draft,)))
        await store.delete(thread)
        assert await store.outbox() == []


def _row(draft: OutboxDraft, row: OutboxRow, thread: str) -> OutboxRow:
    fields = {name: getattr(draft, name) for name in OutboxDraft.__struct_fields__}
    return OutboxRow(
        **fields, number=row.number, thread=thread, created=row.created, updated=row.created
    )
