from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from mcp import Client, types
from tests.mcp_server.scenes import ASKING, NEW, OLD, Place, accept, run_ls
from treadle.mcp_server.callers import TASKS
from treadle.testing.script import Answer, Break


class Handle(types.Result):
    """What a server answers whose call goes on."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"


class Loose(types.Result):
    model_config = ConfigDict(extra="allow")


class Tasks(ClientExtension):
    identifier = TASKS

    def claims(self) -> list[ResultClaim[Any]]:
        async def resolve(_: Handle, __: ClaimContext) -> types.CallToolResult:
            raise AssertionError("the tests poll for themselves")

        return [ResultClaim(result_type="task", model=Handle, resolve=resolve)]


class TaskRequest(types.Request[dict[str, Any], str]):
    name_param = "taskId"


async def start(client: Client, **arguments: Any) -> str:
    handle = await client.session.call_tool(
        "run", {"prompt": "do it", **arguments}, allow_claimed=True
    )
    assert isinstance(handle, Handle)
    told = handle.model_dump()
    assert told["status"] == "working"
    return str(told["taskId"])


async def ask(client: Client, method: str, task: str, **more: Any) -> dict[str, Any]:
    request = TaskRequest(method=method, params={"taskId": task, **more})
    answer = await client.session.send_request(request, Loose)
    return answer.model_dump(by_alias=True)


async def until(client: Client, task: str, *states: str) -> dict[str, Any]:
    while True:
        told = await ask(client, "tasks/get", task)
        if told["status"] in states:
            return told
        await asyncio.sleep(0.02)


async def test_a_long_turn_is_a_task_whose_end_is_asked_for(tmp_path: Path) -> None:
    async with Place(tmp_path).client(Answer(text="Done."), extensions=[Tasks()]) as client:
        told = await until(client, await start(client), "completed")
    assert told["result"]["content"] == [{"type": "text", "text": "Done."}]
    assert told["result"]["structuredContent"]["status"] == "completed"


async def test_a_task_that_asks_is_answered_by_an_update(tmp_path: Path) -> None:
    place = Place(tmp_path, ASKING)
    async with place.client(
        run_ls(), Answer(text="Done."), answering=accept(), extensions=[Tasks()]
    ) as client:
        task = await start(client)
        ((name, question),) = (await until(client, task, "input_required"))["inputRequests"].items()
        assert "touch made" in question["params"]["message"]
        answer = {"action": "accept", "content": {"decision": "once"}}
        stray = {"invented": answer, name: answer}
        await ask(client, "tasks/update", task, inputResponses=stray)
        await until(client, task, "completed")
    assert (place.project / "made").exists()


async def test_a_task_is_cancelled_and_its_thread_goes_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.client(
        Answer(text="Late.", stall=Break(events=1)), extensions=[Tasks()]
    ) as client:
        task = await start(client)
        await ask(client, "tasks/cancel", task)
        await until(client, task, "cancelled")
        await ask(client, "tasks/cancel", task)
    async with place.client(Answer(text="Now.")) as client:
        done = await client.call_tool(
            "reply", {"thread": task.partition(".")[0], "prompt": "go on"}
        )
    assert not done.is_error


async def test_the_next_server_knows_what_came_of_a_task(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="Done."), extensions=[Tasks()]) as client:
        done = await start(client)
        await until(client, done, "completed")
    async with place.client(
        Answer(text="Late.", stall=Break(events=1)), extensions=[Tasks()]
    ) as client:
        broken = await start(client)
    async with place.client(extensions=[Tasks()]) as client:
        told = await ask(client, "tasks/get", done)
        assert told["result"]["content"] == [{"type": "text", "text": "Done."}]
        assert (await ask(client, "tasks/get", broken))["status"] == "cancelled"


@pytest.mark.parametrize("task", ["", "thr_none.turn_none", "x" * 200, "../../etc/passwd"])
async def test_a_task_that_nobody_started_is_unknown(tmp_path: Path, task: str) -> None:
    async with Place(tmp_path).client(extensions=[Tasks()]) as client:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as caught:
                await ask(client, method, task)
            assert caught.value.error.code == types.INVALID_PARAMS


@pytest.mark.parametrize(("era", "code"), [(OLD, types.METHOD_NOT_FOUND), (NEW, -32021)])
async def test_who_has_not_said_that_it_takes_tasks_gets_none(
    tmp_path: Path, era: str, code: int
) -> None:
    async with Place(tmp_path).client(Answer(text="Done."), era=era) as client:
        done = await client.call_tool("run", {"prompt": "do it"})
        assert isinstance(done, types.CallToolResult)
        with pytest.raises(MCPError) as caught:
            await ask(client, "tasks/get", "thr_a.turn_b")
    assert caught.value.error.code == code
