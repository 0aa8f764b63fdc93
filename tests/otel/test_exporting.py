"""Telemetry of the command line, over HTTP to a collector."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.terminal import SCRIPT
from tests.fork_server import Process, run
from tests.harness.scenes import hear
from tests.otel.scenes import collector
from treadle import Thread
from treadle.config.settings import OtelSettings
from treadle.otel import conventions as names
from treadle.otel.collector_export import open_telemetry
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer

SLEEPS = {"calls": [{"name": "exec_command", "arguments": {"cmd": "sleep 60", "login": False}}]}


def place(
    tmp_path: Path, endpoint: str, *answers: Mapping[str, object], content: str = "none"
) -> None:
    (tmp_path / "home").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "project").mkdir(exist_ok=True)
    script = tmp_path / "script.jsonl"
    script.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
    (tmp_path / "home/config.toml").write_text(
        f'model = "scripted:{script}"\nsandbox = "danger-full-access"\n'
        f'[otel]\nenabled = true\ncontent = "{content}"\nendpoint = "{endpoint}"\n'
        'attributes = { "deployment.environment" = "test" }\n'
    )


def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path),
        "SHELL": "/bin/bash",
        "TREADLE_HOME": str(tmp_path / "home"),
    }


def test_a_turn_reaches_a_collector_as_protobuf_without_its_words(tmp_path: Path) -> None:
    with collector() as collected:
        place(tmp_path, collected.url, {"text": "a-planted-answer"})
        done = run(
            [str(SCRIPT), "exec", "a-planted-question"],
            cwd=tmp_path / "project",
            env={**environ(tmp_path), "OTEL_SERVICE_NAME": "weaver"},
        )
        assert (done.returncode, done.stdout) == (0, b"a-planted-answer\n"), done.stderr
    named = sorted(each.name.partition(" ")[0] for each in collected.spans)
    assert named == ["chat", "invoke_agent"]
    resource = collected.traces[0].resource_spans[0].resource
    told = {each.key: each.value.string_value for each in resource.attributes}
    assert (told["service.name"], told["deployment.environment"]) == ("weaver", "test")
    measured = {
        metric.name
        for request in collected.metrics
        for each in request.resource_metrics
        for scope in each.scope_metrics
        for metric in scope.metrics
    }
    assert {names.USAGE, names.AGENT_DURATION} <= measured
    assert b"planted" not in collected.raw


@pytest.mark.parametrize(
    ("variables", "signals", "telling"),
    [
        ({}, {"traces", "metrics"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, {"metrics"}, False),
        ({"OTEL_METRICS_EXPORTER": "none"}, {"traces"}, False),
        ({"OTEL_SDK_DISABLED": "true"}, set(), False),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"},
         {"traces", "metrics"}, True),
    ],
)  # fmt: skip
async def test_the_standard_variables_choose_what_is_sent(tmp_path, variables, signals, telling):
    model = ScriptedModel([Answer(text="a-planted-answer")])
    with collector() as collected:
        async with Thread.open(model=model, cwd=tmp_path, home=tmp_path / "home") as thread:
            with open_telemetry(OtelSettings(endpoint=collected.url), variables) as telemetry:
                async with telemetry.follow(thread):
                    await hear(thread, "go")
        await model.close()
        for sending in threading.enumerate():
            if sending.name == "treadle-telemetry":
                sending.join()
    sent = {"traces": collected.traces, "metrics": collected.metrics}
    assert {name for name, requests in sent.items() if requests} == signals
    assert (b"planted" in collected.raw) == telling


CHILD = """
import asyncio, sys
from treadle import Thread
from treadle.config.settings import OtelSettings
from treadle.otel.collector_export import open_telemetry
from treadle.thread.options import Rights

home, cwd, model, endpoint, thread = sys.argv[1:]
rights = Rights(sandbox="danger-full-access", approval="never")


async def main():
    with open_telemetry(OtelSettings(endpoint=endpoint), {}) as telemetry:
        async with (
            Thread.open(thread or None, model=model, home=home, cwd=cwd, rights=rights) as opened,
            telemetry.follow(opened),
        ):
            async for event in opened.run("go", turn_id="turn-1"):
                if type(event).__name__ == "ToolStarted":
                    rows = await opened.store.outbox(thread=opened.id, topic="trace")
                    print(opened.id, bytes(rows[0].body).decode(), flush=True)


asyncio.run(main())
"""


def test_a_turn_that_another_process_goes_on_with_stays_one_trace(tmp_path: Path) -> None:
    with collector() as collected:
        place(tmp_path, collected.url, SLEEPS, {"text": "Done."})
        script = f"scripted:{tmp_path / 'script.jsonl'}"
        argv = [sys.executable, "-c", CHILD, str(tmp_path / "home"), str(tmp_path / "project")]
        with Process([*argv, script, collected.url, ""], env=environ(tmp_path)) as process:
            thread, stored = process.stdout.readline().decode().split(" ", 1)
            process.send_signal(signal.SIGKILL)
            process.wait()
        place(tmp_path, collected.url, {"text": "Done."})
        done = run([*argv, script, collected.url, thread], env=environ(tmp_path))
        assert done.returncode == 0, done.stderr
    turns = [each for each in collected.spans if each.name == "invoke_agent treadle"]
    assert len(turns) == 1  # the other one died with its process
    _, trace, parent, _ = json.loads(stored)["context"]["traceparent"].split("-")
    assert (turns[0].trace_id.hex(), turns[0].parent_span_id.hex()) == (trace, parent)
    attributes = {each.key: each.value for each in turns[0].attributes}
    assert attributes[names.RESUMED].bool_value
    assert {each.trace_id.hex() for each in collected.spans} == {trace}


@pytest.mark.parametrize("kind", ["refused", "silent"])
def test_a_collector_that_is_gone_costs_the_end_a_moment_and_nothing_else(
    tmp_path: Path, kind: str
) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if kind == "silent":
            listening.listen()
        place(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}", {"text": "hello"})
        done = run([str(SCRIPT), "exec", "hi"], cwd=tmp_path / "project", env=environ(tmp_path))
    assert (done.returncode, done.stdout) == (0, b"hello\n")
