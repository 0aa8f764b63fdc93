"""What of a request is Codex's own, and therefore neither recorded nor compared.

Its instructions, tools, context and prompts are its maker's words; what we told it stands
in the recording by itself. Invariant: none of its sentences enters a recording.
"""

from __future__ import annotations

from typing import Any

__all__ = ["without_codex", "without_prefix"]

_INSTRUCTIONS = "You are Codex"
_MARKS = ("<skills_instructions>", "<permissions", "<environment_context>", "# AGENTS.md")
_SUMMARY = "You are performing a CONTEXT CHECKPOINT"
_PREFIX = "Another language model started to solve this problem"


def without_codex(body: dict[str, Any]) -> dict[str, Any]:
    """A request of Codex's with a word in the place of each thing that is its own."""
    kept = {name: each for name, each in body.items() if name != "client_metadata"}
    kept["tools"] = [tool.get("name", tool["type"]) for tool in body.get("tools", ())]
    kept["input"] = [_item(item) for item in body["input"]]
    if "instructions" in kept:
        kept["instructions"] = "(Codex's own)"
    return kept


def _item(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") != "message" or item.get("role") == "assistant":
        return item
    return {**item, "content": [_part(part) for part in item["content"]]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    text = part.get("text", "")
    for mark in (_INSTRUCTIONS, *_MARKS, _SUMMARY):
        if text.startswith(mark):
            return {**part, "text": f"(Codex's own: {mark.strip('<>')})"}
    return part


def without_prefix(value: Any) -> Any:
    """Whatever was recorded, without the sentence that Codex puts before a summary."""
    if isinstance(value, str) and value.startswith(_PREFIX):
        return "(Codex's own prefix)\n" + value.partition("\n")[2]
    if isinstance(value, list):
        return [without_prefix(each) for each in value]
    if isinstance(value, dict):
        return {key: without_prefix(each) for key, each in value.items()}
    return value
