from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.pictures import picture
from tests.skills.scenes import write_skill
from treadle import Rights, SkillRules
from treadle.context.head import Choices
from treadle.core.items import FunctionCall
from treadle.core.specs import FunctionTool
from treadle.core.wire import Json
from treadle.prompt.prompt_context import PromptContext
from treadle.sandbox.approvals import Approvals, Ask, ForPrefix
from treadle.subagents import AgentLimits
from treadle.thread.thread import Thread

from .scripts import scripted
from .test_mcp import planned
from .test_threads import tidy

PLACEHOLDER = "thr_00000000-0000-7000-8000-000000000000"


async def truth(treadle, said, thread=None, **options) -> bytes:
    """The body that a turn without a terminal would send."""
    async with Thread.open(
        thread,
        home=treadle.home,
        rights=Rights(sandbox="workspace-write", approval="never"),
        agents=AgentLimits(),
        skills=SkillRules(),
        **options,
    ) as opened:
        await opened.log.turns.admit(said)
        return opened.request().body.replace(opened.id.encode(), PLACEHOLDER.encode())


def without_tokens(line: str) -> str:
    """They depend on how long the path of the project is."""
    return re.sub(r" +(TOKENS|[\d,]+)$", "", line)


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/bash")


@pytest.mark.usefixtures("shell")
def test_a_new_thread_is_imagined_byte_for_byte(treadle):
    body = treadle("prompt", "fix the bug", "--json").out
    assert list(treadle.home.iterdir()) == []
    options: dict[str, Any] = {"model": "openai:gpt-5.5", "cwd": treadle.project}
    assert body == asyncio.run(truth(treadle, "fix the bug", **options)) + b"\n"


def test_the_layout_has_one_line_per_item(treadle):
    done = treadle("prompt", "fix <environment_context>x</environment_context>")
    assert [without_tokens(line) for line in done.lines[6:]] == snapshot(
        [
            " #  ROLE       WHAT",
            "00  developer  <permissions>",
            "01  user       <agents_md>",
            "02  user       <environment>",
            "03  user       fix <environment_context>x</environment_context>",
        ]
    )
    assert [line.split()[0] for line in done.lines[:5]] == [
        "model",
        "epoch",
        "bytes",
        "tokens",
        "items",
    ]
    assert done.lines[1] == "epoch   a new one (start)"


def test_the_text_can_come_from_a_pipe_or_be_missing(treadle):
    piped = treadle("prompt", "-", "--json", stdin=b"from a pipe").json
    assert piped["input"][-1]["content"] == [{"type": "input_text", "text": "from a pipe"}]
    assert treadle("prompt", "--json").json["input"] == piped["input"][:-1]


def test_the_directory_and_the_model_are_those_asked_for(treadle, tmp_path):
    (tmp_path / "other").mkdir()
    body = treadle(
        "prompt", "hi", "--json", "--cwd", str(tmp_path / "other"), "--model", "openai:gpt-5.4"
    ).json
    assert body["model"] == "gpt-5.4"
    assert f"<cwd>{tmp_path / 'other'}</cwd>" in json.dumps(body["input"])
    assert "Keep it simple" not in json.dumps(body["input"])
    said = treadle.refused("prompt", "hi", "--cwd", str(tmp_path / "nowhere"), code=2)
    assert "does not exist" in said


@pytest.mark.usefixtures("shell")
def test_a_thread_s_next_request_is_imagined_byte_for_byte(treadle, worked):
    (treadle.project / "AGENTS.md").write_text("Keep it simpler.\n")
    imagined = treadle("prompt", "next", "--thread", worked, "--json").out
    real = asyncio.run(truth(treadle, "next", worked))
    assert imagined.replace(worked.encode(), PLACEHOLDER.encode()) == real + b"\n"


@pytest.mark.usefixtures("shell")
def test_another_model_is_imagined_byte_for_byte(treadle, worked):
    shown = treadle("prompt", "next", "--thread", worked, "--model", "openai:gpt-5.4").lines
    imagined = treadle(
        "prompt", "next", "--thread", worked, "--model", "openai:gpt-5.4", "--json"
    ).out
    real = asyncio.run(truth(treadle, "next", worked, model="openai:gpt-5.4"))
    assert imagined.replace(worked.encode(), PLACEHOLDER.encode()) == real + b"\n"
    assert shown[1] == "epoch   a new one (model)"
    assert "shared  0 bytes (0%) of the request at entry 20, then params differs" in shown


async def hosted(treadle) -> str:
    """A thread of a host with tools, settings and a call that never ended."""
    tool = FunctionTool(name="look", description="", parameters=Json(b"{}"), strict=False)
    settings = PromptContext(cwd="", sandbox_mode="read-only", writable_roots=("/srv",))
    async with Thread.open(
        model="openai:gpt-5.5",
        cwd=treadle.project,
        home=treadle.home,
        rights=Rights(settings=settings),
        tools=[tool],
        choices=Choices(effort="high"),
    ) as thread:
        await thread.log.turns.admit("look")
        await thread.log.requests.record(thread.request())
        await thread.log.requests.record_answer(
            [FunctionCall(name="look", arguments="{}", call_id="c1")]
        )
    return thread.id


@pytest.mark.usefixtures("shell")
def test_a_thread_of_a_host_is_shown_as_exec_would_go_on_with_it(treadle):
    thread = asyncio.run(hosted(treadle))
    imagined = treadle("prompt", "go on", "--thread", thread, "--json").out
    real = asyncio.run(truth(treadle, "go on", thread))
    assert imagined.replace(thread.encode(), PLACEHOLDER.encode()) == real + b"\n"


@pytest.mark.usefixtures("shell")
def test_what_exec_sends_is_what_prompt_shows(treadle):
    model = scripted(treadle, {"text": "Done."})
    (treadle.home / "config.toml").write_text(
        'verbosity = "high"\neffort = "high"\ntool_output_token_limit = 500\nnetwork = true\n'
        'developer_instructions = "Be brief."\n[agents_md]\nfallback_names = ["CLAUDE.md"]\n'
    )
    (treadle.project / "AGENTS.md").rename(treadle.project / "CLAUDE.md")
    imagined = treadle("prompt", "go", "--model", model, "--json").out
    treadle("exec", "go", "--model", model)
    requests = [e for e in treadle("show", "last", "--json").json_lines if e["kind"] == "request"]
    sent = treadle("prompt", "--thread", "last", "--at", str(requests[0]["seq"]), "--json").out
    thread = treadle("threads", "--json").json[0]["id"]
    assert sent.replace(thread.encode(), PLACEHOLDER.encode()) == imagined
    assert b"Be brief." in imagined
    assert b"Keep it simple." in imagined


@pytest.mark.usefixtures("shell")
def test_images_and_the_schema_of_the_answer_are_shown_as_they_are_sent(treadle):
    (treadle.project / "dot.png").write_bytes(picture())
    (treadle.project / "shape.json").write_text('{"type": "object", "properties": {}}')
    model = scripted(treadle, {"text": "{}"})
    given = ("--model", model, "--image", "dot.png", "--output-schema", "shape.json")
    imagined = treadle("prompt", "go", *given, "--json").out
    without_words = treadle("prompt", *given, "--json").out
    treadle("exec", "go", *given)
    thread = treadle("threads", "--json").json[0]["id"]
    (sent,) = sent_requests(treadle)
    assert sent.replace(thread.encode(), PLACEHOLDER.encode()) == imagined
    assert b"[Image #1]" in without_words
    assert b"json_schema" in imagined
    said = treadle.refused("prompt", "--thread", "last", "--output-schema", "shape.json", code=2)
    assert "need TEXT" in said


def test_cache_marks_are_shown_as_they_are_sent(treadle):
    model = "anthropic:claude-opus-5"
    body = treadle("prompt", "go", "--model", model, "--json").out
    assert body.count(b'"cache_control":{"type":"ephemeral"}') == 3


def test_a_recorded_request_is_shown_as_it_was_sent(treadle, worked):
    shown = treadle("prompt", "--thread", worked, "--at", "10").text
    assert "proof   these are the bytes that were sent (digest " in shown
    assert "of the request at entry 6\n" in shown
    assert [without_tokens(line)[:60] for line in shown.splitlines()[8:]] == snapshot(
        [
            " #  ROLE       WHAT",
            "00  developer  <permissions>",
            "01  user       <agents_md>",
            "02  user       <environment>",
            "03  user       make the test pass",
            '04  call       exec_command({"cmd":"make test"})',
            "05  output     exec_command line 0 line 1 line 2 line 3 line",
        ]
    )
    body = treadle("prompt", "--thread", worked, "--at", "10", "--json").out
    requests = [e for e in treadle("show", worked, "--json").json_lines if e["kind"] == "request"]
    assert [len(body) - 1] == [e["control"]["size"] for e in requests if e["seq"] == 10]
    assert "no entry 99; thread" in treadle.refused("prompt", "--thread", worked, "--at", "99")
    assert "no entry 0; thread" in treadle.refused("prompt", "--thread", worked, "--at", "0")


@pytest.mark.usefixtures("worked")
def test_a_thread_as_it_stands_tells_what_it_shares(treadle):
    heading = treadle("prompt", "--thread", "last").lines[:6]
    assert heading[1] == "epoch   since entry 18 (rollback)"
    assert heading[5].startswith("shared  ")
    assert heading[5].endswith("(99%) of the request at entry 20")


def test_options_that_would_be_ignored_are_refused(treadle, worked):
    assert "--at needs --thread" in treadle.refused("prompt", "hi", "--at", "3", code=2)
    said = treadle.refused("prompt", "--thread", worked, "--model", "gpt-5.4", code=2)
    assert "--model and similar options need TEXT" in said


def test_a_thread_without_input_has_nothing_to_send(treadle):
    thread = treadle("new").text.strip()
    said = treadle.refused("prompt", "--thread", "last")
    assert said == f"treadle: thread {thread!r} has nothing to send yet; admit an input first\n"
    assert "a new one (start)" in treadle("prompt", "first", "--thread", "last").text


def test_agents_files_that_were_left_out_are_told(treadle):
    (treadle.project / "AGENTS.md").write_bytes(b"x" * 200_000)
    assert "AGENTS.md" in treadle("prompt", "hi").err


def test_bytes_on_the_command_line_that_are_no_text_are_shown_as_such(treadle):
    body = treadle("prompt", b"caf\xe9", "--json").json
    assert body["input"][-1]["content"] == [{"type": "input_text", "text": "caf�"}]


@pytest.mark.usefixtures("worked")
def test_the_readable_view_names_no_path_of_a_store(treadle):
    assert tidy(treadle("prompt", "--thread", "last").text).count("THREAD") == 0


def install_fragment(treadle) -> None:
    """Install a package with a state of its own: a city, told in each first request."""
    package = treadle.home.parent / "packages"
    (package / "city-1.0.dist-info").mkdir(parents=True)
    (package / "city-1.0.dist-info" / "METADATA").write_text("Name: city\nVersion: 1.0\n")
    (package / "city-1.0.dist-info" / "entry_points.txt").write_text(
        "[treadle.fragments]\ncity = city:CityState\n"
    )
    (package / "city.py").write_text(
        "from treadle.prompt import Fragment, Markers, StateFragment\n"
        "class City(Fragment, frozen=True):\n"
        "    id, role, cap_tokens = 'city', 'user', 100\n"
        "    markers = Markers('<city>', '</city>')\n"
        "    name: str\n"
        "    def body(self):\n"
        "        return self.name\n"
        "class CityState(StateFragment[str]):\n"
        "    id, snapshot_type, fragments = 'city', str, (City,)\n"
        "    def snapshot(self, ctx):\n"
        "        return 'Aarhus'\n"
        "    def difference(self, previous, current):\n"
        "        return (City(current),)\n"
    )
    treadle.environ["PYTHONPATH"] = str(package)


def sent_requests(treadle) -> list[bytes]:
    entries = treadle("show", "last", "--all", "--json").json_lines
    marks = [entry["seq"] for entry in entries if entry["kind"] == "request"]
    return [treadle("prompt", "--thread", "last", "--at", str(seq), "--json").out for seq in marks]


@pytest.mark.usefixtures("shell")
def test_approved_commands_and_the_fragments_of_packages_are_shown_as_they_are_sent(treadle):
    install_fragment(treadle)
    asked = Ask(argv=("make", "test"), cwd=str(treadle.project), reason="it writes")
    Approvals(treadle.home).record("thr_1", asked, ForPrefix(("make", "test")))
    model = scripted(treadle, {"text": "Done."})
    imagined = treadle("prompt", "go", "--model", model, "--json").out
    treadle("exec", "go", "--model", model)
    thread = treadle("threads", "--json").json[0]["id"]
    (sent,) = sent_requests(treadle)
    assert sent.replace(thread.encode(), PLACEHOLDER.encode()) == imagined
    assert b"<city>Aarhus</city>" in sent
    assert b'[\\"make\\", \\"test\\"]' in sent
    assert "<city>" in treadle("prompt", "go", "--model", model).text
    rebuilt = treadle("cache", "last", "--rebuild", "--check").text
    assert "UNEXPLAINED" not in rebuilt


@pytest.mark.usefixtures("shell")
def test_what_a_failure_left_unanswered_is_shown_as_it_is_sent(treadle):
    broken = scripted(treadle, {"error": {"message": "no"}}, name="broken.jsonl")
    treadle.refused("exec", "the first question", "--model", broken)
    model = scripted(treadle, {"text": "Both."})
    imagined = treadle("prompt", "the second", "--thread", "last", "--model", model, "--json").out
    treadle("exec", "the second", "--last", "--model", model)
    assert sent_requests(treadle)[-1] == imagined
    assert b"<unanswered_input>" in imagined


@pytest.mark.usefixtures("shell")
def test_skills_servers_agents_and_modes_are_shown_as_they_are_sent(treadle):
    write_skill(treadle.home / "skills", "mine", body="My text.")
    write_skill(treadle.project / ".agents" / "skills", "theirs", body="Their text.")
    treadle("skills", "trust")
    treadle("mcp", "add", "echo", "--", *planned(treadle, tools=["echo"], instructions="Kind."))
    (treadle.home / "agents").mkdir()
    bob = "---\nname: bob\ndescription: Reads much.\n---\nYou are Bob.\n"
    (treadle.home / "agents" / "bob.md").write_text(bob)
    model = scripted(treadle, {"text": "Done.", "times": 0})
    given = ("/mine with $theirs", "--model", model, "--mode", "plan")
    first = treadle("prompt", *given, "--json").out
    treadle("exec", *given)
    thread = treadle("threads", "--json").json[0]["id"]
    (sent,) = sent_requests(treadle)
    assert sent.replace(thread.encode(), PLACEHOLDER.encode()) == first
    for told in (b"My text.", b"Their text.", b"| Kind.", b"Reads much.", b"mcp__echo"):
        assert told in sent
    second = treadle("prompt", *given, "--thread", "last", "--json").out
    treadle("exec", *given, "--last")
    assert sent_requests(treadle)[-1] == second
