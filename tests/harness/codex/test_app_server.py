from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec import Raw
from msgspec.structs import replace

from treadle.harness.codex.app_server import AppServer, RestartPolicy, ServerCommand, ServerProcess
from treadle.harness.codex.errors import (
    AppServerDied,
    AppServerUnavailable,
    CodexMissing,
    Disconnected,
    Overloaded,
    RequestTimeout,
    UnknownMethod,
    UnsupportedCodex,
)
from treadle.harness.codex.protocol.client_requests import (
    CompactThread,
    DynamicFunction,
    ForkThread,
    InjectItems,
    InterruptTurn,
    ReadThread,
    ResumeThread,
    StartThread,
    StartTurn,
    SteerTurn,
    TextInput,
)
from treadle.harness.codex.protocol.notifications import (
    ItemCompletedNotification,
    Notification,
    RawItemNotification,
    TurnCompletedNotification,
    TurnStartedNotification,
)
from treadle.harness.codex.protocol.server_requests import (
    ApprovalReply,
    ClientReply,
    ServerRequest,
    ToolCallReply,
    ToolCallRequest,
    ToolTextPart,
)
from treadle.harness.codex.server_access import ProviderRoute
from treadle.harness.codex.server_connection import IgnoredMessages
from treadle.harness.codex.thread_events import Subscription
from treadle.harness.codex.version import SUPPORTED_VERSIONS
from treadle.models.retry import Backoff
from treadle.testing.appserver import (
    AppFault,
    AppScript,
    AppStep,
    TurnScript,
    received_messages,
    scripted_command,
)
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer as Said
from treadle.testing.script import Call, Script

from .real_servers import real_command, serving, wait_until_gone

SCHEMA = Raw(b'{"type":"object","properties":{"q":{"type":"string"}}}')
LOOKUP = DynamicFunction(name="lookup", description="Finds things.", input_schema=SCHEMA)


async def helpful(ask: ServerRequest) -> ClientReply:
    if isinstance(ask, ToolCallRequest):
        return ToolCallReply(content_items=(ToolTextPart(text="found"),), success=True)
    return ApprovalReply(decision="accept")


async def to_the_end(events: Subscription) -> list[Notification]:
    taken: list[Notification] = []
    async for event in events:
        taken.append(event)
        if isinstance(event, TurnCompletedNotification):
            return taken
    raise AssertionError("the turn did not end")


def say(thread: str, text: str = "hi") -> StartTurn:
    return StartTurn(thread_id=thread, input=(TextInput(text=text),))


async def number_in(path: Path) -> int:
    for _ in range(500):
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return int(text)
        await asyncio.sleep(0.02)
    raise AssertionError(f"nobody wrote {path}")


def no_waiting(**options: float) -> RestartPolicy:
    async def at_once(_: float) -> None: ...

    return RestartPolicy(backoff=Backoff(sleep=at_once), **options)  # type: ignore[arg-type]


async def test_one_real_process_serves_sixty_four_threads_opened_at_once(tmp_path: Path):
    async with serving(AppServer(real_command(tmp_path))) as server:
        connection = await server.connection()
        start = StartThread(cwd=str(tmp_path), ephemeral=True)
        opened = await asyncio.gather(*(connection.open_thread(start, helpful) for _ in range(64)))
        assert len({each.thread.id for each, _ in opened}) == 64
        assert server.generation == 1
        assert server.version is not None
        assert server.version in SUPPORTED_VERSIONS


async def test_a_real_turn_calls_a_tool_of_ours_behind_the_item_that_asks_for_it(tmp_path: Path):
    asked = Said(calls=(Call(name="lookup", arguments={"q": "x"}),))
    async with FakeServer(Script(answers=(asked, Said(text="it is here")))) as fake:
        route = ProviderRoute(provider="fake", base_url=fake.base_url)
        order: list[str] = []

        async def handler(ask: ServerRequest) -> ClientReply:
            assert isinstance(ask, ToolCallRequest)
            order.append(f"call {bytes(ask.arguments).decode()}")
            return await helpful(ask)

        async with serving(AppServer(real_command(tmp_path, route))) as server:
            connection = await server.connection()
            opened, events = await connection.open_thread(
                StartThread(
                    cwd=str(tmp_path),
                    model="any",
                    config=route.config(),
                    dynamic_tools=(LOOKUP,),
                    experimental_raw_events=True,
                ),
                handler,
            )
            await connection.call(say(opened.thread.id))
            async for event in events:
                if isinstance(event, RawItemNotification):
                    order.append(msgspec.json.decode(event.item)["type"])
                if isinstance(event, TurnCompletedNotification):
                    break
        assert order[-4:] == ["function_call", 'call {"q":"x"}', "function_call_output", "message"]
        outputs = [i for i in fake.requests[1].payload["input"] if i["type"] == order[-2]]
        assert [output["output"] for output in outputs] == ["found"]


async def test_a_killed_real_server_fails_its_requests_and_another_takes_over(tmp_path: Path):
    async with serving(AppServer(real_command(tmp_path))) as server:
        connection = await server.connection()
        start = StartThread(cwd=str(tmp_path))
        opened, events = await connection.open_thread(start, helpful)
        asked = [asyncio.create_task(connection.call(start)) for _ in range(20)]
        await asyncio.sleep(0)
        killed = server.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        ends = await asyncio.gather(*asked, return_exceptions=True)
        deaths = [end for end in ends if isinstance(end, AppServerDied)]
        assert deaths
        assert {death.status for death in deaths} == {-signal.SIGKILL}
        with pytest.raises(AppServerDied, match="was killed by signal 9"):
            await to_the_end(events)
        again = await server.connection()
        assert (again.generation, server.generation) == (2, 2)
        assert server.pid != killed
        assert (await again.call(start)).thread.id != opened.thread.id
        assert await wait_until_gone(killed)


async def test_closing_ends_the_real_process_and_the_command_it_runs(tmp_path: Path):
    sleeping = Call(name="exec_command", arguments={"cmd": "echo $$ > pid; exec sleep 4000"})
    async with FakeServer(Script(answers=(Said(calls=(sleeping,)),))) as fake:
        route = ProviderRoute(provider="fake", base_url=fake.base_url)
        server = AppServer(real_command(tmp_path, route))
        connection = await server.connection()
        opened, events = await connection.open_thread(
            StartThread(
                cwd=str(tmp_path),
                model="any",
                sandbox="danger-full-access",
                config=route.config(),
            ),
            helpful,
        )
        await connection.call(say(opened.thread.id))
        command = await number_in(tmp_path / "pid")
        pid = server.pid
        assert pid is not None
        await server.close()
        assert await wait_until_gone(pid)
        assert await wait_until_gone(command)
        with pytest.raises(Disconnected, match="was closed"):
            await to_the_end(events)
        with pytest.raises(Disconnected, match="was closed"):
            await server.connection()


async def test_killing_treadle_leaves_no_real_server_behind(tmp_path: Path):
    sleeping = Call(name="exec_command", arguments={"cmd": "sleep 4000"})
    async with FakeServer(Script(answers=(Said(calls=(sleeping,)),))) as fake:
        treadle = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "tests.harness.codex.treadle_process",
                str(tmp_path),
                fake.base_url,
            ),
            stdout=asyncio.subprocess.PIPE,
        )
        assert treadle.stdout is not None
        pid = int(await treadle.stdout.readline())
        treadle.kill()
        await treadle.wait()
        assert await wait_until_gone(pid)


async def test_what_a_killed_server_left_in_a_session_of_its_own_is_ended(tmp_path: Path):
    binary = tmp_path / "server"
    binary.write_text(
        "#!/bin/sh\nsetsid sh -c 'echo $$ > pid; exec sleep 4000' &\nexec sleep 4000\n"
    )
    binary.chmod(0o755)
    environment = {"PATH": os.environ["PATH"]}
    launch = ServerCommand(binary=binary, environment=environment, directory=tmp_path)
    process = await ServerProcess.start(launch)
    stray = await number_in(tmp_path / "pid")
    process.child.kill()
    await process.end()
    assert await wait_until_gone(stray)


async def test_the_server_is_in_a_session_of_its_own(tmp_path: Path):
    async with serving(AppServer(scripted_command(AppScript(), tmp_path))) as server:
        await server.connection()
        assert server.pid is not None
        assert os.getsid(server.pid) == server.pid != os.getsid(0)


async def test_it_starts_when_it_is_needed_and_once_for_all_who_need_it(tmp_path: Path):
    async with serving(AppServer(scripted_command(AppScript(), tmp_path))) as server:
        assert (server.pid, server.generation) == (None, 0)
        connections = await asyncio.gather(*(server.connection() for _ in range(10)))
        assert {id(each) for each in connections} == {id(connections[0])}
        assert server.generation == 1
    hello = received_messages(tmp_path, "initialize")
    assert [message["params"]["clientInfo"]["name"] for message in hello] == ["treadle"]
    assert hello[0]["params"]["capabilities"]["experimentalApi"] is True


async def test_a_starter_that_is_cancelled_leaves_the_start_to_the_next(tmp_path: Path):
    async with serving(AppServer(scripted_command(AppScript(), tmp_path))) as server:
        first = asyncio.create_task(server.connection())
        second = asyncio.create_task(server.connection())
        for _ in range(1000):
            await asyncio.sleep(0.001)
            if server.generation:
                break
        first.cancel()
        connection = await second
        assert (connection.generation, connection.ended) == (2, None)
        assert first.cancelled()


@pytest.mark.parametrize(("version", "what"), [("0.159.9", "older"), ("0.181.0", "newer")])
async def test_a_version_outside_the_range_is_told_and_not_kept(tmp_path: Path, version, what):
    async with serving(AppServer(scripted_command(AppScript(version=version), tmp_path))) as server:
        with pytest.raises(
            UnsupportedCodex, match=f"Codex {version} is {what} than Treadle supports"
        ):
            await server.connection()
        assert server.pid is None


async def test_a_binary_that_is_not_there_is_told(tmp_path: Path):
    async with serving(AppServer(ServerCommand(binary=tmp_path / "codex"))) as server:
        with pytest.raises(CodexMissing, match=r"cannot run .*codex'"):
            await server.connection()


@pytest.mark.parametrize("moment", ["before", "done", "after"])
async def test_a_server_that_dies_at_a_request_is_replaced(tmp_path: Path, moment):
    fault = AppFault(method="turn/start", kind="die", nth=1, moment=moment, status=3)
    script = AppScript(faults=(fault,), stderr="something is amiss, key=hush")
    launch = scripted_command(script, tmp_path)
    launch = msgspec.structs.replace(launch, secrets=("amiss",))
    async with serving(AppServer(launch)) as server:
        connection = await server.connection()
        opened, events = await connection.open_thread(StartThread(), helpful)
        await asyncio.gather(connection.call(say(opened.thread.id)), return_exceptions=True)
        with pytest.raises(AppServerDied) as died:
            await to_the_end(events)
        assert (died.value.status, died.value.last_stderr) == (3, "something is …, key=…")
        again = await server.connection()
        resumed = await again.call(ResumeThread(thread_id=opened.thread.id))
        assert (resumed.thread.id, again.generation) == (opened.thread.id, 2)


async def test_the_complaint_of_a_server_that_died_is_no_line_of_its_backtrace(tmp_path: Path):
    trace = "Stack backtrace:\n   0: <unknown>\n             at ./src/main.rs:7\n   1: main"
    said = f"\x1b[31mERROR\x1b[0m the home is not there\n\n{trace}"
    fault = AppFault(method="initialize", kind="die", status=1)
    launch = scripted_command(AppScript(faults=(fault,), stderr=said), tmp_path)
    async with serving(AppServer(launch)) as server:
        with pytest.raises(AppServerDied) as died:
            await server.connection()
    assert died.value.last_stderr == "ERROR the home is not there"


def test_the_message_of_a_death_says_how_and_what_was_last_heard():
    assert str(AppServerDied(-9, "boom")) == snapshot(
        "the Codex app-server was killed by signal 9; the next turn starts another; "
        "it last said: boom"
    )
    assert str(AppServerDied(1)) == snapshot(
        "the Codex app-server ended with status 1; the next turn starts another"
    )


async def test_a_server_that_dies_again_and_again_is_left_alone_for_a_while(tmp_path: Path):
    now = 0.0
    fault = AppFault(method="initialize", kind="die", status=1)
    launch = scripted_command(AppScript(faults=(fault,), stderr="no luck"), tmp_path)
    server = AppServer(
        launch, restart_policy=no_waiting(limit=2, pause_seconds=60.0), clock=lambda: now
    )
    async with serving(server):
        for _ in range(2):
            with pytest.raises(AppServerDied):
                await server.connection()
        for _ in range(2):
            with pytest.raises(
                AppServerUnavailable,
                match=r"died 2 times in a row \(no luck\); run `treadle doctor`, and try again",
            ):
                await server.connection()
        assert server.generation == 2
        now = 61.0
        with pytest.raises(AppServerDied):
            await server.connection()
        assert server.generation == 3


async def test_restarts_wait_longer_and_longer_and_a_steady_life_forgives(tmp_path: Path):
    now = 0.0
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    restarts = RestartPolicy(limit=9, backoff=Backoff(base=1.0, jitter=0.0, sleep=wait))
    fault = AppFault(method="thread/start", kind="die")
    launch = scripted_command(AppScript(faults=(fault,)), tmp_path)
    async with serving(AppServer(launch, restart_policy=restarts, clock=lambda: now)) as server:
        for lifetime in (0.0, 0.0, 0.0, 11.0, 0.0):
            connection = await server.connection()
            now += lifetime
            with pytest.raises(AppServerDied):
                await connection.call(StartThread())
    assert waits == [1.0, 2.0]


async def test_a_silent_start_is_given_up(tmp_path: Path):
    launch = scripted_command(
        AppScript(faults=(AppFault(method="initialize", kind="silence"),)), tmp_path
    )
    async with serving(AppServer(launch, start_seconds=0.2)) as server:
        with pytest.raises(RequestTimeout, match="did not answer 'initialize' within"):
            await server.connection()
        assert server.pid is None


async def test_silence_overload_garbage_and_a_lacking_method_are_survived(tmp_path: Path):
    script = AppScript(
        lacks=("thread/inject_items",),
        faults=(
            AppFault(method="thread/start", kind="garbage", nth=1),
            AppFault(method="thread/archive", kind="silence"),
            AppFault(method="thread/read", kind="overload", nth=1),
            AppFault(method="thread/unsubscribe", kind="overload"),
        ),
    )

    async def at_once(_: float) -> None: ...

    async with serving(AppServer(scripted_command(script, tmp_path))) as server:
        connection = await server.connection()
        connection.backoff = replace(connection.backoff, retries=2, sleep=at_once)
        opened, _ = await connection.open_thread(StartThread(), helpful)
        named = {"threadId": opened.thread.id}
        with pytest.raises(RequestTimeout, match="'thread/archive'"):
            await connection.request("thread/archive", named, dict, seconds=0.05)
        await connection.call(ReadThread(thread_id=opened.thread.id))
        with pytest.raises(Overloaded):
            await connection.request("thread/unsubscribe", named, dict)
        item = Raw(b'{"type":"message","role":"user","content":[]}')
        with pytest.raises(UnknownMethod):
            await connection.call(InjectItems(thread_id=opened.thread.id, items=(item,)))
        assert connection.ignored == IgnoredMessages(
            malformed=3, batches=1, unknown_notifications=1, unknown_results=1
        )
    assert len(received_messages(tmp_path, "thread/read")) == 2
    assert len(received_messages(tmp_path, "thread/unsubscribe")) == 3


async def test_a_scripted_turn_tells_what_a_real_one_does(tmp_path: Path):
    turns = (
        TurnScript(
            steps=(AppStep(reasoning="hm", tool="lookup", arguments={"q": 1}), AppStep(text="a"))
        ),
        TurnScript(steps=(AppStep(command="ls"), AppStep(compact=True), AppStep(text="b"))),
        TurnScript(fail="contextWindowExceeded"),
        TurnScript(steps=(AppStep(wait=True), AppStep(text="c"))),
        TurnScript(steps=(AppStep(wait=True),)),
    )
    async with serving(AppServer(scripted_command(AppScript(turns=turns), tmp_path))) as server:
        connection = await server.connection()
        opened, events = await connection.open_thread(
            StartThread(experimental_raw_events=True), helpful
        )
        thread = opened.thread.id
        ends: list[str] = []
        told: list[str] = []
        for number in range(5):
            turn = (await connection.call(say(thread, f"question {number}"))).turn.id
            async for event in events:
                if isinstance(event, TurnStartedNotification) and number == 3:
                    more = (TextInput(text="more"),)
                    await connection.call(
                        SteerTurn(thread_id=thread, expected_turn_id=turn, input=more)
                    )
                if isinstance(event, TurnStartedNotification) and number == 4:
                    await connection.call(InterruptTurn(thread_id=thread, turn_id=turn))
                if isinstance(event, ItemCompletedNotification):
                    told.append(msgspec.json.decode(event.item)["type"])
                if isinstance(event, TurnCompletedNotification):
                    ends.append(event.turn.error.kind if event.turn.error else event.turn.status)
                    break
        await connection.call(CompactThread(thread_id=thread))
        await to_the_end(events)
        fork = await connection.call(ForkThread(thread_id=thread, exclude_turns=True))
        read = await connection.call(ReadThread(thread_id=thread, include_turns=True))
    assert ends == ["completed", "completed", "contextWindowExceeded", "completed", "interrupted"]
    assert [kind for kind in told if kind != "userMessage"] == [
        "reasoning",
        "dynamicToolCall",
        "agentMessage",
        "commandExecution",
        "contextCompaction",
        "agentMessage",
        "agentMessage",
    ]
    assert fork.thread.id != thread
    assert len(read.thread.turns) == 6
    answers = [message["result"] for message in received_messages(tmp_path) if "result" in message]
    assert answers == [
        {"contentItems": [{"type": "inputText", "text": "found"}], "success": True},
        {"decision": "accept"},
    ]
