"""Threads whose commands run elsewhere: what is made, found again, told and left behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.harness.scenes import call, hear, last, of, scripted
from tests.tools.far_ends import far_environ
from treadle import Rights, Thread, ToolOptions
from treadle.core.errors import ConfigError, ExecutorUnavailable, InvalidOption
from treadle.executors import ExecutorChoice
from treadle.harness.contract import Traits
from treadle.harness.events import Event, ItemCompleted, NoticeRaised
from treadle.harness.loop import LoopHarness
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer
from treadle.thread.deletion import delete_thread
from treadle.thread.elsewhere import stored_record
from treadle.tools.executor_life import ExecutorRecord

from . import fake_e2b as e2b
from .stand_ins import write_stand_ins


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with `docker` and `kubectl` that keep their state in a directory."""
    for name, value in write_stand_ins(tmp_path, os.environ["PATH"]).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "state"


def run(command: str) -> Answer:
    return Answer(calls=(call("exec_command", cmd=command),))


def outputs(events: Sequence[Event]) -> list[str]:
    items = [json.loads(bytes(event.item)) for event in of(events, ItemCompleted)]
    return [item["output"] for item in items if item["type"] == "function_call_output"]


def texts(thread: Thread) -> str:
    return json.dumps(json.loads(thread.request().body))


def record_of(thread: Thread) -> ExecutorRecord:
    record = stored_record(thread.log)
    assert record is not None
    return record


def told_place(thread: Thread) -> str | None:
    facts = thread.log.setup.executor
    return None if facts is None else facts.place


def told(thread: Thread) -> list[str]:
    """Return what the model was told of the place of commands, in order."""
    items = json.loads(thread.request().body)["input"]
    parts = [part for item in items for part in item.get("content") or ()]
    return [part["text"] for part in parts if "<executor>" in part.get("text", "")]


class Place:
    """Opens threads of one home with an executor of choice."""

    def __init__(self, tmp_path: Path) -> None:
        self.cwd, self.home = tmp_path / "project", tmp_path / "home"
        self.cwd.mkdir()

    def open(
        self,
        model: ScriptedModel,
        thread: str | None = None,
        *,
        executor: ExecutorChoice | str | None = None,
        rights: Rights | None = None,
    ) -> AbstractAsyncContextManager[Thread]:
        return Thread.open(
            thread,
            model=model,
            cwd=self.cwd,
            home=self.home,
            tools=ToolOptions(executor=executor),
            rights=rights or Rights(approval="never"),
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_container_is_made_found_again_and_removed_with_its_thread(
    place: Place, state: Path
):
    model = scripted(
        run("echo $CONTAINER; echo $SHARED; pwd > made"),
        Answer(text="one"),
        run("cat made"),
        Answer(text="two"),
    )
    choice = ExecutorChoice(where="docker:box:1", env={"SHARED": "yes"})
    async with place.open(model, executor=choice) as thread:
        first = await hear(thread, "go")
        name = record_of(thread).id
        assert name.startswith(f"treadle-{thread.id}-")
        assert f"Output:\n{name}\nyes\n" in outputs(first)[0]
        assert (place.cwd / "made").read_text() == f"{place.cwd}\n"
        record = stored_record(thread.log)
        body = thread.request().body
    made = json.loads((state / f"{name}.json").read_text())
    assert record == ExecutorRecord(
        kind="docker",
        where="docker:box:1",
        id=name,
        image="box:1",
        workspace=str(place.cwd),
        owner=thread.id,
    )
    assert made["asked"]["network"] == "none"
    assert made["asked"]["mount"] == [f"type=bind,source={place.cwd},target={place.cwd}"]
    assert "yes" not in json.dumps(made["asked"])
    assert made["State"]["Running"] is False, "it rests while nobody has the thread"
    async with place.open(model, thread.id) as thread:
        again = await hear(thread, "go on")
        assert last(again).text == "two"
        assert told(thread)[0] == (
            "<executor>\nCommands, patches and files are those of "
            "a container of the image 'box:1', not of the user's machine.\n</executor>"
        )
        assert len(told(thread)) == 1
        assert thread.request().body.startswith(body[: body.rindex(b"]}")])
        fork = await thread.fork()
    async with place.open(model, fork) as forked:
        assert record_of(forked).owner == thread.id, (
            "a fork makes one of its own with its first turn"
        )
        store, index = forked.store, forked.index
        assert await delete_thread(thread.id, store, index, home=place.home) == []
    assert not (state / f"{name}.json").exists()
    await model.close()


async def test_a_container_that_is_gone_is_made_anew_and_the_model_is_told(
    place: Place, state: Path
):
    model = scripted(run("true"), Answer(text="one"), run("true"), Answer(text="two"))
    async with place.open(model, executor="docker:box") as thread:
        await hear(thread, "go")
        before, name = thread.request().body, record_of(thread).id
    (state / f"{name}.json").unlink()
    async with place.open(model, thread.id) as thread:
        events = await hear(thread, "go on")
        notices = [event.text for event in of(events, NoticeRaised)]
        assert any("a new one is made, and files may be gone" in text for text in notices)
        assert "may be gone: look before you rely on any of them" in told(thread)[-1]
        assert record_of(thread).number == 2
        assert thread.request().body.startswith(before[: before.rindex(b"]}")])
    await model.close()


async def test_the_sandbox_of_a_crashed_process_is_found_by_the_next(place: Place, state: Path):
    script = f"""import asyncio, os
from pathlib import Path
from treadle import Rights, Thread, ToolOptions
from treadle.harness.loop import LoopHarness
from treadle.testing import ScriptedModel
from treadle.harness.loop import LoopHarness
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call

async def main():
    call = Call(name="exec_command", arguments={{"cmd": "echo $CONTAINER > left"}})
    model = ScriptedModel([Answer(calls=(call,)), Answer(text="x")])
    async with Thread.open(model=model, cwd={str(place.cwd)!r}, home={str(place.home)!r},
        tools=ToolOptions(executor="docker:box"), rights=Rights(approval="never")) as thread:
        async for event in thread.run("go"):
            if Path({str(place.cwd)!r}, "left").exists():
                print(thread.id, flush=True)
                os.kill(os.getpid(), 9)

asyncio.run(main())
"""
    died = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await died.communicate()
    assert died.returncode == -9
    model = scripted(run("cat left"), Answer(text="found"))
    async with place.open(model, out.decode().strip()) as thread:
        events = await hear(thread, "go on")
        assert f"Output:\n{record_of(thread).id}\n" in outputs(events)[0]
        assert record_of(thread).number == 1
    assert (state / "calls").read_text().split().count("run") == 1
    await model.close()


@pytest.mark.usefixtures("state")
async def test_a_call_whose_connection_is_lost_has_an_unknown_outcome_and_the_next_connects_again(
    place: Place,
):
    model = scripted(
        run("echo once >> made; kill -9 $PPID; sleep 60"), run("cat made"), Answer(text="done")
    )
    async with place.open(model, executor="docker:box") as thread:
        lost, again = outputs(await hear(thread, "go"))
        assert "the connection to a container of the image 'box' was lost" in lost
        assert "the outcome of what was running there is unknown" in lost
        assert "Output:\nonce\n" in again, "it was not run a second time"
        assert record_of(thread).number == 1
    await model.close()


@pytest.mark.usefixtures("state")
async def test_a_thread_never_leaves_its_container_because_nobody_said_where(place: Place):
    model = scripted(run("true"), Answer(text="one"), run("echo $CONTAINER"), Answer(text="two"))
    async with place.open(model, executor="docker:box") as thread:
        await hear(thread, "go")
        foreign = ExecutorRecord(
            kind="docker", where="pipe:rm -rf", workspace="/", owner="thr_of_somebody_else"
        )
        await thread.log.configure(executor=foreign)
    with pytest.raises(InvalidOption, match="say where they run from now on"):
        async with place.open(model, thread.id):
            pass
    async with place.open(model, thread.id, executor="local") as thread:
        events = await hear(thread, "go on")
        assert "Output:\n\n" in outputs(events)[0]
        assert "are those of the user's machine again" in told(thread)[-1]
        assert record_of(thread).where == "local"
    async with place.open(model, thread.id) as thread:
        assert told_place(thread) == ""
    await model.close()


@pytest.mark.parametrize(
    ("where", "error", "match"),
    [
        ("docker:no-such-image", ExecutorUnavailable, "pull access denied"),
        ("docker:", InvalidOption, "is no executor; write one of: local, docker:IMAGE"),
        ("docker:-v/:/x", InvalidOption, "is no image"),
        ("ssh:-oProxyCommand=evil", InvalidOption, "is no host"),
        ("ssh:box:relative", InvalidOption, "is no absolute directory"),
        ("pipe:'", InvalidOption, "is no command"),
        ("pipe:no-such-command-here", ExecutorUnavailable, "is not on the search path"),
        ("e2b:base", InvalidOption, "set E2B_API_KEY"),
        ("kubernetes:pool/cold", ExecutorUnavailable, "WarmPoolNotFound"),
        ("cloud:box", InvalidOption, "is no executor"),
    ],
)
@pytest.mark.usefixtures("state")
async def test_what_cannot_be_had_is_said_before_anything_runs(
    place: Place, where: str, error: type[Exception], match: str
):
    model = scripted(Answer(text="never"))
    with pytest.raises(error, match=match):
        async with place.open(model, executor=where) as thread:
            await hear(thread, "go")
    await model.close()


@pytest.mark.usefixtures("state")
async def test_a_harness_that_runs_commands_itself_is_refused(place: Place):
    model = scripted(Answer(text="never"))
    with_hands = LoopHarness(name="hands", traits=Traits(tools=True))
    tools = ToolOptions(executor="docker:box")
    async with Thread.open(
        model=model, cwd=place.cwd, home=place.home, tools=tools, harness=with_hands
    ) as thread:
        with pytest.raises(ConfigError, match="runs commands itself, on this machine"):
            await hear(thread, "go")
    assert model.requests == []
    await model.close()


@pytest.mark.usefixtures("state")
async def test_commands_in_a_container_are_confined_where_they_may_only_read(
    place: Place, shared_home: Path, monkeypatch: pytest.MonkeyPatch
):
    # The image has bubblewrap, and `docker exec` starts the far end in `/`.
    monkeypatch.setenv("PATH", far_environ(shared_home)["PATH"])
    (place.cwd / "file").write_text("it reads\n")
    model = scripted(run("cat file; touch other || echo kept"), Answer(text="ok"))
    rights = Rights(sandbox="read-only", approval="never")
    async with place.open(model, executor="docker:box", rights=rights) as thread:
        (said,) = outputs(await hear(thread, "go"))
    assert "it reads" in said
    assert said.endswith("kept\n")
    assert [each.name for each in place.cwd.iterdir()] == ["file"]
    await model.close()


async def test_a_list_of_hosts_is_not_promised_where_nobody_keeps_it(place: Place):
    model = scripted(Answer(text="never"))
    rights = Rights(approval="never", network=["docs.example.org"])
    with pytest.raises(InvalidOption, match="cannot hold commands to a list of hosts"):
        async with place.open(model, executor="docker:box", rights=rights):
            pass
    await model.close()


@pytest.mark.parametrize("where", ["kubernetes:python:3.13", "kubernetes:pool/warm"])
async def test_a_sandbox_of_kubernetes_rests_wakes_and_goes(place: Place, state: Path, where: str):
    model = scripted(
        run("echo $POD; pwd; echo kept > file"), Answer(text="1"), run("cat file"), Answer(text="2")
    )
    workspace = str(state / "workspace")
    choice = ExecutorChoice(where=where, namespace="agents", workspace=workspace, ttl=3600)
    async with place.open(model, executor=choice) as thread:
        events = await hear(thread, "go")
        name = record_of(thread).id
        pod = "warm-x7k2" if "pool" in where else name
        assert f"Output:\n{pod}\n{workspace}\n" in outputs(events)[0]
        assert f"<cwd>{workspace}</cwd>" in texts(thread)
    sandbox = json.loads((state / f"sandboxes.agents.x-k8s.io.{pod}.json").read_text())
    assert sandbox["spec"]["operatingMode"] == "Suspended"
    stopping = ExecutorChoice(where=where, namespace="agents", workspace=workspace, on_close="stop")
    async with place.open(model, thread.id, executor=stopping) as thread:
        events = await hear(thread, "go on")
        assert "Output:\nkept\n" in outputs(events)[0]
    resources = [file.name for file in state.glob("*.json")]
    assert [each for each in resources if name in each] == []
    await model.close()


async def test_a_sandbox_of_e2b_rests_wakes_and_goes(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = scripted(
        run("pwd; env | grep -c E2B; echo kept > file"),
        Answer(text="1"),
        run("cat file; head -c 300000 /dev/zero | wc -c"),
        Answer(text="2"),
        Answer(text="3"),
    )
    workspace = str(tmp_path / "workspace")
    async with e2b.fake_e2b(tmp_path) as fake:
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        choice = ExecutorChoice(where="e2b:base", workspace=workspace)
        async with place.open(model, executor=choice) as thread:
            events = await hear(thread, "go")
            assert f"Output:\n{workspace}\n0\n" in outputs(events)[0]
            assert fake.sandboxes["isb0"]["allow_internet_access"] is False
        assert fake.sandboxes["isb0"]["state"] == "paused"
        async with place.open(model, thread.id, executor=choice) as thread:
            events = await hear(thread, "go on")
            assert "Output:\nkept\n300000\n" in outputs(events)[0]
        del fake.sandboxes["isb0"]
        async with place.open(model, thread.id, executor=choice) as thread:
            await hear(thread, "and again")
            assert record_of(thread).id == "isb0"
            assert "may be gone" in told(thread)[-1]
    assert all(process.returncode is not None for process in fake.processes.values())
    await model.close()
