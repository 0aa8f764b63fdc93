from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot

from tests.harness.scenes import call, calls_answered_once, hear, last, of, open_thread, scripted
from treadle.core.entries import Reason
from treadle.core.errors import CannotCompact, TooLong
from treadle.core.items import FunctionCall
from treadle.core.loopback import LoopbackRequest
from treadle.engines.linear import RETAINED_TOKENS
from treadle.harness.events import CompactionFinished, CompactionStarted, NoticeRaised
from treadle.models.contract import ModelError
from treadle.prompt.instructions import compaction_prompt, summary_prefix
from treadle.testing import layout
from treadle.testing.script import Answer, Break, Call, ScriptedError, Tokens
from treadle.tools.decorator import tool

TOO_LONG = Answer(
    error=ScriptedError(status=400, code="context_length_exceeded", message="too long")
)
LONG = "many words " * 2_000
WORDY = " ".join(f"word{number}" for number in range(5_000))
"""A summary that makes nothing smaller."""
LIMIT = "auto_compact_token_limit = 9000"
FULL = Tokens(input=9_500)


@tool
async def look(words: int = 2_000) -> str:
    """Looks."""
    return "seen " * words


def texts(request: LoopbackRequest) -> list[str]:
    """What a request shows, item by item."""
    shown = []
    for item in request.payload["input"]:
        content = item.get("content") or item.get("output") or item["type"]
        text = content if isinstance(content, str) else content[0]["text"]
        shown.append(f"{item.get('role', item['type'])}: {text}")
    return shown


def spoken(request: LoopbackRequest) -> list[str]:
    """The same without the first context, long texts by their ends."""
    lines = [line for line in texts(request) if "<environment_context>" not in line]
    return [line if len(line) < 60 else f"{line[:20]}…{line[-20:]}" for line in lines[1:]]


async def test_by_hand_the_old_becomes_retained_messages_and_a_summary(tmp_path):
    model = scripted(
        Answer(calls=(call("look"),)),
        Answer(text=LONG),
        Answer(text="We looked around."),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "look around")
        before = layout(thread)
        done = await thread.compact()
        assert thread.view.reason is Reason.COMPACTION
        assert done.tokens_after == thread.view.tokens < done.tokens_before
        assert last(await hear(thread, "did you?")).text == "Yes."
        assert layout(thread) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       look around
03 user       The earlier part of this conversation was left out to make …
04 user       did you?
05 assistant  Yes.
""")
        prompt = compaction_prompt()
        entries = await thread.store.read(thread.id)
        assert not any(prompt[:40].encode() in entry.body for entry in entries)
        rows = await thread.index.rows(thread.id)
    assert len(before.splitlines()) == 6
    summary = model.requests[2]
    assert texts(summary)[-1] == f"user: {prompt}"
    # It rides the prefix: all of the request before it is in it, tools included.
    assert summary.body.startswith(model.requests[1].body.removesuffix(b"]}"))
    assert texts(model.requests[3])[3] == f"user: {summary_prefix()}\nWe looked around."
    assert [row.reason for row in rows] == ["start", None, "compaction"]


async def test_the_summary_request_is_cached_up_to_its_question(tmp_path):
    model = scripted(Answer(text=LONG), Answer(text="short"), Answer(text="on"))
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "hi")
        await thread.compact()
    first, second = (request.body.removesuffix(b"]}") for request in model.requests[:2])
    assert second.startswith(first)


async def test_a_full_view_is_compacted_before_the_next_turn(tmp_path):
    model = scripted(Answer(text=LONG, usage=FULL), Answer(text="a summary"), Answer(text="fresh"))
    async with open_thread(tmp_path, model, facts=LIMIT) as thread:
        await hear(thread, "one")
        events = await hear(thread, "next")
    assert last(events).text == "fresh"
    assert [type(e) for e in events[:2]] == [CompactionStarted, CompactionFinished]
    assert "user: next" not in texts(model.requests[1])
    one, summary, two = spoken(model.requests[2])
    assert (one, two) == ("user: one", "user: next")
    assert summary.endswith("a summary")


async def test_inside_a_turn_the_newest_step_stays_raw_behind_the_summary(tmp_path):
    model = scripted(
        Answer(calls=(call("look", words=4_000),)),
        Answer(calls=(call("look", words=10),), usage=FULL),
        Answer(text="Looked once."),
        Answer(text="done"),
    )
    async with open_thread(tmp_path, model, tools=(look,), facts=LIMIT) as thread:
        events = await hear(thread, "look twice")
        assert await calls_answered_once(thread)
        assert layout(thread) == snapshot("""\
00 developer  <permissions>
01 user       <environment>
02 user       look twice
03 user       The earlier part of this conversation was left out to make …
04 call       look({"words":10})
05 output     look seen seen seen seen seen seen seen seen seen seen
06 assistant  done
""")
    assert last(events).text == "done"
    assert len(of(events, CompactionFinished)) == 1


async def test_an_overflow_is_answered_by_compacting_once(tmp_path):
    model = scripted(
        Answer(text=LONG), TOO_LONG, Answer(text="a summary"), Answer(text="it fits now")
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        events = await hear(thread, "two")
    assert last(events).text == "it fits now"
    assert len(of(events, CompactionFinished)) == 1


async def test_a_second_overflow_fails_the_turn_and_the_thread_stays_usable(tmp_path):
    model = scripted(
        Answer(text=LONG), TOO_LONG, Answer(text="a summary"), TOO_LONG, Answer(text="better")
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        failed = await hear(thread, "two")
        assert last(failed).status == "failed"
        assert "larger than the model's window" in (last(failed).error or "")
        assert last(await hear(thread, "three")).text == "better"
    assert len(of(failed, CompactionFinished)) == 1


async def test_when_the_summary_does_not_fit_the_oldest_goes_with_its_pair(tmp_path):
    model = scripted(
        Answer(calls=(call("look"),)),
        Answer(text="seen"),
        TOO_LONG,
        TOO_LONG,
        Answer(text="what was left"),
    )
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "look")
        done = await thread.compact()
    assert done.left_out == 3
    asked = [spoken(request)[:-1] for request in model.requests[2:]]
    assert [len(lines) for lines in asked] == [4, 3, 1]
    assert asked[2] == ["assistant: seen"]


async def test_a_summary_that_never_fits_is_an_error_and_changes_nothing(tmp_path):
    forever = msgspec.structs.replace(TOO_LONG, times=0)
    async with open_thread(tmp_path, scripted(Answer(text=LONG), forever)) as thread:
        await hear(thread, "one")
        before = thread.request().body
        with pytest.raises(TooLong, match="larger than the model's window"):
            await thread.compact()
        assert thread.request().body == before


async def test_compacting_must_make_the_view_smaller(tmp_path):
    model = scripted(Answer(text="short"), Answer(text=WORDY))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        before = thread.request().body
        with pytest.raises(CannotCompact, match="would take it from"):
            await thread.compact()
        assert thread.request().body == before


async def test_nothing_is_compacted_twice_in_a_row(tmp_path):
    model = scripted(Answer(text=LONG), Answer(text="a summary"), Answer(text="never asked"))
    async with open_thread(tmp_path, model) as thread:
        with pytest.raises(CannotCompact, match="nothing new"):
            await thread.compact()
        await hear(thread, "one")
        await thread.compact()
        with pytest.raises(CannotCompact, match="nothing new"):
            await thread.compact()
    assert len(model.requests) == 2


async def test_a_view_that_stays_full_is_not_compacted_at_every_step(tmp_path):
    look_again = Answer(calls=(call("look", words=1),), usage=FULL)
    model = scripted(
        Answer(text=LONG, usage=FULL),
        Answer(text=WORDY),
        *[look_again] * 3,
        Answer(text="done"),
        loop=False,
    )
    async with open_thread(tmp_path, model, tools=(look,), facts=LIMIT) as thread:
        await hear(thread, "one")
        events = await hear(thread, "two")
    warnings = of(events, NoticeRaised)
    assert warnings[0].text.startswith("could not make room: compacting thread ")
    assert len(of(events, CompactionStarted)) <= 2
    assert last(events).status == "completed"


async def test_earlier_summaries_are_never_collected_as_what_someone_said(tmp_path):
    model = scripted(
        Answer(text=LONG),
        Answer(text="the first summary"),
        Answer(text=LONG),
        Answer(text="the second summary"),
        Answer(text="ok"),
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        await thread.compact()
        await hear(thread, "two")
        await thread.compact()
        await hear(thread, "three")
    sent = texts(model.requests[-1])
    assert [line for line in sent if "summary" in line] == [
        f"user: {summary_prefix()}\nthe second summary"
    ]
    assert [line for line in sent if line in ("user: one", "user: two", "user: three")] == [
        "user: one",
        "user: two",
        "user: three",
    ]


async def test_what_the_user_said_stays_newest_first_up_to_20000_tokens(tmp_path):
    words = "word " * (4 * 8_000 // 5)  # 8,000 tokens
    model = scripted(*[Answer(text=LONG)] * 4, Answer(text="a summary"), Answer(text="ok"))
    async with open_thread(tmp_path, model) as thread:
        for name in ("first", "second", "third", "fourth"):
            await hear(thread, f"{name} {words}")
        await thread.compact()
        await hear(thread, "go")
    kept = [line for line in spoken(model.requests[-1]) if line.startswith("user: ")]
    assert [line.split()[1] for line in kept[:3]] == ["second", "third", "fourth"]
    whole = next(line for line in texts(model.requests[-1]) if line.startswith("user: second"))
    assert "tokens truncated" in whole
    sizes = [len(line) // 4 for line in texts(model.requests[-1]) if line.endswith("word ")]
    assert sum(sizes) <= RETAINED_TOKENS + 100


async def test_calls_in_place_of_a_summary_are_refused_and_it_is_asked_for_again(tmp_path):
    ran = []

    @tool
    async def tempting() -> str:
        """Tempts."""
        ran.append("oh no")
        return "run"

    model = scripted(
        Answer(text=LONG),
        Answer(calls=(call("tempting"), Call(name="patchy", input="raw"))),
        Answer(text="after all a summary"),
        Answer(text="ok"),
    )
    async with open_thread(tmp_path, model, tools=(tempting,)) as thread:
        await hear(thread, "one")
        await thread.compact()
        await hear(thread, "two")
    assert ran == []
    refused = [line for line in texts(model.requests[2]) if "Refused" in line]
    assert len(refused) == 2
    assert "after all a summary" in "".join(texts(model.requests[3]))
    assert "Refused" not in "".join(texts(model.requests[3]))


async def test_a_summary_that_is_cut_off_is_asked_for_again(tmp_path):
    model = scripted(
        Answer(calls=(call("look", words=4_000),)),
        Answer(calls=(call("look", words=10),), usage=FULL),
        Answer(text="half a", cut=Break(events=2)),
        Answer(text="whole"),
        Answer(text="done"),
    )
    async with open_thread(tmp_path, model, tools=(look,), facts=LIMIT) as thread:
        events = await hear(thread, "look")
    assert last(events).text == "done"
    assert "whole" in "".join(texts(model.requests[-1]))


async def test_a_model_that_cannot_be_asked_for_a_summary_fails_by_hand_only(tmp_path):
    refused = ScriptedError(status=401, code="invalid_api_key", message="no")
    model = scripted(Answer(text=LONG), Answer(error=refused), Answer(text="still here"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        with pytest.raises(ModelError, match="401"):
            await thread.compact()
        assert last(await hear(thread, "two")).text == "still here"


async def test_a_compacted_thread_is_the_same_after_it_was_opened_again(tmp_path):
    model = scripted(Answer(text=LONG), Answer(text="a summary"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        await thread.compact()
        before, name = thread.request().body, thread.id
    async with open_thread(tmp_path, scripted(), thread=name) as thread:
        assert thread.request().body == before


async def test_a_summary_is_prose_whatever_the_answer_must_be(tmp_path):
    schema = msgspec.Raw(b'{"type":"object"}')
    long = msgspec.json.encode({"text": LONG}).decode()
    model = scripted(Answer(text=long), Answer(text="a summary"), Answer(text="{}"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one", schema=schema)
        await thread.compact()
        await hear(thread, "two", schema=schema)
    formats = ["format" in request.payload.get("text", {}) for request in model.requests]
    assert formats == [True, False, True]


@pytest.mark.parametrize("how", ["by hand", "because the view is full"])
async def test_a_thread_that_crashed_in_a_call_can_be_compacted(tmp_path, how):
    model = scripted(Answer(text=LONG * 2))
    async with open_thread(tmp_path, model, facts=LIMIT) as thread:
        await hear(thread, "write much")
        await thread.log.turns.admit("and look", turn_id="crashed")
        await thread.log.requests.record(thread.request())
        lost = FunctionCall(id="fc_1", call_id="call_1", name="look", arguments="{}")
        await thread.log.requests.record_answer([lost])
        name = thread.id
    model = scripted(Answer(text="Much was written."), Answer(text="Here I am."))
    async with open_thread(tmp_path, model, thread=name, facts=LIMIT) as thread:
        if how == "by hand":
            await thread.compact()
        heard = await hear(thread, "go on")
        assert last(heard).text == "Here I am."
        assert len(of(heard, CompactionFinished)) == (how != "by hand")
        assert await calls_answered_once(thread)


def use_other_words(home: Path, prefix: str | None) -> None:
    """Have the summaries from now on begin with other words than before."""
    place = home / "prompts" / "codex"
    if prefix is None:
        shutil.rmtree(place)
        return
    place.mkdir(parents=True)
    (place / "summary_prefix.md").write_text(prefix)
    digests = {"summary_prefix.md": f"sha256:{hashlib.sha256(prefix.encode()).hexdigest()}"}
    manifest = {"source": "codex", "version": "1", "digests": digests}
    (place / "manifest.json").write_bytes(msgspec.json.encode(manifest))


@pytest.mark.parametrize("first", [None, "Somebody else has worked on this:"])
async def test_a_summary_is_nobodys_words_whatever_stood_before_it(tmp_path, first):
    words = (LONG, "the first summary", LONG, "the second summary", "on")
    model = scripted(*(Answer(text=text) for text in words))
    home = tmp_path / "home"
    home.mkdir()
    if first is not None:
        use_other_words(home, first)
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        await thread.compact()
        assert texts(model.requests[1])[-1] != f"user: {first}"
        use_other_words(home, "In other words:" if first is None else None)
        await hear(thread, "two")
        await thread.compact()
        await hear(thread, "three")
    shown = "\n".join(texts(model.requests[-1]))
    assert "the first summary" not in shown
    assert "the second summary" in shown
