"""acpx, a client that nobody here wrote, in front of the real program."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

from tests.acp.scenes import Place, run_command
from tests.acp.test_process import environ
from tests.cli.terminal import SCRIPT
from tests.node import find_node, npm_packages
from treadle.testing.script import Answer

_PACKAGE = "acpx@0.19.1"


def test_a_client_of_others_runs_a_turn_and_approves_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "home-of-the-client").mkdir()
    model = place.script(run_command("touch made; echo ran"), Answer(text="All done."))
    rights = ("--sandbox", "danger-full-access", "--approval", "untrusted")
    agent = shlex.join([str(SCRIPT), "acp", "--model", model, *rights])
    node = find_node()
    done = subprocess.run(
        [
            *(node, npm_packages((_PACKAGE,)) / "acpx/dist/cli.js"),
            *("--cwd", place.project, "--approve-all", "--format", "json"),
            *("--agent", agent, "exec", "do it"),
        ],
        env={
            **environ(place),
            "PATH": f"{node.parent}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(tmp_path / "home-of-the-client"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    answers = [each["result"] for each in messages if "stopReason" in each.get("result", {})]
    assert answers[-1]["stopReason"] == "end_turn"
    assert answers[-1]["usage"]["inputTokens"] > 0
    assert any(each.get("method") == "session/request_permission" for each in messages)
    assert (place.project / "made").exists()
