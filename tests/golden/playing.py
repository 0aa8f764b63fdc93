"""Playing a golden conversation, and telling where two recordings part."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from .drive import Stage, surroundings
from .recording import recorded

__all__ = ["Conversation", "difference", "play"]

Conversation: TypeAlias = Callable[[Stage], Awaitable[None]]


async def play(conversation: Conversation) -> dict[str, Any]:
    """What a conversation leaves."""
    # Of one length everywhere, since sizes are recorded.
    place = Path(tempfile.mkdtemp(prefix="golden-", dir="/tmp"))
    try:
        with surroundings():
            stage = Stage(place)
            async with stage.stack:
                await conversation(stage)
                asked = [(name, list(requests())) for name, requests in stage.asked]
        done = recorded(place, asked, stage.heard, stage.extra)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    played: dict[str, Any] = json.loads(json.dumps(done))
    return played


def difference(old: Any, new: Any, path: str = "") -> str | None:
    """The first place where two recordings differ, in words; None where they are the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _in_objects(old, new, path)
    if isinstance(old, list) and isinstance(new, list):
        return _in_lists(old, new, path)
    return None if old == new and type(old) is type(new) else _told(path, old, new)


def _in_objects(old: dict[str, Any], new: dict[str, Any], path: str) -> str | None:
    for key, each in old.items():
        if key in new and (found := difference(each, new[key], f"{path}/{key}")):
            return found
    if list(old) == list(new):
        return None
    missing = [key for key in old if key not in new]
    added = [key for key in new if key not in old]
    if missing or added:
        return f"at {path or '/'}: without {missing}, with new {added}\n{_both(old, new)}"
    return f"at {path or '/'}: keys in another order\n{_both(list(old), list(new))}"


def _in_lists(old: list[Any], new: list[Any], path: str) -> str | None:
    for at, (mine, yours) in enumerate(zip(old, new, strict=False)):
        if found := difference(mine, yours, f"{path}/{at}"):
            return found
    if len(old) == len(new):
        return None
    at = min(len(old), len(new))
    first = (old[at:] or ["nothing"])[0], (new[at:] or ["nothing"])[0]
    counted = f"{len(old)} before, {len(new)} now; the first without a pair:"
    return f"at {path}: {counted}\n{_both(*first)}"


def _told(path: str, old: Any, new: Any) -> str:
    if isinstance(old, str) and isinstance(new, str):
        at = next(
            (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
            min(len(old), len(new)),
        )
        start = max(0, at - 80)
        return f"at {path}, character {at}:\n" + _both(old[start : at + 160], new[start : at + 160])
    return f"at {path}:\n" + _both(old, new)


def _both(old: Any, new: Any) -> str:
    shown = [json.dumps(each, ensure_ascii=False, indent=1)[:1500] for each in (old, new)]
    return f"  recorded: {shown[0]}\n  now:      {shown[1]}"
