"""Lets Harbor run a tiny task with its own client of the Agent Client Protocol.

    python -m tests.acp.harbor      # `make harbor`; half a minute, more for the first time

Harbor needs a Python of its own, 3.12 or newer, and is fetched into the user's cache. The task
lives in a box of bubblewrap, and the model is scripted: what is shown is that the program which
runs the public benchmarks can start us, approve, grade what we did, and read what it cost.
"""

# ruff: noqa: T201 - it is a script

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.terminal import SCRIPT
from tests.newer_python import find_newer_python
from tests.node import cached
from tests.tools.conftest import bubblewrap

PACKAGES = ("harbor==0.24.0", "agent-client-protocol==0.12.1")
HERE = Path(__file__).parent
MODEL = "scripted//opt/script.toml"
"""How Harbor calls models: the provider, a slash, and the rest."""
SOLUTION = """\
[[answer]]
reasoning = "The file is missing."
calls = [{name = "exec_command", arguments = {cmd = "echo woven > cloth.txt"}}]

[[answer]]
text = "The cloth is woven."
"""
TEST = """\
#!/bin/bash
if grep -qx woven /app/cloth.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def main() -> int:
    """Run Harbor; return 1 where what it says of the run is not what happened."""
    python = find_newer_python()
    if python is None:
        print("Harbor needs Python 3.12 or newer, which is not here")
        return 1
    with tempfile.TemporaryDirectory(prefix="treadle-harbor-") as directory:
        place = Path(directory)
        job = write_job(place, harbor_of(python))
        done = run_harbor(harbor_of(python), job)
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n")
            return 1
        wrong = list(look_at(place / "jobs"))
    print(*wrong or ["Harbor started us, approved, graded 1.0, and read tokens and trajectory"])
    return 1 if wrong else 0


def harbor_of(python: str) -> Path:
    """Return an environment with Harbor, which is made once."""

    def install(place: Path) -> None:
        subprocess.run([python, "-m", "venv", place], check=True)
        pip = (place / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
        subprocess.run([*pip, *PACKAGES], check=True)

    return cached("-".join(PACKAGES).replace("==", "-"), install)


def write_job(place: Path, environment: Path) -> Path:
    """Write the task and what Harbor shall do with it; return the file."""
    task = place / "task"
    for directory in ("environment", "tests"):
        (task / directory).mkdir(parents=True)
    (task / "instruction.md").write_text("Weave the cloth: cloth.txt must say so.\n")
    (task / "task.toml").write_text('version = "1.0"\n')
    (task / "environment/Dockerfile").write_text("FROM scratch\n")
    (task / "tests/test.sh").write_text(TEST)
    script = place / "script.toml"
    script.write_text(SOLUTION)
    ours = {
        "id": "treadle",
        "name": "Treadle",
        "version": "0.1.0",
        "description": "A coding agent.",
        "distribution": {
            "local": {
                "cmd": str(SCRIPT),
                # The box is the sandbox, and Harbor the one who is asked.
                "args": [
                    *("acp", "--model", "scripted:/opt/script.toml"),
                    *("--sandbox", "danger-full-access", "--approval", "untrusted"),
                ],
                "env": {"TREADLE_HOME": "/home/treadle"},
            }
        },
    }
    job = place / "job.json"
    job.write_text(
        json.dumps(
            {
                "job_name": "ours",
                "jobs_dir": str(place / "jobs"),
                "quiet": True,
                "tasks": [{"path": str(task)}],
                "agents": [
                    {"name": "acp", "model_name": MODEL, "kwargs": {"registry_entry": ours}}
                ],
                "environment": {
                    "import_path": "box_environment:BoxEnvironment",
                    "kwargs": {
                        "bubblewrap": str(bubblewrap(place).binary),
                        "runner": str(environment),
                        "script": str(script),
                    },
                },
            }
        )
    )
    return job


def run_harbor(environment: Path, job: Path) -> subprocess.CompletedProcess[str]:
    """Run the job; Harbor reports nothing to anybody."""
    environ = {**os.environ, "PYTHONPATH": str(HERE), "HARBOR_TELEMETRY": "0", "DO_NOT_TRACK": "1"}
    start = "from harbor.cli.main import app; app()"  # its script names where it was made
    command = [str(environment / "bin/python"), "-c", start, "run", "--yes", "--config", str(job)]
    return subprocess.run(
        command, cwd=job.parent, env=environ, capture_output=True, text=True, check=False
    )


def look_at(jobs: Path) -> list[str]:
    """Return what in Harbor's results is not as it was."""
    (file,) = jobs.glob("*/*/result.json")
    result: dict[str, Any] = json.loads(file.read_text())
    if result.get("exception_info"):
        return [json.dumps(result["exception_info"], indent=1)]
    told = result["agent_result"]
    steps = json.loads((file.parent / "agent/trajectory.json").read_text())["steps"]
    calls = [call["function_name"] for step in steps for call in step.get("tool_calls") or ()]
    asked = [
        one for step in steps for one in (step.get("extra") or {}).get("permission_requests", ())
    ]
    expected: dict[str, tuple[object, object]] = {
        "the grade": (result["verifier_result"]["rewards"], {"reward": 1.0}),
        "the kinds of the calls": (calls, ["execute"]),
        "how often it was asked": (len(asked), 1),
        "the last words": (steps[-1]["message"], "The cloth is woven."),
        "tokens in": (told["n_input_tokens"] > 0, True),
        "cached tokens": (0 <= told["n_cache_tokens"] < told["n_input_tokens"], True),
        "the model": (told["metadata"]["acp"].get("resolved_session_model_id"), MODEL),
        "how it ended": (told["metadata"]["acp"]["prompt_response"]["stopReason"], "end_turn"),
    }
    return [
        f"{what}: {found!r}, not {wanted!r}"
        for what, (found, wanted) in expected.items()
        if found != wanted
    ]


if __name__ == "__main__":
    sys.exit(main())
