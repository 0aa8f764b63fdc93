"""The real Codex as the client, with a scripted model behind it."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

from tests.cli.terminal import SCRIPT
from tests.mcp_server.scenes import Place, fields_of
from treadle.prompt.codex_import import find_codex
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script

CONFIG = """\
model = "gpt-5.5"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{model}"
wire_api = "responses"
[mcp_servers.treadle]
command = "{program}"
args = ["--home", "{home}", "mcp", "serve"]
required = true
startup_timeout_sec = 90
"""


async def codex(place: Place, model: str, prompt: str) -> list[dict[str, Any]]:
    """Run one turn of `codex exec`; return its events."""
    home = place.path / "codex"
    home.mkdir()
    config = CONFIG.format(model=model, program=SCRIPT, home=place.home)
    (home / "config.toml").write_text(config)
    process = await asyncio.create_subprocess_exec(
        *(find_codex(), "exec", "--skip-git-repo-check", "--json", prompt),
        cwd=place.project,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(place.project),
            "CODEX_HOME": str(home),
        },
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return [json.loads(line) for line in out.splitlines()]


async def test_the_real_codex_searches_what_treadle_remembers(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="A treadle, because of the hands.")) as client:
        asked = {"prompt": "which loom did we choose, and why?"}
        thread = fields_of(await client.call_tool("run", asked))["thread"]
    search = Call(name="recall_search", namespace="mcp__treadle", arguments={"query": "loom"})
    wanted = {"ids": [f"{thread}:1-20"]}
    expand = Call(name="recall_expand", namespace="mcp__treadle", arguments=wanted)
    script = Script(
        answers=(Answer(calls=(search,)), Answer(calls=(expand,)), Answer(text="A treadle."))
    )
    async with FakeServer(script) as model:
        events = await codex(place, model.base_url, "which loom?")
        told = [request.payload["input"][-1] for request in model.requests if request.body]
    found = {
        event["item"]["tool"]: event["item"]["result"]["structured_content"]
        for event in events
        if event["type"] == "item.completed" and event["item"]["type"] == "mcp_tool_call"
    }
    assert [each["thread"] for each in found["recall_search"]["items"]] == [thread]
    texts = [each["text"] for each in found["recall_expand"]["entries"]]
    assert "A treadle, because of the hands." in texts
    assert "because of the hands" in json.dumps(told[-1]), "the model has read it"
