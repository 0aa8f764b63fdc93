"""The clipboard: `/copy`, which copies the last answer, and the image that Ctrl-V pastes.

Invariant: a program of the desktop is preferred for a text; otherwise the terminal is asked,
which works over a connection to another machine too. An image can come only from a program.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.search_path import find_program

if TYPE_CHECKING:
    from .slash import Slash

__all__ = ["copy_answer", "read_image"]

_COPY = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("HOME", ("pbcopy",)),
)
_PASTE_IMAGE = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
    ("HOME", ("osascript", "-e", "the clipboard as «class PNGf»")),
)
"""Programs, each with the variable that says that it may be of use."""
_PNG = b"\x89PNG\r\n\x1a\n"
_HEXADECIMAL = re.compile(rb"\s*\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb\s*")
"""How AppleScript writes an image."""
_LONGEST = 74_000
"""Bytes that terminals accept."""
_PATIENCE = 5.0
"""Seconds: the program that owns the clipboard may have stopped."""


async def copy_answer(slash: Slash, rest: str) -> None:
    """Copy the last answer of the model."""
    del rest
    session = slash.session
    text = session.last_answer
    if not text:
        session.screen.trouble("there is no answer yet; ask something first")
        return
    for program, arguments in _programs(_COPY):
        if await _run(program, arguments, text.encode()) is not None:
            session.screen.say(f"copied {len(text):,} characters")
            return
    data = text.encode()
    if len(data) > _LONGEST:
        session.screen.trouble(f"{len(data):,} bytes are too many for the terminal's clipboard")
        return
    session.screen.send_raw(f"\x1b]52;c;{base64.b64encode(data).decode()}\a")
    session.screen.say(f"copied {len(text):,} characters, if the terminal allows it")


async def read_image() -> bytes | None:
    """Return the image in the clipboard as PNG; None where there is none, or no program."""
    for program, arguments in _programs(_PASTE_IMAGE):
        out = await _run(program, arguments) or b""
        if (written := _HEXADECIMAL.fullmatch(out)) is not None:
            out = bytes.fromhex(written[1].decode())
        if out.startswith(_PNG):
            return out
    return None


def _programs(known: tuple[tuple[str, tuple[str, ...]], ...]) -> list[tuple[Path, tuple[str, ...]]]:
    """Return the programs of the desktop that are there, each with its arguments."""
    found = ((find_program(argv[0]), argv[1:]) for name, argv in known if name in os.environ)
    return [(program, arguments) for program, arguments in found if program is not None]


async def _run(program: Path, arguments: tuple[str, ...], text: bytes = b"") -> bytes | None:
    """Return what a program prints; None if it fails or does not end."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        # What `xclip` leaves running to own the clipboard would keep a pipe open.
        stdout=asyncio.subprocess.DEVNULL if text else asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            out, _ = await process.communicate(text)
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    return None if process.returncode else out or b""
