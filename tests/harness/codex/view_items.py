"""What a request to the model must hold, by the log alone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from tests.engines.scenes import engine_message
from tests.harness.codex.scenes import Items, request_items
from treadle import Thread
from treadle.context.compose import item_draft
from treadle.context.row import Row
from treadle.core.entries import Draft
from treadle.core.items import InputText, Message
from treadle.engines.values import AssembleParams, AssembleResult, recall_item
from treadle.harness.codex.app_server import AppServer
from treadle.harness.events import Event, HarnessReported

__all__ = [
    "PICTURE",
    "add_weather_skill",
    "compacting",
    "continues",
    "kill_server",
    "raw",
    "recalling",
    "shows_view",
    "standing",
    "start_reasons",
    "thread_reasons",
    "view_contents",
    "without_ids",
    "without_standing",
]

SURROUNDINGS = {"agents_md", "collaboration_mode", "environment", "model", "permissions"}
STANDING = {"developer_instructions", "guidance"}
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBg"
    "AAAABQABpfZFQAAAAABJRU5ErkJggg=="
)
"""One pixel."""
SKILL = "---\nname: weather\ndescription: How to tell the weather.\n---\nLook out of the window.\n"
OWN = ("<skills_instructions>", "<permissions instructions>")
ANSWERS = ("reasoning", "function_call", "custom_tool_call")


def view_contents(thread: Thread, *, leave: set[str] = SURROUNDINGS | STANDING) -> Items:
    """The rows of the view without ids, and without the fragments in `leave`."""
    kept = [_without(row, leave) for row in thread.view.rows]
    return [item for item in kept if item is not None]


def without_ids(items: Items) -> Items:
    """Items without the names that somebody gave them, and without what is not there."""
    return [
        {name: value for name, value in item.items() if name != "id" and value is not None}
        for item in items
    ]


def shows_view(thread: Thread, request: Any, **how: Any) -> bool:
    """Whether a request holds the items of the view, in order, up to what it was answered.

    To be asked when the answer is in the log and before the next turn.
    """
    said, view = (
        without_ids(request_items(without_standing(request))),
        without_ids(view_contents(thread, **how)),
    )
    assert view[: len(said)] == said
    assert said, "the request says nothing"
    assert all(_is_answer(item) for item in view[len(said) :])
    return True


def standing(request: Any) -> str:
    """The developer instructions of a request: what stands before Codex's own context."""
    first = request.payload["input"][1]
    parts = [part["text"] for part in first["content"]] if first.get("role") == "developer" else []
    return "\n".join(text for text in parts if not text.startswith(OWN))


def without_standing(request: Any) -> Any:
    """The request as if its thread had been started without developer instructions."""
    base, first, *rest = request.payload["input"]
    if standing(request):
        own = [part for part in first["content"] if part["text"].startswith(OWN)]
        first = {**first, "content": own}
    return SimpleNamespace(payload={"input": [base, first, *rest]})


def continues(request: Any, former: Any) -> bool:
    """Whether a request begins with the bytes of the former, tools and input alike."""
    one, other = former.payload, request.payload
    assert _bytes(other["tools"]) == _bytes(one["tools"])
    assert _bytes(other["input"][: len(one["input"])]) == _bytes(one["input"])
    return len(other["input"]) > len(one["input"])


async def kill_server(server: AppServer) -> None:
    """Kill an app-server, and see that it is dead."""
    connection = await server.connection()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await connection.wait_ended()


def add_weather_skill(place: Path) -> None:
    """Give the Codex of a stage a skill: ``weather``."""
    skill = place / "treadle" / "codex" / "home" / "skills" / "weather"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)


def compacting(*texts: str, **how: Any) -> Callable[[AssembleParams], AssembleResult]:
    """An engine's answer: some records of its own, and the newest input."""

    def compact(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=(*map(engine_message, texts), given.items[-1]), **how)

    return compact


def raw(thread: Thread, **item: Any) -> Draft:
    """A row that another writer left in the log."""
    draft = item_draft(Message(role="user", content=(InputText("x"),)), turn=thread.log.turn)
    return msgspec.structs.replace(draft, body=msgspec.json.encode(item))


def start_reasons(events: Sequence[Event]) -> list[str]:
    """Why Codex threads were started, in order."""
    reports = [event for event in events if isinstance(event, HarnessReported)]
    return [report.reason for report in reports if report.what == "thread.started"]


def thread_reasons(events: Sequence[Event]) -> list[str]:
    """Why Codex threads were started, or used again."""
    return [event.reason for event in events if isinstance(event, HarnessReported)]


def _without(row: Row, leave: set[str]) -> dict[str, Any] | None:
    item: dict[str, Any] = json.loads(row.body)
    left = {mark.part for mark in row.fragments if mark.id in leave}
    if item["type"] != "message" or not left:
        return item
    content = [part for at, part in enumerate(item["content"]) if at not in left]
    return {**item, "content": content} if content else None


def _is_answer(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or item["type"] in ANSWERS


def _bytes(value: object) -> bytes:
    return json.dumps(value).encode()


def recalling(text: str) -> Any:
    """An engine's answer: what is there, with a memory before the newest input."""

    def recall(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=(*given.items[:-1], recall_item(text), given.items[-1]))

    return recall
