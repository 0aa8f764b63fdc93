from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import pytest
from inline_snapshot import snapshot

from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.thread.thread import Thread

from .conftest import answer
from .terminal import Treadle
from .test_threads import tidy

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


async def write(treadle: Treadle, *inputs: Given) -> str:
    async with Thread.open(
        model="openai:gpt-5.5", cwd=treadle.project, home=treadle.home
    ) as thread:
        for text, signals in inputs:
            await thread.log.turns.admit(text, **signals)
            await thread.log.requests.record(thread.request())
            await thread.log.requests.record_answer([answer(f"about {text}")])
            await thread.log.turns.finish()
        return thread.id


Given: TypeAlias = tuple[str, dict[str, Any]]

ANNOUNCEMENT: Given = ("agent one is done", {"provenance": ANNOUNCED, "events": [DONE]})
ADVICE: Given = ("mind the <skill>", {"provenance": PEER, "events": [DONE]})
RESTART: Given = ("go on", {"provenance": InputProvenance(kind="internal_system")})
PERSON: Given = ("run the tests", {})


@pytest.fixture
def mixed(treadle: Treadle) -> str:
    return asyncio.run(write(treadle, ANNOUNCEMENT, ADVICE, PERSON, RESTART))


@pytest.mark.usefixtures("mixed")
def test_people_see_who_sent_what_and_none_of_the_runtimes_words(treadle):
    assert tidy(treadle("show", "last").text) == snapshot("""\
assistant · TIME
  about agent one is done

thread thr_peer · TIME
  mind the &lt;skill>

assistant · TIME
  about mind the <skill>

user · TIME
  run the tests

assistant · TIME
  about run the tests

system · TIME
  go on

assistant · TIME
  about go on

""")


@pytest.mark.usefixtures("mixed")
def test_all_shows_every_word_that_the_model_reads(treadle):
    shown = tidy(treadle("show", "last", "--all").text)
    headings = [line for line in shown.splitlines() if " · tells inter_session" in line]
    assert [heading.partition(" · tells ")[0] for heading in headings] == snapshot(
        [
            "#5 1.0 thread thr_child · TIME · volatile · hidden",
            "#9 2.0 thread thr_peer · TIME",
        ]
    )
    assert shown.count("  412 passed\n") == 2
    assert shown.count("  <inter_session_message>\n") == 2


@pytest.mark.usefixtures("mixed")
def test_json_has_the_signals_beside_the_item(treadle):
    lines = treadle("show", "last", "--json").json_lines
    (first, *_) = [line for line in lines if line["events"]]
    assert first["flags"] == ["volatile", "hidden"]
    assert first["provenance"] == {
        "kind": "inter_session",
        "source_thread": "thr_child",
        "source_tool": "subagent_announce",
        "source_role": "subagent",
    }
    assert first["events"] == [
        {
            "type": "task_completion",
            "source": "subagent",
            "child_thread": "thr_child",
            "task": "tests",
            "status": "ok",
            "result": "412 passed",
        }
    ]


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        ((ANNOUNCEMENT, PERSON), "run the tests"),
        ((ADVICE, PERSON), "mind the &lt;skill>"),
        ((ANNOUNCEMENT,), ""),
    ],
    ids=["not an announcement", "a sender's own words", "nothing to show"],
)
def test_a_thread_is_named_by_what_people_are_shown(treadle, inputs, name):
    asyncio.run(write(treadle, *inputs))
    assert [thread["name"] for thread in treadle("threads", "--json").json] == [name]
