from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from tests.engines.lossless.recalling import NEEDLE, compacted, keeping, nodes, talking, use
from tests.harness.scenes import call, hear, open_thread
from treadle.cli.thread_setup import engine_options
from treadle.config.settings import Settings as Configured
from treadle.core.entries import Rollback, SettingsChange, control_draft
from treadle.core.wire import json_bytes
from treadle.engines.conversation import StoredLogReader
from treadle.engines.lossless.library import Library
from treadle.store.contract import Change, Search, Store
from treadle.store.index import SqliteIndex
from treadle.store.memory import MemoryStore
from treadle.store.sqlite import SqliteStore
from treadle.subagents import AgentLimits, ThreadAccess
from treadle.subagents.records import LINEAGE, Lineage, agent_records
from treadle.testing.contracts.drafts import append, user_draft
from treadle.testing.script import Answer

TALK = (NEEDLE, "And the zebra?", "And the otter?", "What else?")
REFUSED = "may not be read from here: it is neither a parent nor a child of this one"


async def forked(store: Store, thread: str) -> str:
    last = (await store.info(thread)).last
    return (await store.fork(thread, last)).id


async def allows(access: ThreadAccess, *pairs: tuple[str, str]) -> list[bool]:
    return [await access.allows(*pair) for pair in pairs]


async def test_forks_read_up_and_down_the_line_and_not_across_it():
    store = MemoryStore()
    root = (await store.create()).id
    stranger = (await store.create()).id
    await append(store, root, Change(entries=(user_draft("a"),)))
    child, sibling = await forked(store, root), await forked(store, root)
    grandchild = await forked(store, child)
    access = ThreadAccess(store)
    up = ((child, root), (grandchild, child), (grandchild, root), (root, root))
    assert await allows(access, *up) == [True] * 4
    assert await allows(access, *(pair[::-1] for pair in up)) == [True] * 4
    across = ((child, sibling), (grandchild, sibling), (stranger, root), (root, stranger))
    assert await allows(access, *across) == [False] * 4
    assert await access.readable(grandchild) == tuple(sorted({grandchild, child, root}))


async def test_what_the_user_allows_may_be_read_by_all():
    store = MemoryStore()
    one, other = (await store.create()).id, (await store.create()).id
    assert await allows(ThreadAccess(store), (one, other)) == [False]
    assert await allows(ThreadAccess(store, (other,)), (one, other), (other, one)) == [True, False]
    assert await allows(ThreadAccess(store, ("*",)), (one, other), (other, one)) == [True, True]
    assert await ThreadAccess(store, ("*",)).readable(one) is None
    assert await ThreadAccess(store, (other,)).readable(one) == tuple(sorted((one, other)))


def test_the_configuration_says_what_the_user_allows():
    settings = Configured(recall_threads=("thr_1",))
    assert engine_options(settings).recall_threads == ("thr_1",)


async def test_a_thread_that_only_claims_to_be_an_agent_is_a_stranger():
    store = MemoryStore()
    parent, claimant = (await store.create()).id, (await store.create()).id
    for claimed, allowed in (("thr_else", False), (claimant, True)):
        thread = claimant if allowed else (await store.create()).id
        lineage = Lineage(thread=claimed, parent=parent, depth=1, nickname="x")
        said = SettingsChange({LINEAGE: Raw(json_bytes(lineage))})
        await append(store, thread, Change(entries=(control_draft(said),)))
        assert await allows(ThreadAccess(store), (thread, parent)) == [allowed]


async def test_agents_and_who_started_them_read_each_other_and_no_one_else(tmp_path: Path):
    model = talking(
        Answer(
            when="Send two.",
            calls=(
                call("spawn_agent", message="Count otters.", task_name="one"),
                call("spawn_agent", message="Count herons.", task_name="two"),
            ),
        ),
        Answer(when="Wait.", calls=(call("wait_agent", timeout_ms=10_000),)),
    )
    async with open_thread(tmp_path, model, agents=AgentLimits()) as thread:
        await hear(thread, "Send two.")
        first, second = agent_records(thread.view.settings, thread.id)
        access = ThreadAccess(thread.store)
        pairs = ((first, thread.id), (thread.id, first), (thread.id, second))
        assert await allows(access, *pairs) == [True] * 3
        assert await allows(access, (first, second), (second, first)) == [False] * 2


@pytest.mark.parametrize("tool", ["recall_expand", "recall_describe"])
async def test_an_id_of_another_thread_is_refused_without_a_grant(tmp_path: Path, tool: str):
    other = await compacted(tmp_path, *TALK)
    async with keeping(tmp_path, talking(), other) as found:
        (node,) = nodes(found)
    async with keeping(tmp_path, talking()) as found:
        own = found.id
    for name in (node, f"{other}:4", f"{other}:1-9"):
        said = await use(tmp_path, own, tool, id=name)
        assert said.startswith(f"{tool} failed: thread {other!r} {REFUSED}")


async def test_a_search_in_another_thread_is_refused_without_a_grant(tmp_path: Path):
    other = await compacted(tmp_path, *TALK)
    async with keeping(tmp_path, talking()) as found:
        own = found.id
    said = await use(tmp_path, own, "recall_search", query="heron", thread=other)
    assert said.startswith(f"recall_search failed: thread {other!r} {REFUSED}")
    everywhere = await use(tmp_path, own, "recall_search", query="HERON_BLUE_77", thread="*")
    assert other not in everywhere


async def test_a_question_about_another_thread_is_refused_without_a_grant(tmp_path: Path):
    other = await compacted(tmp_path, *TALK)
    async with keeping(tmp_path, talking()) as found:
        own = found.id
    said = await use(tmp_path, own, "recall_ask", question="What?", ids=[f"{other}:4"])
    assert said.startswith(f"recall_ask failed: thread {other!r} {REFUSED}")


async def test_what_the_user_allowed_can_be_found_and_opened(tmp_path: Path):
    other = await compacted(tmp_path, *TALK)
    search = Answer(when="Look.", calls=(call("recall_search", query="heron", thread="*"),))
    for allowed in ((other,), ("*",)):
        model = talking(search)
        async with keeping(tmp_path, model, recall_threads=allowed) as found:
            await hear(found, "Look.")
            assert f"[{other}:4] user, " in model.requests[-1].body.decode()
    opening = Answer(when="Open.", calls=(call("recall_expand", id=f"{other}:4"),))
    model = talking(opening)
    async with keeping(tmp_path, model, recall_threads=(other,)) as found:
        await hear(found, "Open.")
        assert f"[{other}:4] user, turn 1:" in model.requests[-1].body.decode()


async def test_a_fork_opens_the_summaries_that_it_shares(tmp_path: Path):
    parent = await compacted(tmp_path, *TALK)
    async with keeping(tmp_path, talking(), parent) as found:
        (node,) = nodes(found)
        child, sibling = await found.fork(), await found.fork()
    said = await use(tmp_path, child, "recall_expand", id=node)
    assert said.startswith(f"[{child}:4] user, turn 1:\n{NEEDLE}")
    refused = await use(tmp_path, child, "recall_expand", id=f"{sibling}:4")
    assert REFUSED in refused


async def test_a_parent_is_read_beyond_the_cut(tmp_path: Path):
    async with keeping(tmp_path, talking()) as found:
        await hear(found, "And the zebra?")
        child = await found.fork()
        await hear(found, NEEDLE)
        parent = found.id
    own = await use(tmp_path, child, "recall_search", query="HERON_BLUE_77")
    assert own.startswith("Nothing was found")
    said = await use(tmp_path, child, "recall_search", query="HERON_BLUE_77", thread=parent)
    assert NEEDLE in said


async def log_of(store: Store, index: SqliteIndex, *texts: str) -> StoredLogReader:
    thread = (await store.create()).id
    await append(store, thread, Change(entries=tuple(map(user_draft, texts))))
    return StoredLogReader(thread, store, index, grants=ThreadAccess(store))


async def test_a_log_reads_stretches_and_leaves_out_what_is_hidden(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        log = await log_of(store, index, *"abcdef")
        await append(
            store, log.thread, Change(entries=(control_draft(Rollback(5)), user_draft("g")))
        )
        read = await log.spans([(6, 8), (1, 2), (4, 5)])
        assert [item.seq for item in read.items] == [8, 1, 2, 4]
        assert read.persist == (True,) * 4
        assert [item.seq for item in (await log.read(3)).items] == [3, 4, 8]
        fenced = StoredLogReader(log.thread, store, index, fence=3)
        assert [item.seq for item in (await fenced.spans([(2, 8)])).items] == [2, 3]
        assert list(await log.times([1, 8, 99])) == [1, 8]
        assert (await log.end(), await fenced.end()) == (8, 3)
        await index.close()


async def test_a_log_finds_only_what_is_visible_and_may_be_read(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store:
        index = SqliteIndex(store, tmp_path)
        log = await log_of(store, index, "a heron", "a zebra", "a heron again")
        other = await log_of(store, index, "a heron elsewhere")
        await append(store, log.thread, Change(entries=(control_draft(Rollback(3)),)))
        assert [hit.seq for hit in await log.find("heron")] == [1]
        assert await log.search("heron") == [(1, "a heron")]
        assert [hit.thread for hit in await log.find(Search("heron"))] == [log.thread]
        named = Search("heron", threads=(other.thread,))
        assert list(await log.find(named)) == []
        allowed = StoredLogReader(
            log.thread, store, index, grants=ThreadAccess(store, (other.thread,))
        )
        assert [hit.thread for hit in await allowed.find(named)] == [other.thread]
        assert {hit.thread for hit in await allowed.find(Search("heron"))} == {
            log.thread,
            other.thread,
        }
        assert await log.of(other.thread) is None
        assert await log.of(log.thread) is log
        assert await StoredLogReader(log.thread, store, index).of(other.thread) is None
        everything = StoredLogReader(log.thread, store, index, grants=ThreadAccess(store, ("*",)))
        assert await everything.of("thr_gone") is None
        await index.close()


async def test_summaries_that_a_sibling_made_first_open_where_they_were_taken_over(tmp_path: Path):
    parent = await compacted(tmp_path, *TALK)
    async with keeping(tmp_path, talking(), parent) as found:
        (shared,) = nodes(found)
        child, sibling = await found.fork(), await found.fork()
    library = Library(tmp_path / "lossless.db")
    made = (await library.nodes([shared]))[shared]
    theirs = [
        msgspec.structs.replace(made, id=name, key=name, thread=sibling)
        for name in ("sum_0a", "sum_0b")
    ]
    over = msgspec.structs.replace(
        theirs[0], id="sum_0c", key="c", depth=1, children=("sum_0a",), thread=child
    )
    for node in (*theirs, over):
        await library.add_node(node)
    await library.close()
    taken = await use(tmp_path, child, "recall_expand", id="sum_0a")
    assert taken.startswith(f"[{child}:4] user, turn 1:\n{NEEDLE}")
    refused = await use(tmp_path, child, "recall_expand", id="sum_0b")
    assert refused.startswith(f"recall_expand failed: thread {sibling!r} {REFUSED}")


async def test_an_agent_looks_up_what_was_said_where_it_was_started(tmp_path: Path):
    parent = await compacted(tmp_path, *TALK)
    model = talking(
        Answer(
            when="Ask around.",
            calls=(call("recall_search", query="HERON_BLUE_77", thread=parent),),
        ),
        Answer(when="Send one.", calls=(call("spawn_agent", message="Ask around."),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
    )
    async with keeping(tmp_path, model, parent, agents=AgentLimits()) as thread:
        await hear(thread, "Send one.")
        (child,) = agent_records(thread.view.settings, thread.id)
        entries = await thread.store.read(child)
    said = [entry.body.decode() for entry in entries if b"function_call_output" in entry.body]
    assert [NEEDLE in text for text in said] == [True]
