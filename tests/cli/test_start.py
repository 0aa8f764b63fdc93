"""What `treadle exec` has loaded when it sends its first request: counted, never timed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script

PROBE = """
import json, sys

def watch(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple):
        with open(place, "x") as file:
            json.dump(sorted(sys.modules), file)

place, sys.argv = sys.argv[1], ["treadle", "exec", "hi"]
sys.addaudithook(watch)
from treadle.cli import main

main()
"""

NOT_YET = {
    # terminals and what only people need
    "rich", "prompt_toolkit", "difflib", "shlex",
    # what reads all that is installed
    "importlib.metadata", "importlib.resources", "email", "zipfile",
    # what takes its time to be built
    "dataclasses",
    # for failures, files and searches to come
    "random", "tempfile", "http.client", "urllib.request", "tree_sitter",
    "re2", "shutil", "snowballstemmer",
    # rooms that a first request does not enter
    "opentelemetry", "treadle.otel.telemetry", "acp", "treadle.acp.agent",
    "treadle.testing", "treadle.transfer", "treadle.harness.codex", "treadle.models.chat_model",
    "treadle.models.messages_model", "treadle.store.memory", "treadle.store.search.searcher",
    "treadle.store.search.tables", "treadle.store.search.terms", "treadle.context.rebuild",
    "treadle.engines.linear", "treadle.hooks.common_form", "treadle.subagents.agent_run",
    "treadle.tools.stored_output", "treadle.tools.tool_output", "treadle.tools.permission",
    "treadle.tools.exec_command", "treadle.tools.shell", "treadle.sandbox.commands",
    "treadle.sandbox.safety", "treadle.tools.patch.parser", "treadle.tools.patch.patch_plan",
    "treadle.tools.local.process",
    "treadle.sandbox.bubblewrap", "treadle.sandbox.probe", "treadle.policy.auth.oauth",
    "treadle.hooks.command_hook",
    "treadle.delivery.deliveries", "treadle.delivery.reply_sender",
    "treadle.engines.lossless.summariser", "treadle.engines.lossless.writing.summarise",
    "treadle.engines.lossless.recall.automatic", "treadle.cli.repl",
}  # fmt: skip

MOST = 361
"""Modules of ours. Whoever needs more should load something else later."""


async def loaded(place: Path) -> set[str]:
    home, project, file = place / "home", place / "project", place / "modules.json"
    project.mkdir()
    home.mkdir()
    async with FakeServer(Script(answers=(Answer(text="Hello."),))) as server:
        (home / "config.toml").write_text(
            'model = "there:gpt-5.5"\nengine = "lossless"\n[providers.there]\napi = "responses"\n'
            f'base_url = "{server.base_url}"\nkey_required = false\n'
        )
        environ = {"PATH": os.environ["PATH"], "HOME": str(place), "TREADLE_HOME": str(home)}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROBE, str(file),
            cwd=project, env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, complaints = await process.communicate()
    assert (process.returncode, said) == (0, b"Hello.\n"), complaints.decode()
    return set(json.loads(file.read_text()))


async def test_a_first_request_loads_neither_what_it_does_not_need_nor_too_much(tmp_path: Path):
    modules = await loaded(tmp_path)
    assert modules & NOT_YET == set()
    assert len([name for name in modules if name.partition(".")[0] == "treadle"]) <= MOST
