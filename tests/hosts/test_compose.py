from __future__ import annotations

import json
import re
import shlex
import signal
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.cli.scripts import scripted
from tests.cli.terminal import SCRIPT, Treadle
from tests.fork_server import Process
from treadle.testing.postgres import PostgresServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "compose"


def test_the_compose_file_can_be_read_and_starts_what_treadle_has():
    told = yaml.safe_load((EXAMPLE / "compose.yaml").read_text(encoding="utf-8"))
    assert sorted(told["services"]) == ["db", "web", "worker"]
    worker, web = told["services"]["worker"], told["services"]["web"]
    assert worker["deploy"]["replicas"] == 2
    assert (EXAMPLE / worker["build"]["context"] / worker["build"]["dockerfile"]).is_file()
    assert (worker["command"][0], web["command"][0]) == ("work", "web")
    named = set(re.findall(r"\$\{(\w+)", (EXAMPLE / "compose.yaml").read_text(encoding="utf-8")))
    given = set(re.findall(r"^(\w+)=", (EXAMPLE / ".env.example").read_text(), re.MULTILINE))
    assert named == given


@pytest.mark.timeout(180)
def test_the_three_commands_run_turns_of_one_database_and_show_them(tmp_path: Path):
    block = (EXAMPLE / "README.md").read_text(encoding="utf-8").split("```sh\n")[1]
    lines = [shlex.split(line, comments=True) for line in block.split("```")[0].splitlines()]
    assert [line[:2] for line in lines] == [
        ["export", "TREADLE_STORE=postgresql://me@localhost/agents"],
        ["treadle", "work"],
        ["treadle", "work"],
        ["treadle", "web"],
    ]
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    server = PostgresServer()
    try:
        address = server.create("agents")
        machines = [
            Treadle(tmp_path / f"home{number}", project, {"TREADLE_STORE": address})
            for number in range(3)
        ]
        model = scripted(machines[0], {"text": "fine", "times": 0})
        with ExitStack() as stack:
            workers: list[Process] = []
            web: Process | None = None
            for line, machine in zip(lines[1:], machines, strict=True):
                process = stack.enter_context(
                    Process([SCRIPT, *line[1:], "--json"], cwd=machine.project, env=machine.env)
                )
                if line[1] == "web":
                    web = process
                else:
                    workers.append(process)
            assert web is not None
            threads = [machines[2]("new", "--model", model, "hello").text.strip() for _ in "ab"]
            ended: set[str] = set()
            while len(ended) < len(threads):
                shown = machines[2]("threads", "--json").json
                ended |= {each["id"] for each in shown if each["entries"] > 6}
            link = json.loads(web.stdout.readline())["link"]
            place, _, token = link.partition("#token=")
            asked = urllib.request.Request(
                f"{place}api/threads", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(asked) as answer:
                listed = {each["id"] for each in json.load(answer)["threads"]}
            assert listed == set(threads)
            for process in (*workers, web):
                process.send_signal(signal.SIGTERM)
    finally:
        server.close()
