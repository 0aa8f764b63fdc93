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
    return json.loads(json.dumps(done))  # type: ignore[no-any-return]


def difference(old: Any, new: Any, path: str = "") -> str | None:
    """The first place where two recordings differ, in words; None where they are the same."""
    if type(old) is not type(new):
        return _told(path, old, new)
    if isinstance(old, dict):
        if list(old) != list(new):
            missing = [key for key in old if key not in new]
            added = [key for key in new if key not in old]
            if missing or added:
                return f"at {path or '/'}: without {missing}, with new {added}\n" + _both(old, new)
            return f"at {path or '/'}: keys in another order\n" + _both(list(old), list(new))
        for key in old:
            if found := difference(old[key], new[key], f"{path}/{key}"):
                return found
        return None
    if isinstance(old, list):
        for at, (mine, yours) in enumerate(zip(old, new, strict=False)):
            if found := difference(mine, yours, f"{path}/{at}"):
                return found
        if len(old) != len(new):
            at = min(len(old), len(new))
            rest = (old[at:] or ["nothing"])[0], (new[at:] or ["nothing"])[0]
            return f"at {path}: {len(old)} before, {len(new)} now; the first without a pair:\n" + (
                _both(*rest)
            )
        return None
    return None if old == new else _told(path, old, new)


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
