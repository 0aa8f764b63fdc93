"""Voices: who seems to say something in a request, to a reader who is easily fooled.

Owns what counts as a marker: also with invisible characters, other widths and other line ends.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

__all__ = ["find_voice", "reads_as_marker"]

_TAGS = (
    *("environment_context", "instructions", "user_instructions", "permissions instructions"),
    *("turn_aborted", "skill", "inter_session_message", "inter_session_end", "recalled_memory"),
    *("task_result", "task_completion", "external_x"),
)
_PHRASES = r"# agents\.md instructions|approved command prefix saved:"
_LINE = r"(?:^|[\r\n\u2028\u2029\x0b\x0c\x1c-\x1e\x85])\s*"
_QUIET = ("Cf", "Cc")


def reads_as_marker(text: str) -> list[str]:
    """Return the markers that somebody sees in `text` who overlooks what cannot be seen."""
    shown = "".join(
        each
        for each in unicodedata.normalize("NFKC", text)
        if unicodedata.category(each) not in _QUIET or each in "\n\r\t\x0b\x0c\x1c\x1d\x1e\x85"
    ).lower()
    found = [tag for tag in _TAGS if _tag(tag).search(shown)]
    return found + ["a phrase"] * bool(re.search(_LINE + rf"(?:{_PHRASES})", shown))


def _tag(name: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"<\s*/?\s*{words}(?![\w.:-])")


def find_voice(body: dict[str, Any], canary: str) -> str:
    """Return who seems to say `canary` in a request; empty when it is only ever quoted."""
    for name in ("instructions", "tools"):
        if canary in json.dumps(body.get(name)):
            return f"it stands in the {name}"
    for item in body["input"]:
        if canary not in json.dumps(item, ensure_ascii=False):
            continue
        if item.get("role") not in ("user", "assistant", None):
            return f"the {item['role']} says it: {json.dumps(item)[:300]}"
        if canary in json.dumps(item.get("encrypted_content")):
            return "sealed content of somebody else was sent"
        if item.get("role") == "assistant":
            continue
        for text in _texts(item):
            if canary in text and (marker := reads_as_marker(text)):
                return f"it stands in {marker}: {text[:300]!r}"
    return ""


def _texts(item: Any) -> Iterator[str]:
    if isinstance(item, str):
        yield item
    elif isinstance(item, dict):
        for each in item.values():
            yield from _texts(each)
    elif isinstance(item, list):
        for each in item:
            yield from _texts(each)
