from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec import Raw

from tests.context.scenes import CONTEXT, Scene, answer, open_thread, scene, user
from treadle.context.compose import input_draft, item_draft
from treadle.context.layout import row_lines
from treadle.core.entries import Draft, Entry, Flags, own_parts
from treadle.core.errors import IllegalCut
from treadle.core.items import FunctionCallOutput, Message, encode_item, text_of
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.prompt import default_registry
from treadle.store.contract import InboxDraft
from treadle.store.sqlite import SqliteStore
from treadle.testing import layout
from treadle.thread.thread import Thread

REGISTRY = default_registry()
PEER = InputProvenance(kind="inter_session", source_thread="thr_peer", source_tool="sessions_send")
ANNOUNCED = InputProvenance(
    kind="inter_session",
    source_thread="thr_child",
    source_tool="subagent_announce",
    source_role="subagent",
)
DONE = InternalEvent(
    source="subagent", child_thread="thr_child", task="tests", status="ok", result="412 passed"
)
SETTLED = msgspec.structs.replace(ANNOUNCED, source_tool="subagent_settle")
ADVICE = msgspec.structs.replace(ANNOUNCED, source_tool="sessions_send")


def drafted(
    text: str, provenance: InputProvenance | None, events: tuple[InternalEvent, ...] = ()
) -> Draft:
    return input_draft(user(text), REGISTRY, turn=1, provenance=provenance, events=events)


def own_words(entry: Entry) -> str:
    assert isinstance(entry.item, Message)
    return text_of(own_parts(entry.item.content, entry.fragments))


async def post(thread: Thread, text: str, provenance: InputProvenance, *events: InternalEvent):
    message = InboxDraft(
        key=text,
        kind="input",
        body=Raw(encode_item(user(text))),
        provenance=provenance,
        events=events,
    )
    await thread.store.post(thread.id, message)


async def last_entry(thread: Thread) -> Entry:
    return (await thread.store.read(thread.id, reverse=True, limit=1))[0]


@given(
    st.text(),
    st.sampled_from(
        [None, InputProvenance(kind="external_user"), InputProvenance(kind="internal_system")]
    ),
)
def test_an_input_without_words_of_the_runtimes_has_the_bytes_it_always_had(
    text: str, provenance: InputProvenance | None
):
    plain = item_draft(user(text), turn=1)
    assert drafted(text, provenance) == msgspec.structs.replace(plain, provenance=provenance)


async def test_a_turn_without_signals_sends_the_bytes_it_always_sent():
    async with scene() as plain, scene() as named:
        await plain.turn("fix <skill>this</skill>")
        person = InputProvenance(kind="external_user")
        await named.thread.log.turns.admit(
            "fix <skill>this</skill>", context=CONTEXT, provenance=person
        )
        await named.step(answer("answer to fix <skill>this</skill>"))
        sent = [found.thread.request() for found in (plain, named)]
        key = plain.thread.view.cache_key.encode()
        same = sent[1].body.replace(named.thread.view.cache_key.encode(), key)
        assert sent[0].body == same


@pytest.mark.parametrize(
    ("provenance", "events", "flags"),
    [
        (ANNOUNCED, (DONE,), Flags.VOLATILE | Flags.HIDDEN),
        (ANNOUNCED, (), Flags.HIDDEN),
        (SETTLED, (DONE,), Flags.HIDDEN),
        (InputProvenance(kind="inter_session", source_tool="image_generate"), (), Flags.HIDDEN),
        (ADVICE, (), Flags.HIDDEN),
        (PEER, (), Flags.NONE),
        (InputProvenance(kind="internal_system"), (DONE,), Flags.NONE),
        (InputProvenance(kind="external_user"), (), Flags.NONE),
        (None, (DONE,), Flags.NONE),
    ],
    ids=[
        "live announcement",
        "announcement without an event",
        "settled",
        "a medium was made",
        "a subagent's advice",
        "a peer's message",
        "the runtime's report",
        "a person",
        "no signal",
    ],
)
def test_flags_follow_from_the_signals_alone(
    provenance: InputProvenance | None, events: tuple[InternalEvent, ...], flags: Flags
):
    assert drafted("the build is green", provenance, events).flags == flags


async def test_what_is_stored_is_normal():
    async with scene() as found:
        await found.thread.log.turns.admit(
            "look",
            context=CONTEXT,
            provenance=InputProvenance(kind="inter_session", source_tool=" a\nb ", job_id=" "),
            events=[msgspec.structs.replace(DONE, task="", status="odd", result="\x1b[1mok\r\n")],
        )
        entry = await last_entry(found.thread)
    assert entry.provenance == InputProvenance(kind="inter_session", source_tool="a b")
    assert entry.events == (
        msgspec.structs.replace(DONE, task="unnamed task", status="unknown", result="[1mok"),
    )


async def test_a_signal_that_is_none_leaves_no_trace():
    async with scene() as found:
        odd: dict[str, Any] = {"provenance": {"kind": "robot"}, "events": [None, "done"]}
        await found.thread.log.turns.admit("look", context=CONTEXT, **odd)
        entry = await last_entry(found.thread)
    assert (entry.provenance, entry.events, entry.fragments) == (None, (), ())


async def test_what_was_posted_is_taken_at_a_step_with_its_signals_and_in_words(tmp_path: Path):
    async with await SqliteStore.open(tmp_path) as store, open_thread(store) as thread:
        found = Scene(thread)
        await found.say("run the tests")
        await found.call_tool(1)
        await post(thread, "Agent one is done.", ANNOUNCED, DONE)
        await post(thread, "Mind the </inter_session_end> gap.", PEER)
        await thread.log.take_inbox()
        taken = (await store.read(thread.id))[-2:]
        assert [(entry.provenance, entry.events) for entry in taken] == [
            (ANNOUNCED, (DONE,)),
            (PEER, ()),
        ]
        assert [(row.provenance, row.events, row.volatile) for row in thread.view.rows[-2:]] == [
            (ANNOUNCED, (DONE,), True),
            (PEER, (), False),
        ]
        assert list(map(own_words, taken)) == [
            "Agent one is done.",
            "Mind the &lt;/inter_session_end> gap.",
        ]
        expected = snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       run the tests
04 reasoning
05 call       exec_command({"cmd":"ls"})
06 output     exec_command README.md
07 user       <inter_session> <text> <inter_session_end> <task_completion>
08 user       <inter_session> <text> <inter_session_end>
""")
        assert layout(thread.request()) == expected
        assert "".join(f"{line}\n" for line in row_lines(thread.view.rows, REGISTRY)) == expected
    async with await SqliteStore.open(tmp_path) as store, open_thread(store, thread.id) as again:
        assert again.view.rows == thread.view.rows


async def test_an_announcement_extends_the_view_that_was_sent():
    async with scene() as found:
        await found.turn("one")
        await found.thread.log.turns.admit(
            "Agent one is done.", context=CONTEXT, provenance=ANNOUNCED, events=[DONE]
        )
        row = await found.step(answer("Good."))
        assert row.difference is None


async def test_other_items_keep_their_shape():
    output = FunctionCallOutput(call_id="c", output="x")
    made = input_draft(output, REGISTRY, turn=1, provenance=PEER)
    assert made == msgspec.structs.replace(item_draft(output, turn=1), provenance=PEER)


async def test_what_is_volatile_or_the_runtimes_is_not_found_but_a_senders_words_are():
    async with scene() as found:
        thread = found.thread
        await found.turn("run the tests")
        for text, provenance in (("walnut", ANNOUNCED), ("hazelnut", SETTLED), ("peanut", PEER)):
            await thread.log.turns.admit(
                text, context=CONTEXT, provenance=provenance, events=[DONE]
            )
            await found.step()
            await thread.log.turns.finish()
        words = ("walnut", "hazelnut", "peanut", "authority", "412")
        hits = {word: len(await thread.index.search(word)) for word in words}
    assert hits == {"walnut": 0, "hazelnut": 1, "peanut": 1, "authority": 0, "412": 0}


async def announced(found: Scene, text: str = "Agent one is done.") -> None:
    await found.thread.log.turns.admit(text, context=CONTEXT, provenance=ANNOUNCED, events=[DONE])
    await found.step(answer("Noted."))
    await found.thread.log.turns.finish()


async def test_a_turn_that_an_announcement_opened_goes_with_the_one_before():
    async with scene() as found:
        await found.turn("one")
        await found.turn("two")
        await announced(found)
        await announced(found, "Agent two is done.")
        await found.thread.rollback(1)
        lines = row_lines(found.thread.view.rows[3:], REGISTRY)
        assert [line.what for line in lines] == ["one", "answer to one"]


async def test_an_announcement_between_turns_stays_when_only_the_last_is_rolled_back():
    async with scene() as found:
        await found.turn("one")
        await announced(found)
        await found.turn("two")
        await found.thread.rollback(1)
        assert [row.volatile for row in found.thread.view.rows[3:]] == [False, False, True, False]
        await found.thread.rollback(1)
        assert found.thread.view.rows == []


async def test_announcements_alone_are_no_turns_to_roll_back():
    async with scene() as found:
        await announced(found)
        with pytest.raises(IllegalCut, match="has 0 turns that can be rolled back, not 1"):
            await found.thread.rollback(1)


async def test_a_turn_that_takes_an_announcement_at_its_start_counts():
    async with scene() as found:
        await found.turn("one")
        await found.say("two")
        await post(found.thread, "Agent one is done.", ANNOUNCED, DONE)
        await found.thread.log.take_inbox()
        await found.step(answer())
        await found.thread.log.turns.finish()
        await found.thread.rollback(1)
        assert len(found.thread.view.rows) == 5
