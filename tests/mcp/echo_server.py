"""A stdio MCP server on bare JSON-RPC, fast to start, whose behaviour a JSON file describes.

The file can be changed while it runs: ``tools`` (a list), ``modern`` (whether it speaks the
stateless protocol), ``instructions``, and what single tools do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

PLAN = sys.argv[1]
NEXT = {"id": 10_000}
VISITED: list[Any] = []


def plan() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(PLAN).read_text(encoding="utf-8"))
    return told


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, **more: object) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


def tools(told: dict[str, Any]) -> list[Any]:
    return [tool(each) if isinstance(each, str) else each for each in told.get("tools", ["echo"])]


def call(id_: object, params: dict[str, Any], told: dict[str, Any]) -> None:  # noqa: C901, PLR0912, PLR0915
    name, given = params["name"], params.get("arguments") or {}
    does = told.get("does", {}).get(name, name)
    token = (params.get("_meta") or {}).get("progressToken")
    result: dict[str, Any] = {"content": [{"type": "text", "text": given.get("text", "")}]}
    match does:
        case "die":
            os._exit(3)
        case "hang":
            return
        case "slow":
            time.sleep(told.get("seconds", 1))
        case "progress":
            for done in (1, 2):
                params = {"progressToken": token, "progress": done, "total": 2, "message": "at it"}
                send({"method": "notifications/progress", "params": params})
        case "fail":
            result["isError"] = True
        case "error":
            send({"id": id_, "error": {"code": -32603, "message": "the database is gone"}})
            return
        case "huge":
            result["content"][0]["text"] = "x" * told["bytes"]
        case "structured":
            result["structuredContent"] = told["structured"]
        case "image":
            result["content"] = [{"type": "image", "mimeType": "image/png", "data": given["text"]}]
        case "environ":
            result["content"][0]["text"] = json.dumps(dict(os.environ))
        case "pid":
            result["content"][0]["text"] = str(os.getpid())
        case "changes":
            send({"method": "notifications/tools/list_changed"})
        case "task":
            facts = {"taskId": "t-1", "status": "working", "pollIntervalMs": 20}
            send({"id": id_, "result": {"resultType": "task", **facts}})
            return
        case "elicit" if told.get("first_visit") and not VISITED:
            want_visit(id_, told["first_visit"])
            return
        case "elicit" if told.get("first_visit"):
            result["content"][0]["text"] = "welcome"
        case "elicit" if told.get("modern") and "inputResponses" not in params:
            wanted = {"q": {"method": "elicitation/create", "params": told["elicit"]}}
            state = {"inputRequests": wanted, "requestState": "half way"}
            send({"id": id_, "result": {"resultType": "input_required", **state}})
            return
        case "elicit" if told.get("modern"):
            assert params["requestState"] == "half way"
            result["content"][0]["text"] = json.dumps(params["inputResponses"]["q"])
        case "elicit":
            answer = ask(told["elicit"])
            result["content"][0]["text"] = json.dumps(answer)
        case "deep":
            nested = "[" * 5000 + "]" * 5000
            line = f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"result":{{"x":{nested}}}}}'
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            return
    if told.get("modern"):
        result["resultType"] = "complete"
    send({"id": id_, "result": result})


def want_visit(id_: object, data: Any) -> None:
    """Do nothing before the user has been somewhere."""
    VISITED.append(id_)
    send({"id": id_, "error": {"code": -32042, "message": "visit first", "data": data}})


def ask(params: dict[str, Any]) -> dict[str, Any]:
    """Ask the user, as servers with a handshake do."""
    NEXT["id"] += 1
    send({"id": NEXT["id"], "method": "elicitation/create", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == NEXT["id"]:
            return dict(message.get("result") or message["error"])
    return {}


def answer(message: dict[str, Any]) -> None:  # noqa: C901, PLR0912
    told, id_, method = plan(), message.get("id"), message.get("method")
    params = message.get("params") or {}
    if method == "notifications/cancelled":
        Path(PLAN).with_suffix(".cancelled").write_text(json.dumps(params), encoding="utf-8")
    if id_ is None or method is None:
        return
    able = {"tools": {"listChanged": True}, **told.get("capabilities", {})}
    info = {"name": "echo", "version": "1"}
    modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    extra = modern if told.get("modern") else {}
    match method:
        case "server/discover" if told.get("modern"):
            found = {"supportedVersions": ["2026-07-28"], "capabilities": able}
            send(
                {"id": id_, "result": {**found, "instructions": told.get("instructions"), **extra}}
            )
        case "initialize" if not told.get("modern"):
            result = {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info}
            send({"id": id_, "result": {**result, "instructions": told.get("instructions", "")}})
        case "tools/list" if told.get("list_error"):
            send({"id": id_, "error": {"code": -32603, "message": "not now"}})
        case "tools/list":
            time.sleep(told.get("list_seconds", 0))
            send({"id": id_, "result": {"tools": tools(told), **extra}})
        case "tools/call":
            call(id_, params, told)
        case "resources/list":
            send({"id": id_, "result": {"resources": told.get("resources", []), **extra}})
        case "resources/templates/list":
            send({"id": id_, "result": {"resourceTemplates": [], **extra}})
        case "resources/read":
            read = {"uri": params["uri"], "text": told["texts"][params["uri"]]}
            send({"id": id_, "result": {"contents": [read], **extra}})
        case "tasks/get":
            send({"id": id_, "result": {"resultType": "complete", **told["task"]}})
        case "prompts/list":
            send({"id": id_, "result": {"prompts": told.get("prompts", []), **extra}})
        case "prompts/get":
            words = {"type": "text", "text": json.dumps(params)}
            messages = [{"role": "user", "content": words}]
            result = {"messages": messages, **({"resultType": "complete"} if extra else {})}
            send({"id": id_, "result": result})
        case _:
            send({"id": id_, "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    if plan().get("dead"):
        sys.stderr.write("no licence\n")
        raise SystemExit(4)
    time.sleep(plan().get("start_seconds", 0))
    for line in sys.stdin:
        answer(json.loads(line))
