"""Detection: which agent wrote a file, told from its first records.

Owns the signs by which formats are known. Invariant: names of files count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from .lines import read_lines
from .tally import Tally

__all__ = ["FORMATS", "Format", "detect"]

Format: TypeAlias = Literal["codex", "claude", "openclaw", "jsonl"]
FORMATS: tuple[Format, ...] = ("codex", "claude", "openclaw", "jsonl")

_LOOKED_AT = 50
_CODEX = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
)
_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output"})
_ASIDE = frozenset({"summary", "file-history-snapshot", "queue-operation"})


def detect(path: Path) -> Format | None:
    """The format of a file; None where no record among the first tells."""
    for record in islice(_records(path), _LOOKED_AT):
        if (found := _told_by(record)) is not None:
            return found
    return None


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in read_lines(path, Tally()):
        try:
            record = msgspec.json.decode(line.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _told_by(record: Mapping[str, Any]) -> Format | None:
    kind = record.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in _CODEX and "payload" in record:
        return "codex"
    if "parentUuid" in record or (kind in _ASIDE and not record.keys() & {"role", "thread"}):
        return "claude"
    if kind == "session" and "id" in record:
        return "openclaw"
    if isinstance(record.get("role"), str) and record.keys() & {"content", "item"} and not kind:
        return "jsonl"
    if "instructions" in record and "id" in record and not kind:
        return "codex"
    if kind in _ITEMS and not record.keys() & {"parentId", "message"}:
        return "codex"
    return None
