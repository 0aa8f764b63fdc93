from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from treadle.prompt.codex_import import find_codex
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script

from .scenes import hear, last, open_thread, scripted

MODEL = "gpt-5.5"
PROMPT = "fix it"
CONFIG = f"""\
model = "{MODEL}"
model_provider = "treadle"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"

[model_providers.treadle]
name = "treadle"
base_url = "BASE_URL"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
plugins = false
apps = false
unbounded_connection_retries = false
"""


def run(cmd: str, **arguments: object) -> Call:
    return Call(name="exec_command", arguments={"cmd": cmd, "login": False, **arguments})


def patch(*lines: str) -> Call:
    text = "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))
    return Call(name="apply_patch", input=text)


CALLS = {
    "output": run("echo hi"),
    "exit code": run("echo no >&2; exit 3"),
    "silence": run("true"),
    "cut": run("seq 1 5000", max_output_tokens=50),
    "still running": run("echo begun; sleep 30", yield_time_ms=1000),
    "add": patch("*** Add File: new.txt", "+hello", "+there"),
    "update": patch("*** Update File: new.txt", "@@", " hello", "-there", "+world"),
    "move": patch("*** Update File: new.txt", "*** Move to: other.txt", "@@", "-world", "+you"),
    "delete": patch("*** Delete File: other.txt"),
}
SCRIPT = (*(Answer(calls=(each,)) for each in CALLS.values()), Answer(text="done"))

Items = list[dict[str, Any]]


def project(place: Path) -> Path:
    directory = place / "project"
    (directory / ".git").mkdir(parents=True)
    (directory / "AGENTS.md").write_text("Be kind.\n\nTest everything.\n")
    return directory


async def theirs(place: Path) -> Items:
    """What the real Codex shows its model in the last request of a turn."""
    directory = project(place)
    for name in ("home", "codex"):
        (place / name).mkdir()
    async with FakeServer(Script(answers=SCRIPT)) as server:
        (place / "codex/config.toml").write_text(CONFIG.replace("BASE_URL", server.base_url))
        process = await asyncio.create_subprocess_exec(
            *(str(find_codex()), "exec", "--skip-git-repo-check", PROMPT),
            cwd=directory,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(place / "home"),
                "CODEX_HOME": str(place / "codex"),
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        items: Items = server.requests[-1].payload["input"]
    return items


async def ours(place: Path) -> Items:
    """What Treadle shows its model in the last request of the same turn."""
    project(place)
    model = scripted(*SCRIPT, name=MODEL)
    async with open_thread(place, model, tools=None) as thread:
        assert last(await hear(thread, PROMPT)).text == "done"
    items: Items = model.requests[-1].payload["input"]
    return items


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Items, Items]:
    """Their items and ours."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("theirs", "ours"))
    return asyncio.run(theirs(first)), asyncio.run(ours(second))


def kinds(items: Items) -> list[tuple[str, str]]:
    """Who says what before the first call; the words of the runtime by their marks."""
    marks = {"<permissions": "permissions", "# AGENTS": "agents", "<environment": "environment"}
    told = []
    for item in items:
        if item["type"] != "message":
            break
        for part in item["content"]:
            marked = [kind for mark, kind in marks.items() if part["text"].startswith(mark)]
            told.append((item["role"], marked[0] if marked else part["text"]))
    return told


def test_both_tell_the_same_in_the_same_order(both):
    told = [[kind for kind in kinds(items) if kind[0] == "user"] for items in both]
    assert told[1] == told[0]
    assert told[1] == [("user", "agents"), ("user", "environment"), ("user", PROMPT)]


def test_in_both_the_developer_speaks_before_the_user(both):
    for items in both:
        roles = [role for role, _ in kinds(items)]
        assert roles == sorted(roles), "developer, then user"
        assert "developer" in roles


def test_the_projects_instructions_are_told_in_the_same_words(both):
    told = []
    for items in both:
        text = next(
            part["text"]
            for item in items
            for part in item.get("content", ())
            if part["text"].startswith("# AGENTS.md")
        )
        told.append(re.sub(r"for /\S+", "for PROJECT", text))
    assert told[1] == told[0]


def outputs(items: Items) -> dict[str, str]:
    """What each call was answered, without what no two runs share."""
    answers = [item["output"] for item in items if item["type"].endswith("_output")]
    assert len(answers) == len(CALLS)
    return {name: same(text) for name, text in zip(CALLS, answers, strict=True)}


def same(text: str) -> str:
    text = re.sub(r"Chunk ID: [0-9a-f]{6}", "Chunk ID: ……", text)
    text = re.sub(r"Wall time: [0-9.]+ seconds", "Wall time: … seconds", text)
    text = re.sub(r"session ID \d+", "session ID …", text)
    # Ours can be read back whole, and says so in a last line.
    return re.sub(r"Full output: sha256:[0-9a-f]{64} \(use read_output\)$", "", text)


@pytest.mark.parametrize("name", CALLS)
def test_both_answer_a_call_in_the_same_words(both, name):
    expected, found = (outputs(items)[name] for items in both)
    assert found == expected
