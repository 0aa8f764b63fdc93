"""Acting: tools whose calls can be counted in the world."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from treadle.tools.contract import Tool
from treadle.tools.decorator import tool

__all__ = ["acting"]


def acting(file: Path) -> tuple[Tool, Tool]:
    """Two tools, one quick and one slow, that append the name of their call to `file`."""

    def append(name: str) -> str:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, f"{name}\n".encode())
        finally:
            os.close(descriptor)
        return f"done {name}"

    @tool(parallel=True)
    async def act(name: str) -> str:
        """Does something that shows."""
        return append(name)

    @tool
    async def act_slowly(name: str) -> str:
        """Does something that shows, and takes its time before and behind it."""
        await asyncio.sleep(0.15)
        done = append(name)
        await asyncio.sleep(0.15)
        return done

    return act, act_slowly
