"""A call to a local stdio server through Treadle beside the same call through the SDK alone.

Both talk to the same little server, in rounds that are interleaved. A call of Treadle's is all
that a turn does for it: dispatch, permission, limits, result. Then the first request of a thread
without servers beside that of one with five, whose tools are known: it must not wait for them.
Medians and their ratio are printed.

    python -m benchmarks.mcp [--rounds 200] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from treadle import Thread, ToolOptions
from treadle.core.items import FunctionCall
from treadle.harness.events import StepStarted
from treadle.mcp import McpServer, McpServers, McpServerSettings
from treadle.sandbox.approvals import Approvals
from treadle.sandbox.policy import SandboxPolicy
from treadle.store.memory import MemoryStore
from treadle.testing.script import Answer, Script
from treadle.testing.scripted import ScriptedModel
from treadle.thread.stored_bytes import StoredBytes
from treadle.tools.contract import ToolContext
from treadle.tools.dispatch import Dispatch, tools_by_name
from treadle.tools.local import LocalExecutor

SERVER = """
import json, sys
for line in sys.stdin:
    told = json.loads(line)
    if "id" not in told:
        continue
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    result = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "echo", "version": "1"}},
        "tools/list": {"tools": [{"name": "echo", "inputSchema": schema}]},
        "tools/call": {"content": [{"type": "text", "text": "hi"}]},
    }.get(told["method"])
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": told["id"], **answer}) + "\\n")
    sys.stdout.flush()
"""


def server(place: Path, name: str) -> McpServer:
    script = place / "server.py"
    script.write_text(SERVER)
    own = McpServerSettings(
        command=sys.executable, args=("-S", "-E", str(script)), approval="approve"
    )
    return McpServer(name=name, settings=own)


async def calls(place: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of single calls, by who made them."""
    own = server(place, "echo")
    command, args = own.settings.command or "", list(own.settings.args)
    store = MemoryStore()
    thread = (await store.create(cwd=str(place))).id
    context = ToolContext(
        thread=thread,
        cwd=place,
        policy=SandboxPolicy(),
        approval="never",
        approvals=Approvals(place),
        executor=LocalExecutor(home=place),
        blobs=StoredBytes(store, thread),
        ask_approval=_nobody,
        show_progress=lambda _: None,
        output_limit=40_000,
    )
    took: dict[str, list[float]] = {"sdk": [], "treadle": []}
    alone = StdioServerParameters(command=command, args=args)
    async with McpServers([own], cwd=place) as servers, Client(alone, mode="legacy") as client:
        await servers.prepare()
        tools = tools_by_name(servers.offer().direct)
        for number in range(rounds + 20):
            began = time.perf_counter()
            await client.call_tool("echo", {"text": "hi"})
            middle = time.perf_counter()
            dispatch = Dispatch(tools, context)
            item = FunctionCall(name="mcp__echo__echo", arguments='{"text":"hi"}', call_id="c")
            dispatch.submit(item)
            dispatch.finish()
            outputs = [each.result.output async for each in dispatch.results()]
            ended = time.perf_counter()
            assert outputs == ["hi"], outputs
            if number >= 20:  # the first ones warm both up
                took["sdk"].append(middle - began)
                took["treadle"].append(ended - middle)
    return took


async def _nobody(_: Any) -> Any:
    raise AssertionError("nobody is asked")


async def first_requests(place: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds from the input of a turn to its first request, without servers and with five."""
    five = [server(place, f"s{number}") for number in range(5)]
    async with McpServers(five, home=place / "home", cwd=place) as servers:
        await servers.prepare()
    took: dict[str, list[float]] = {"none": [], "five": []}
    for _ in range(rounds):
        for label, times in took.items():
            async with McpServers(five, home=place / "home", cwd=place) as servers:
                mcp = servers if label == "five" else None
                times.append(await _first_request(place, ToolOptions(mcp=mcp)))
    return took


async def _first_request(place: Path, tools: ToolOptions) -> float:
    model = ScriptedModel(Script(answers=(Answer(text="hi"),)))
    async with Thread.open(model=model, home=place / "home", cwd=place, tools=tools) as thread:
        began, took = time.perf_counter(), 0.0
        async for event in thread.run("hello"):
            if isinstance(event, StepStarted):
                took = time.perf_counter() - began
    await model.close()
    return took


def lines(results: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    for what, (base, ours) in {"a call": ("sdk", "treadle"), "first": ("none", "five")}.items():
        one, other = (statistics.median(results[what][each]) * 1000 for each in (base, ours))
        yield f"{what}: {base} {one:.2f} ms, {ours} {other:.2f} ms, ratio {other / one:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "home").mkdir()
        results = {
            "a call": asyncio.run(calls(place, asked.rounds)),
            "first": asyncio.run(first_requests(place, max(asked.rounds // 10, 3))),
        }
    print(json.dumps(results) if asked.json else "\n".join(lines(results)))


if __name__ == "__main__":
    main()
