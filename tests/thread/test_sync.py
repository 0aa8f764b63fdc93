from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from treadle import Rights, Routing, Thread, sync
from treadle.core.errors import NotFound
from treadle.harness.events import ApprovalRequested, TextDelta, ToolStarted, TurnCompleted
from treadle.sandbox.approvals import Once


def scripted(tmp_path: Path, *answers: dict[str, Any]) -> str:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
    return f"scripted:{path}"


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "exec_command", "arguments": {"cmd": command, "login": False, **more}}


FULL = Rights(sandbox="danger-full-access", approval="never")


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "home").mkdir()
    return {"home": tmp_path / "home", "cwd": tmp_path, "rights": FULL}


def test_a_script_runs_turns_without_awaiting(tmp_path, options):
    model = scripted(tmp_path, {"text": "One."}, {"text": "Two."})
    with sync.Thread.open(model=model, **options) as thread:
        texts = [
            [event.text for event in thread.run(said) if isinstance(event, TurnCompleted)]
            for said in ("first", "second")
        ]
        thread.rollback()
        branch = thread.fork(title="a branch")
        thread.reset()
    assert texts == [["One."], ["Two."]]
    with sync.Thread.open(branch, model=scripted(tmp_path, {"text": "Three."}), **options) as again:
        assert again.id == branch
        *_, done = again.run("third")
        assert isinstance(done, TurnCompleted)
        assert (done.status, done.text) == ("completed", "Three.")


def test_a_script_writes_to_a_thread_and_lets_it_read(tmp_path, options):
    model = scripted(tmp_path, {"when": "hello", "text": "Hello."})
    with sync.Thread.open(model=model, **options) as reader:
        assert not reader.expects()
        reader.send(reader.id, "hello there")
        assert reader.expects()
        *_, done = reader.run()
        assert isinstance(done, TurnCompleted)
        assert done.text == "Hello."
        reader.wait_for_engine(0)


def test_no_thread_is_left_behind(tmp_path, options):
    before = threading.active_count()
    with sync.Thread.open(model=scripted(tmp_path, {"text": "One."}), **options) as thread:
        list(thread.run("go"))
    assert threading.active_count() == before


def test_an_approval_is_answered_inside_the_loop(tmp_path, options):
    options["rights"] = Rights(sandbox="workspace-write", approval="on-request")
    escalated = shell("echo out", sandbox_permissions="require_escalated", justification="May I?")
    model = scripted(tmp_path, {"calls": [escalated]}, {"text": "Done."})
    with sync.Thread.open(model=model, **options) as thread:
        for event in thread.run("go"):
            if isinstance(event, ApprovalRequested):
                thread.answer(event.id, Once())
                with pytest.raises(NotFound):
                    thread.answer("ask_nothing", Once())
        assert isinstance(event, TurnCompleted)
        assert event.status == "completed"


def test_a_turn_is_steered_from_inside_the_loop(tmp_path, options):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    model = scripted(
        tmp_path, {"calls": [shell(f"cat {gate}")]}, {"when": "and this", "text": "Both."}
    )
    with sync.Thread.open(model=model, **options) as thread:
        for event in thread.run("do that"):
            if isinstance(event, ToolStarted):
                thread.steer("and this")
                gate.write_text("go\n")
        assert isinstance(event, TurnCompleted)
        assert event.text == "Both."


def test_leaving_the_loop_interrupts_the_turn(tmp_path, options):
    model = scripted(tmp_path, {"text": "Half", "stall": {"events": 5}}, {"text": "Whole."})
    with sync.Thread.open(model=model, **options) as thread:
        for event in thread.run("go"):
            if isinstance(event, TextDelta):
                break
        *_, done = thread.run("again")
        assert isinstance(done, TurnCompleted)
        assert done.text == "Whole."


def test_what_a_turn_raises_reaches_the_script(options):
    with (
        sync.Thread.open(model="groq:x", routing=Routing(environ={}), **options) as thread,
        pytest.raises(Exception, match="no key for the provider 'groq'"),
    ):
        list(thread.run("go"))


SCRIPT = """
import sys
from pathlib import Path
import treadle
import treadle.sync
from treadle.harness.events import ToolProgress
model, home = sys.argv[1:]
with treadle.sync.Thread.open(
    model=model,
    home=Path(home),
    cwd=home,
    rights=treadle.Rights(sandbox="danger-full-access", approval="never"),
) as thread:
    try:
        for event in thread.run("go"):
            if isinstance(event, ToolProgress):
                print("begun", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    *_, done = thread.run("again")
    print(done.status, done.text)
"""


def test_ctrl_c_ends_the_turn_and_the_script_goes_on(tmp_path, options):
    model = scripted(tmp_path, {"calls": [shell("echo begun; sleep 600")]}, {"text": "Back."})
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, model, options["home"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (out, err, process.returncode) == (b"interrupted\ncompleted Back.\n", b"", 0)


@pytest.mark.parametrize(
    "method", ["open", "run", "preview", "send", "fork", "rollback", "use", "answer"]
)
def test_scripts_may_say_exactly_what_others_may(method):
    plain, other = (
        inspect.signature(inspect.unwrap(getattr(each, method))) for each in (sync.Thread, Thread)
    )
    assert list(plain.parameters.values()) == list(other.parameters.values())


def test_an_option_that_does_not_exist_is_an_error(options):
    with (
        pytest.raises(TypeError, match="modle"),
        sync.Thread.open(modle="x", **options),  # type: ignore[call-arg]
    ):
        pass
