"""Values of the log as JSON objects with stable keys.

Owns those keys. Invariant: a key that was once printed keeps its name and meaning.
"""

from __future__ import annotations

import json
from typing import NoReturn

from msgspec import Raw

from ..core.entries import Entry, Flags
from .contract import ThreadInfo

__all__ = ["entry_json", "flag_names", "thread_json"]


def thread_json(info: ThreadInfo) -> dict[str, object]:
    """Return a thread; times are milliseconds since 1970."""
    return {
        "id": info.id,
        "root": info.root,
        "parent": info.parent,
        "cut": info.cut,
        "cwd": info.cwd,
        "title": info.title,
        "created": info.created,
        "updated": info.updated,
        "turns": info.turns,
        "entries": info.last,
    }


def entry_json(entry: Entry, *, visible: bool) -> dict[str, object]:
    """Return an entry, with its item or its control as it is stored."""
    return {
        "seq": entry.seq,
        "kind": entry.kind,
        "turn": entry.turn,
        "step": entry.step,
        "time": entry.time,
        "tokens": entry.tokens,
        "flags": flag_names(entry.flags),
        "visible": visible,
        "thread": entry.thread,
        "id": entry.id,
        "source_id": entry.source_id,
        "fragments": entry.fragments,
        "provenance": entry.provenance,
        "events": entry.events,
        "origin": entry.origin,
        "item" if entry.kind == "item" else "control": _on_one_line(entry.body),
    }


def flag_names(flags: Flags) -> list[str]:
    """Return the names of flags, in lower case."""
    return [flag.name.lower() for flag in Flags if flag & flags and flag.name]


def _on_one_line(body: bytes) -> Raw | str:
    """Return the JSON in `body`; the text when it is not JSON."""
    try:
        json.loads(body, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")
    # In JSON a raw line break can only stand between tokens.
    return Raw(body.replace(b"\n", b" ").replace(b"\r", b" "))


def _no_json(name: str) -> NoReturn:
    """Refuse NaN and infinities: Python reads them, other programs do not."""
    raise ValueError(f"{name} is no JSON")
