"""Sent requests: what a request in the Responses format contains, for drivers that check it.

Invariant: roles and texts come in the order of the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from ....core.loopback import LoopbackRequest

__all__ = ["extends", "find_tool", "find_words", "outputs", "request_lines"]


def request_lines(request: LoopbackRequest) -> list[tuple[str, str]]:
    """Return roles and texts, the instructions included; of other items type and text."""
    lines = [("instructions", str(request.payload.get("instructions", "")))]
    for item in request.payload["input"]:
        if item["type"] == "message":
            text = "\n".join(map(_words, item["content"]))
            lines.append((item["role"], text))
        else:
            lines.append((item["type"], str(item.get("output", item.get("arguments", "")))))
    return lines


def find_words(request: LoopbackRequest, words: Sequence[str]) -> list[str]:
    """Return who says which of `words`, in order, as often as they occur."""
    return [
        f"{role}: {word}"
        for role, text in request_lines(request)
        for _, word in sorted((place, word) for word in words for place in _places(text, word))
    ]


def outputs(request: LoopbackRequest) -> list[str]:
    """Return the outputs of calls."""
    return [text for kind, text in request_lines(request) if kind.endswith("_call_output")]


def find_tool(request: LoopbackRequest, name: str) -> dict[str, Any] | None:
    """Return a tool as the request offers it; None if it does not."""
    tools: Iterable[dict[str, Any]] = request.payload.get("tools", ())
    return next((tool for tool in tools if tool.get("name") == name), None)


def extends(requests: Sequence[LoopbackRequest]) -> bool:
    """Return whether every request starts with the one before."""
    inputs = [request.payload["input"] for request in requests]
    pairs = pairwise(inputs)
    return all(latter[: len(former)] == former for former, latter in pairs)


def _words(part: dict[str, Any]) -> str:
    return str(part.get("text", f"[{part.get('type')}]"))


def _places(text: str, word: str) -> list[int]:
    places: list[int] = []
    place = text.find(word)
    while place >= 0:
        places.append(place)
        place = text.find(word, place + len(word))
    return places
