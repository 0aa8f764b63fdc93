"""Claude Code: transcripts of its sessions and of their agents.

Owns what each record becomes. Invariant: thinking is stored as the block it was,
signature and all, and can go back to Anthropic only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..core.entries import FragmentMark, Origin
from ..core.items import FunctionCall, FunctionCallOutput, InputText, Message, OutputText, Part
from ..core.wire import json_bytes
from ..models.formats.messages import THINKING, reasoning_item
from ..prompt.legacy import LegacyTag
from ..prompt.registry import Registry
from .claude_tree import Transcript
from .lines import object_of, read_records
from .pieces import (
    Piece,
    contextual,
    item_piece,
    kept,
    milliseconds,
    notice,
    parts_of,
    text_in,
    user_piece,
)
from .sessions import Session, Spot, clean_id
from .tally import Tally

__all__ = ["ClaudeFormat"]

_TAGS = tuple(
    LegacyTag(tag, "user")
    for tag in (
        *("system-reminder", "local-command-caveat", "local-command-stdout"),
        *("local-command-stderr", "bash-input", "bash-stdout", "bash-stderr", "task-notification"),
        *("ide_opened_file", "ide_selection", "ide_diagnostics", "user-memory-input"),
    )
)
_OPENINGS = ("<command-name>", "<command-message>", "[Request interrupted by user")


class ClaudeFormat:
    """Reads transcripts; agents that stand in the same file become threads of their own."""

    name = "claude"
    agent = "Claude Code"

    def survey(self, path: Path, tally: Tally) -> list[Session]:
        """The conversations of a transcript."""
        reading = Transcript(tally, path.stem)
        for line, record in read_records(path, tally):
            reading.add(line, record)
        return list(reading.sessions())

    def pieces(self, data: bytes, spot: Spot, registry: Registry) -> list[Piece]:
        """What a record becomes."""
        record = object_of(data)
        match record:
            case {"type": "user", "message": {"content": content}}:
                if record.get("isCompactSummary") and not spot.alone:
                    return []
                return _said(content, registry, meta=_is_meta(record))
            case {"type": "assistant", "message": {"content": content} as message}:
                if record.get("isApiErrorMessage"):
                    text = text_in(content)
                    return [notice(text, "claude", "error")] if isinstance(text, str) else []
                return _answered(content, message, registry)
            case {"type": "system", "content": str(text)} if text.strip():
                return [notice(text, "claude")]
        return []

    def time(self, data: bytes) -> int | None:
        """When a record was made."""
        return milliseconds(object_of(data).get("timestamp"))


def _is_meta(record: dict[str, Any]) -> bool:
    return record.get("isMeta") is True or record.get("isCompactSummary") is True


def _said(content: object, registry: Registry, *, meta: bool) -> list[Piece]:
    """What a user, a tool or the harness said."""
    pieces: list[Piece] = []
    blocks: list[Any] = content if isinstance(content, list) else [content]
    results = [block for block in blocks if _is_result(block)]
    for block in results:
        output = text_in(block.get("content", ""))
        call_id = str(block.get("tool_use_id", ""))
        item = FunctionCallOutput(call_id=call_id, output=output)
        pieces.append(item_piece(item, registry))
    strange: list[dict[str, Any]] = []
    rest = [block for block in blocks if not _is_result(block)]
    parts = parts_of(rest if isinstance(content, list) else content, strange.append)
    if parts:
        pieces.append(_user(parts, registry, meta=meta))
    return [*pieces, *(kept(json_bytes(block), "claude") for block in strange)]


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _user(parts: tuple[Part, ...], registry: Registry, *, meta: bool) -> Piece:
    """A user's message; what the harness put beside their words is marked as such."""
    piece = user_piece(parts, registry)
    told = [number for number, part in enumerate(parts) if _is_told(part)]
    if meta or len(told) == len(parts):
        return Piece(contextual(piece.draft))
    marks = tuple(FragmentMark("imported", part=number) for number in told)
    return Piece(msgspec.structs.replace(piece.draft, fragments=marks), piece.place)


def _is_told(part: Part) -> bool:
    if not isinstance(part, InputText):
        return False
    opens = part.text.lstrip().startswith(_OPENINGS)
    return opens or any(tag.matches(part.text) for tag in _TAGS)


def _answered(content: object, message: dict[str, Any], registry: Registry) -> list[Piece]:
    origin = Origin(
        provider="anthropic",
        api="messages",
        model=clean_id(message.get("model")) or "",
        harness="claude-code",
    )
    blocks: Iterable[object] = content if isinstance(content, list) else [content]
    return [piece for block in blocks for piece in _block(block, origin, registry)]


def _block(block: Any, origin: Origin, registry: Registry) -> Iterator[Piece]:
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            if text.strip():
                item = Message(role="assistant", content=(OutputText(text=text),))
                yield item_piece(item, registry, origin)
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            arguments = json_bytes(block.get("input", {})).decode()
            call = FunctionCall(name=name, arguments=arguments, call_id=call_id)
            yield item_piece(call, registry, origin)
        case {"type": kind} if kind in THINKING:
            yield item_piece(reasoning_item(block), registry, origin)
        case dict():
            yield kept(json_bytes(block), "claude")
