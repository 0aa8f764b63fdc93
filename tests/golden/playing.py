"""Playing a golden conversation in a place of its own."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from .drive import Stage, surroundings
from .recording import recorded

__all__ = ["Conversation", "play"]

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
