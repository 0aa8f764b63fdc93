from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from tests.postgres import empty_database
from treadle.core.entries import Draft, Flags
from treadle.core.errors import TreadleError
from treadle.store import Change, MemoryStore, PostgresStore, SqliteStore, Store
from treadle.store.contract import THIS_TURN, Admission, InboxDraft, OutboxDraft, TurnEnd
from treadle.testing.contracts.drafts import user_body

# A step names threads by their place in the order of creation, so that both stores,
# which name them differently, can be told the same story.
texts = st.sampled_from(["a", "b" * 70_000, "ß"])
drafts = st.builds(
    Draft,
    body=texts.map(user_body),
    id=st.sampled_from([None, "msg_1"]),
    turn=st.sampled_from([0, THIS_TURN, 1]),
    flags=st.sampled_from(list(Flags)),
)
changes = st.builds(
    Change,
    admit=st.none()
    | st.builds(
        Admission, id=st.sampled_from("xyz"), input=st.sampled_from([Raw(b"1"), Raw(b"2")])
    ),
    entries=st.lists(drafts, max_size=3).map(tuple),
    end=st.none()
    | st.builds(
        TurnEnd,
        number=st.sampled_from([THIS_TURN, 1, 2]),
        state=st.sampled_from(["running", "completed"]),
    ),
    take=st.lists(st.integers(1, 3), max_size=1).map(tuple),
    outbox=st.lists(
        st.builds(
            OutboxDraft, topic=st.just("t"), key=st.sampled_from("kl"), body=st.just(Raw(b"1"))
        ),
        max_size=2,
    ).map(tuple),
    title=st.none() | st.just("named"),
)
places = st.integers(0, 4)
steps = st.one_of(
    st.tuples(st.just("create")),
    st.tuples(st.just("commit"), places, changes),
    st.tuples(st.just("commit"), places, changes),
    st.tuples(st.just("fork"), places, st.integers(0, 6)),
    st.tuples(st.just("delete"), places),
    st.tuples(st.just("blob"), places, texts),
    st.tuples(st.just("post"), places, st.sampled_from("mn")),
)


class Story:
    """One store, and the names it gave to what both stores number differently."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.threads: list[str] = []
        self.messages: list[int] = []

    async def step(self, kind: str, *rest: Any) -> object:
        try:
            return self.plain(await self.act(kind, *rest))
        except (TreadleError, IndexError) as error:
            return type(error)

    async def act(self, kind: str, place: int = 0, what: Any = None) -> object:
        if kind == "create":
            self.threads.append((await self.store.create()).id)
            return None
        thread = self.threads[place]
        match kind:
            case "fork":
                self.threads.append((await self.store.fork(thread, what)).id)
            case "delete":
                await self.store.delete(thread)
            case "blob":
                return await self.store.put_blob(thread, what.encode())
            case "post":
                posted = await self.store.post(
                    thread, InboxDraft(key=what, kind="k", body=Raw(b"1"))
                )
                self.messages.append(posted.number)
            case "commit":
                return await self.commit(thread, what)
        return None

    async def commit(self, thread: str, change: Change) -> object:
        known = dict(enumerate(self.messages, 1))
        take = tuple(known.get(number, -7) for number in change.take)
        lease = await self.store.acquire(thread)
        try:
            return await self.store.commit(lease, msgspec.structs.replace(change, take=take))
        finally:
            await lease.release()

    async def state(self) -> object:
        found: list[object] = [[info.id for info in await self.store.threads()]]
        for thread in self.threads:
            questions = (
                self.store.info(thread),
                self.store.read(thread),
                self.store.turns(thread),
                self.store.lineage(thread),
                self.store.inbox(thread),
            )
            found.extend([await self.answer(question) for question in questions])
        return [self.plain(each) for each in (*found, await self.store.outbox())]

    async def answer(self, question: Any) -> object:
        try:
            return await question
        except TreadleError as error:
            return type(error).__name__

    def plain(self, value: object) -> str:
        text = repr(msgspec.to_builtins(value, enc_hook=lambda raw: bytes(raw).decode()))
        for number, thread in enumerate(self.threads):
            text = text.replace(thread, f"<{number}>")
        return text


def normal(text: object) -> object:
    text = re.sub(r"(msg|itm)_[0-9a-f-]{36}", r"\1_…", str(text))
    return re.sub(r"'number': \d+, 'thread'|'thread': '(<\d>)', 'number': \d+", r"\1", text)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(story=st.lists(steps, min_size=10, max_size=40))
def test_a_database_tells_the_same_story(postgres_url, story):
    async def tell() -> None:
        empty_database(postgres_url)
        async with await PostgresStore.open(postgres_url, clock=lambda: 1.0) as store:
            database, memory = Story(store), Story(MemoryStore(clock=lambda: 1.0))
            for step in [("create",), *story]:
                assert normal(await database.step(*step)) == normal(await memory.step(*step))
            assert normal(await database.state()) == normal(await memory.state())

    asyncio.run(tell())


@settings(max_examples=60, deadline=None)
@given(story=st.lists(steps, max_size=25))
def test_both_stores_tell_the_same_story(story):
    async def tell() -> None:
        with tempfile.TemporaryDirectory() as directory:
            disk = Story(await SqliteStore.open(Path(directory), clock=lambda: 1.0))
            memory = Story(MemoryStore(clock=lambda: 1.0))
            for step in [("create",), *story]:
                assert normal(await disk.step(*step)) == normal(await memory.step(*step))
            assert normal(await disk.state()) == normal(await memory.state())
            await disk.store.close()

    asyncio.run(tell())
