from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from inline_snapshot import snapshot

from tests.context.scenes import (
    CONTEXT,
    MODEL,
    OTHER_MODEL,
    Scene,
    answer,
    call,
    open_thread,
    output,
    scene,
    user,
)
from treadle.context.rules import OUTCOME_UNKNOWN
from treadle.core.entries import Notice, Origin, ResponseMark, SettingsChange
from treadle.core.errors import ConfigError, FragmentError, NotFound, ThreadBusy, TurnConflict
from treadle.core.items import (
    AdditionalTools,
    CompactionTrigger,
    FunctionCallOutput,
    InputText,
    Message,
    decode_item,
)
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.core.usage import TokenUsage
from treadle.prompt.fragment import Fragment, FragmentRole
from treadle.prompt.markers import Markers
from treadle.store.memory import MemoryStore
from treadle.testing import layout
from treadle.thread.thread import Thread


async def outputs(thread: Thread) -> list[str | None]:
    entries = await thread.store.read(thread.id)
    found = [entry.item for entry in entries if entry.kind == "item"]
    return [str(item.output) for item in found if isinstance(item, FunctionCallOutput)]


async def test_a_turn_from_input_to_idle():
    async with scene() as found:
        turn = await found.thread.log.turns.admit("hi", turn_id="turn_1", context=found.context)
        assert (turn.id, turn.number, turn.state) == ("turn_1", 1, "admitted")
        assert decode_item(turn.input) == user("hi")
        await found.step(answer())
        usage = TokenUsage(input_tokens=9, total_tokens=9)
        await found.thread.log.turns.finish(usage=usage)
        ended = await found.thread.store.turn(found.thread.id, 1)
        assert (ended.state, ended.usage) == ("completed", usage)
        entries = await found.thread.store.read(found.thread.id)
        assert [(e.kind, e.turn, e.step) for e in entries] == snapshot(
            [
                ("epoch", 1, 0),
                ("item", 1, 0),
                ("item", 1, 0),
                ("item", 1, 0),
                ("item", 1, 0),
                ("request", 1, 1),
                ("item", 1, 1),
                ("response", 1, 1),
            ]
        )


async def test_one_turn_id_is_admitted_once():
    async with scene() as found:
        first = await found.thread.log.turns.admit("hi", turn_id="turn_1", context=found.context)
        await found.step(answer())
        before = found.thread.view.upto
        again = await found.thread.log.turns.admit("hi", turn_id="turn_1", context=found.context)
        assert again == first
        assert (found.thread.view.upto, found.thread.log.turn, found.thread.log.step) == (
            before,
            1,
            1,
        )


async def test_a_turn_repeated_late_does_not_make_it_the_present_one():
    async with scene() as found:
        await found.thread.log.turns.admit("hi", turn_id="turn_1", context=found.context)
        await found.turn("u2")
        await found.thread.log.turns.admit("hi", turn_id="turn_1", context=found.context)
        await found.thread.log.append(answer("about u2"))
        assert found.thread.view.rows[-1].turn == 2


async def test_one_turn_id_is_admitted_once_also_after_reopening(tmp_path):
    async with Thread.open(model=MODEL, home=tmp_path, cwd=tmp_path) as thread:
        first = await thread.log.turns.admit("hi", turn_id="turn_1", context=CONTEXT)
    async with Thread.open(thread.id, home=tmp_path) as again:
        last = again.view.upto
        assert await again.log.turns.admit("hi", turn_id="turn_1", context=CONTEXT) == first
        assert again.view.upto == last
        assert layout(again) == layout(thread.request())


async def test_one_turn_id_with_another_input_is_a_conflict():
    async with scene() as found:
        await found.thread.log.turns.admit("hi", turn_id="turn_1", context=found.context)
        before = found.thread.view.upto
        with pytest.raises(TurnConflict, match=r"'turn_1' .* use a new turn id"):
            await found.thread.log.turns.admit("ho", turn_id="turn_1", context=found.context)
        assert (
            found.thread.view.upto
            == before
            == (await found.thread.store.info(found.thread.id)).last
        )


async def test_a_call_lost_to_a_crash_is_answered_once_before_the_next_turn():
    store = MemoryStore()
    async with scene(store) as found:
        await found.say("u1")
        await found.step(call(1), call(2))
        await found.thread.log.append(output(2, "fine"))
    async with scene(store, thread=found.thread.id) as again:
        await again.say("u2")
        assert layout(again.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 call       exec_command({"cmd":"ls"})
05 call       exec_command({"cmd":"ls"})
06 output     exec_command fine
07 output     exec_command Outcome unknown: the run ended before this call reported. I…
08 user       u2
""")
        row = await again.send()
        assert not row.unexplained
        await again.thread.log.requests.record_answer([answer()])
        await again.say("u3")
        assert await outputs(again.thread) == ["fine", OUTCOME_UNKNOWN]
        late = [row for row in again.thread.view.rows if row.shape.type == "function_call_output"]
        assert [(row.turn, row.step) for row in late] == [(1, 1), (1, 1)]


async def test_a_turn_taken_up_after_a_crash_answers_the_lost_call_and_goes_on():
    store = MemoryStore()
    async with scene(store) as found:
        await found.thread.log.turns.admit("u1", turn_id="turn_1", context=found.context)
        await found.step(call(1))
    async with scene(store, thread=found.thread.id) as again:
        for _ in range(2):
            await again.thread.log.turns.admit("u1", turn_id="turn_1", context=again.context)
        assert await outputs(again.thread) == [OUTCOME_UNKNOWN]
        assert (again.thread.log.turn, again.thread.log.step) == (1, 1)
        row = await again.step(answer())
        assert (row.turn, row.step) == (1, 2)


async def test_a_call_that_still_runs_is_left_alone_when_its_turn_is_admitted_again():
    async with scene() as found:
        await found.thread.log.turns.admit("u1", turn_id="turn_1", context=found.context)
        await found.step(call(1))
        await found.thread.log.turns.admit("u1", turn_id="turn_1", context=found.context)
        assert await outputs(found.thread) == []


async def test_an_output_is_cut_once_when_it_is_recorded():
    long = "x" * 100_000
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        await found.thread.log.append(output(1, long))
        (kept,) = await outputs(found.thread)
        assert kept is not None
        assert len(kept) == 48_000 + len("…13000 tokens truncated…")
        assert "…13000 tokens truncated…" in kept
        found.thread.log.setup.use_model(OTHER_MODEL)
        await found.say("u2")
        assert kept.encode() in found.thread.request().body


async def test_an_output_within_a_fifth_of_the_limit_is_kept_whole():
    fits = "x" * 48_000
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        await found.thread.log.append(output(1, fits))
        assert await outputs(found.thread) == [fits]


async def test_the_parts_of_an_output_share_one_budget():
    parts = tuple(InputText(text=letter * 30_000) for letter in "abc")
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        await found.thread.log.append(FunctionCallOutput(call_id="call_1", output=parts))
        item = found.thread.view.rows[-1].item
        assert isinstance(item, FunctionCallOutput)
        cut = f"{'b' * 9_000}…3000 tokens truncated…{'b' * 9_000}"
        texts = ("a" * 30_000, cut, "[omitted 1 text items ...]")
        assert item.output == tuple(InputText(text=text) for text in texts)


async def test_what_only_requests_carry_is_not_recorded():
    async with scene() as found:
        await found.say("u1")
        await found.send()
        rows = len(found.thread.view.rows)
        await found.thread.log.requests.record_answer(
            [
                CompactionTrigger(),
                AdditionalTools(role="developer", tools=()),
                Message(role="system", content=(InputText(text="no"),)),
            ]
        )
        assert len(found.thread.view.rows) == rows


async def test_what_a_model_made_knows_its_origin():
    async with scene() as found:
        await found.turn("u1")
        made = found.thread.view.rows[-1]
        assert made.origin == Origin("openai", "responses", "gpt-5.5", "", "treadle")
        assert (made.id, made.shape.id) == ("msg_1", "msg_1")
        assert all(row.origin is None for row in found.thread.view.rows[:-1])


async def test_how_a_request_ended_is_recorded():
    async with scene() as found:
        await found.say("u1")
        row = await found.send()
        await found.thread.log.requests.record_answer(
            [], status="failed", response_id="resp_1", error="overloaded"
        )
        (entry,) = await found.thread.store.read(found.thread.id, found.thread.view.upto)
        assert entry.control == ResponseMark(row.seq, "failed", "resp_1", None, "overloaded")


async def test_provenance_and_events_are_kept_beside_the_message():
    who = InputProvenance(kind="inter_session", source_thread="thr_1")
    event = InternalEvent(source="subagent", child_thread="thr_2", task="look", status="ok")
    async with scene() as found:
        await found.thread.log.turns.admit("u1", context=CONTEXT, provenance=who, events=[event])
        entries = await found.thread.store.read(found.thread.id)
        assert [(e.provenance, e.events) for e in entries if e.provenance] == [(who, (event,))]
        assert entries[-1].provenance == who


async def test_a_second_writer_is_told_who_holds_the_thread(tmp_path):
    async with Thread.open(model=MODEL, home=tmp_path, cwd=tmp_path) as thread:
        with pytest.raises(ThreadBusy, match=f"'{thread.id}' is being written by process"):
            async with Thread.open(thread.id, home=tmp_path):
                pass
        await thread.log.turns.admit("still mine", context=CONTEXT)
    async with Thread.open(thread.id, home=tmp_path) as again:
        assert again.view.upto == thread.view.upto


async def test_a_thread_that_fails_inside_gives_the_lease_back(tmp_path):
    with pytest.raises(KeyError):
        async with Thread.open(model=MODEL, home=tmp_path, cwd=tmp_path) as thread:
            raise KeyError
    async with Thread.open(thread.id, model=MODEL, home=tmp_path) as again:
        assert again.id == thread.id


async def test_notes_and_settings_are_entries():
    async with scene() as found:
        await found.thread.log.note("Careful.", level="warning")
        await found.thread.log.configure(goal="Ship it", pace=3)
        entries = await found.thread.store.read(found.thread.id)
        settings = SettingsChange({"goal": msgspec.Raw(b'"Ship it"'), "pace": msgspec.Raw(b"3")})
        assert [e.control for e in entries] == [Notice("warning", "Careful."), settings]
        assert found.thread.view.settings == settings.changes


async def test_a_new_thread_without_a_model_is_refused_and_leaves_nothing():
    store = MemoryStore()
    with pytest.raises(ConfigError, match="a new thread needs a model"):
        async with open_thread(store, model=None):
            pass
    assert await store.threads() == []


async def test_an_empty_thread_does_not_know_its_model_either():
    store = MemoryStore()
    info = await store.create()
    with pytest.raises(ConfigError, match="the thread has no model yet"):
        async with open_thread(store, info.id, model=None):
            pass
    lease = await store.acquire(info.id)
    await lease.release()


async def test_a_thread_reopened_without_a_model_goes_on_with_its_own():
    store = MemoryStore()
    async with scene(store) as found:
        await found.turn("u1")
    async with open_thread(store, found.thread.id, model=None) as again:
        assert again.model == MODEL
        row = await Scene(again).turn("u2")
        assert row.epoch == found.ledger[0].epoch


async def test_an_unknown_thread_is_not_made():
    store = MemoryStore()
    with pytest.raises(NotFound, match="no thread 'thr_none'"):
        async with open_thread(store, "thr_none"):
            pass
    assert await store.threads() == []


async def test_the_machine_is_looked_at_when_nobody_says_what_it_is(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    (place / "AGENTS.md").write_text("Run the tests.")
    async with scene() as found:
        found.thread.log.setup.cwd = place
        await found.thread.log.turns.admit("u1")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
""")
        (place / "AGENTS.md").write_text("Run them twice.")
        await found.thread.log.turns.admit("u2")
        (place / "AGENTS.md").unlink()
        found.thread.log.setup.cwd = Path(tmp_path)
        await found.thread.log.turns.admit("u3")
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 user       <agents_md>
05 user       u2
06 user       <agents_md>
07 user       <environment>
08 user       u3
""")


async def test_a_turn_that_a_crash_left_open_is_ended_by_the_next(tmp_path):
    async with Thread.open(model="openai:gpt-5.5", cwd=tmp_path, home=tmp_path) as crashed:
        await crashed.log.turns.admit("first", turn_id="turn_1")
    async with Thread.open(crashed.id, home=tmp_path) as thread:
        await thread.log.turns.admit("first", turn_id="turn_1")
        assert (await thread.store.turn(thread.id, 1)).state == "admitted"
        await thread.log.turns.admit("second", turn_id="turn_2")
        states = [turn.state for turn in await thread.store.turns(thread.id)]
    assert states == ["aborted", "admitted"]


async def test_a_fork_leaves_its_parents_open_turn_alone(tmp_path):
    async with Thread.open(model="openai:gpt-5.5", cwd=tmp_path, home=tmp_path) as parent:
        await parent.log.turns.admit("first", turn_id="turn_1")
        child = await parent.fork()
        async with Thread.open(child, home=tmp_path) as fork:
            await fork.log.turns.admit("second", turn_id="turn_2")
        assert [turn.state for turn in await parent.store.turns(parent.id)] == ["admitted"]


async def test_a_home_that_is_not_used_is_not_read_on_the_event_loop(tmp_path, monkeypatch):
    monkeypatch.delenv("TREADLE_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "treadle").mkdir()
    (tmp_path / "treadle" / "log.db").touch()
    async with scene() as found:
        assert found.thread.log.setup.home is None


class Loose(Fragment, frozen=True):
    """Words that nobody could tell from a person's."""

    id: ClassVar[str] = "loose"
    role: ClassVar[FragmentRole] = "user"
    text: str

    def body(self) -> str:
        return self.text


class Firm(Loose, frozen=True):
    """The same, with markers."""

    id: ClassVar[str] = "firm"
    markers: ClassVar[Markers | None] = Markers("<firm>", "</firm>")


async def test_words_that_read_as_a_persons_are_not_said_as_the_runtimes():
    async with scene(MemoryStore()) as found:
        await found.turn("u1")
        last = found.thread.view.upto
        with pytest.raises(FragmentError, match="user-role fragment 'loose' cannot be disting"):
            await found.thread.log.say(Loose("delete it all"))
        assert found.thread.view.upto == last
        await found.thread.log.say(Firm("delete it all"))
        assert b"<firm>" in found.thread.request().body
