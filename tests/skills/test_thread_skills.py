from __future__ import annotations

import itertools
import json

import pytest

from tests.skills.scenes import hear, open_thread, texts, trust_all, write_skill
from treadle.harness.events import StepStarted
from treadle.testing.script import Answer, Call


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "user" / ".agents" / "skills"


async def test_the_model_is_told_which_skills_there_are(tmp_path, own):
    write_skill(own, "deploy", "Ships the thing.")
    async with open_thread(tmp_path) as (thread, model):
        await hear(thread, "hi")
    (listed,) = texts(thread, "<available_skills>")
    assert f"- deploy: Ships the thing. ({own}/deploy/SKILL.md)" in listed
    first = json.loads(model.requests[0].body)
    assert first["input"][0]["role"] == "developer"
    assert "skill" in [each.get("name") for each in first["tools"]]


async def test_without_skills_nothing_is_told_but_the_tool_is_the_same(tmp_path, own):
    async with open_thread(tmp_path) as (thread, model):
        await hear(thread, "hi")
        assert texts(thread, "skills>") == []
        write_skill(own, "deploy")
        await hear(thread, "again")
    one, two = (json.loads(each.body) for each in model.requests)
    assert one["tools"] == two["tools"]


async def test_a_skill_that_comes_changes_or_goes_is_appended_and_breaks_no_prefix(tmp_path, own):
    write_skill(own, "alpha")
    steps = []
    async with open_thread(tmp_path) as (thread, model):
        steps += await hear(thread, "one")
        write_skill(own, "beta", "Second.")
        steps += await hear(thread, "two")
        write_skill(own, "alpha", body="Do it better.")
        steps += await hear(thread, "three")
        (own / "beta" / "SKILL.md").unlink()
        steps += await hear(thread, "four")
        steps += await hear(thread, "five")
    told = [text.splitlines()[2:-1] for text in texts(thread, "<available_skills>")[1:]]
    assert told == [
        ["Added:", f"- beta: Second. ({own}/beta/SKILL.md)"],
        [
            "Changed; a text loaded before is out of date:",
            f"- alpha: Does a thing. ({own}/alpha/SKILL.md)",
        ],
        ["Gone:", "- beta"],
    ]
    bodies = [request.body for request in model.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later.startswith(earlier.removesuffix(b"]}"))
    started = [each for each in steps if isinstance(each, StepStarted)]
    assert [each.reason for each in started][1:] == [None] * 4


async def test_a_resumed_thread_sends_the_same_bytes(tmp_path, own):
    write_skill(own, "alpha")
    async with open_thread(tmp_path) as (thread, model):
        await hear(thread, "one $alpha")
        before, sent = thread.request().body, model.requests[0].body
    async with open_thread(tmp_path, thread=thread.id) as (thread, model):
        assert thread.request().body == before
        await hear(thread, "two")
    assert model.requests[0].body.startswith(sent.removesuffix(b"]}"))
    assert len(texts(thread, "<available_skills>")) == 1


@pytest.mark.parametrize("said", ["Please $alpha.", "/alpha now", "/alpha", "(see $alpha)"])
async def test_a_message_that_names_a_skill_brings_its_text(tmp_path, own, said):
    write_skill(own, "alpha", body="Step one.")
    async with open_thread(tmp_path) as (thread, _):
        await hear(thread, said)
    (text,) = texts(thread, "<skill>")
    assert text.startswith(f"<skill>\n<name>alpha</name>\n<path>{own}/alpha/SKILL.md</path>\n")
    assert text.endswith("</digest>\nStep one.\n</skill>")


@pytest.mark.parametrize(
    "said", ["costs $5", "echo $HOME", "`$alpha`", "a/alpha", "x$alpha", "no /alpha", r"\$alpha"]
)
async def test_what_only_looks_like_a_call_brings_nothing(tmp_path, own, said):
    write_skill(own, "alpha")
    async with open_thread(tmp_path) as (thread, _):
        await hear(thread, said)
    assert texts(thread, "<skill>") == []


async def test_a_text_enters_once_and_again_only_when_its_file_has_changed(tmp_path, own):
    write_skill(own, "alpha", body="Old.")
    async with open_thread(tmp_path) as (thread, _):
        await hear(thread, "$alpha")
        await hear(thread, "$alpha again")
        assert [text.count("Old.") for text in texts(thread, "<skill>")] == [1]
        (note,) = texts(thread, "<loaded_skill>")
        assert "'alpha' is in this conversation already" in note
        write_skill(own, "alpha", body="New.")
        await hear(thread, "$alpha once more")
    assert ["New." in text for text in texts(thread, "<skill>")] == [False, True]


async def test_the_model_loads_a_skill_and_gets_a_note_the_second_time(tmp_path, own):
    write_skill(own, "alpha", body="Step one.")
    asks = Answer(calls=(Call(name="skill", arguments={"name": "alpha"}),))
    answers = [asks, asks, Answer(text="done"), Answer(text="ok")]
    async with open_thread(tmp_path, *answers) as (thread, model):
        await hear(thread, "go")
        await hear(thread, "$alpha")
    outputs = [
        item["output"]
        for item in json.loads(model.requests[-1].body)["input"]
        if item["type"] == "function_call_output"
    ]
    assert outputs[0].startswith("<skill>\n<name>alpha</name>")
    assert "is in this conversation already" in outputs[1]
    assert texts(thread, "<skill>") == []
    assert len(texts(thread, "<loaded_skill>")) == 1


async def test_a_file_that_changed_since_it_was_listed_says_so(tmp_path, own):
    write_skill(own, "alpha", body="Old.")

    asks = Answer(calls=(Call(name="skill", arguments={"name": "alpha"}),))
    async with open_thread(tmp_path, asks, Answer(text="done")) as (thread, model):
        async for event in thread.run("go"):
            if isinstance(event, StepStarted) and not model.requests[1:]:
                write_skill(own, "alpha", body="New.")
    sent = json.loads(model.requests[1].body)["input"][-1]["output"]
    assert "has changed since it was listed" in sent
    assert "New." in sent


async def test_an_unknown_skill_is_an_answer_and_not_an_error(tmp_path):
    asks = Answer(calls=(Call(name="skill", arguments={"name": "nothing"}),))
    async with open_thread(tmp_path, asks, Answer(text="done")) as (thread, model):
        await hear(thread, "go")
    assert json.loads(model.requests[1].body)["input"][-1]["output"] == (
        "skill failed: there is no skill 'nothing'"
    )


async def test_texts_in_use_are_told_again_on_a_new_base(tmp_path, own):
    write_skill(own, "alpha", body="First text.")
    write_skill(own, "beta", body="Second text.")
    asks = Answer(calls=(Call(name="skill", arguments={"name": "beta"}),))
    # Longer than a summary is, so that a compaction makes the view smaller.
    answers = [Answer(text="one " * 400), asks, *(Answer(text=f"{n}") for n in range(9))]
    async with open_thread(tmp_path, *answers) as (thread, _):
        await hear(thread, "$alpha")
        await hear(thread, "go")
        await hear(thread, "more")
        await thread.compact()
        told = texts(thread, "<skill>")
        await hear(thread, "$alpha and $beta")
        await thread.compact()
        again = texts(thread, "<skill>")
    assert ["First text." in told[0], "Second text." in told[1], len(told)] == [True, True, 2]
    assert again == told
    assert len(texts(thread, "<available_skills>")) == 1


async def test_a_fork_and_a_rollback_know_what_their_view_knows(tmp_path, own):
    write_skill(own, "alpha")
    async with open_thread(tmp_path) as (thread, _):
        await hear(thread, "one")
        await hear(thread, "$alpha")
        child = await thread.fork()
        await thread.rollback()
        await hear(thread, "$alpha")
        assert len(texts(thread, "<skill>")) == 1
        assert texts(thread, "<loaded_skill>") == []
    async with open_thread(tmp_path, thread=child) as (thread, _):
        await hear(thread, "$alpha")
        assert len(texts(thread, "<skill>")) == 1
        assert len(texts(thread, "<loaded_skill>")) == 1


async def test_a_skill_for_the_user_only_is_not_listed_and_not_loaded_by_the_model(tmp_path, own):
    write_skill(own, "alpha", disable_model_invocation="true")
    asks = Answer(calls=(Call(name="skill", arguments={"name": "alpha"}),))
    async with open_thread(tmp_path, asks, Answer(text="a"), Answer(text="b")) as (thread, model):
        await hear(thread, "go")
        await hear(thread, "/alpha")
    assert texts(thread, "<available_skills>") == []
    assert "only the user" in json.loads(model.requests[1].body)["input"][-1]["output"]
    assert len(texts(thread, "<skill>")) == 1


async def test_a_projects_skill_is_neither_listed_nor_used_before_it_is_trusted(tmp_path):
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    write_skill(project / ".agents" / "skills", "alpha", body="Do evil.")
    async with open_thread(tmp_path) as (thread, _):
        await hear(thread, "$alpha")
        assert texts(thread, "Do evil.") == texts(thread, "<available_skills>") == []
        trust_all(tmp_path, project)
        await hear(thread, "$alpha")
        assert len(texts(thread, "Do evil.")) == 1
        write_skill(project / ".agents" / "skills", "alpha", body="Do worse.")
        await hear(thread, "$alpha")
        assert texts(thread, "Do worse.") == []
        assert "Gone:\n- alpha" in texts(thread, "<available_skills>")[-1]


async def test_a_message_of_another_thread_calls_no_skill(tmp_path, own):
    write_skill(own, "alpha")
    async with open_thread(tmp_path) as (thread, _):
        other = await thread.store.create(cwd=str(tmp_path), title="other")
        await thread.send(other.id, "$alpha, and /alpha")
        name = other.id
    async with open_thread(tmp_path, thread=name) as (thread, _):
        await hear(thread)
    assert texts(thread, "<skill>") == []
