"""Reporting: what a model reads about a command.

Owns the fixed lines around output. Invariant: what a model cannot see is named: how
much was cut, and the handle under which the whole can be read back.
"""

from __future__ import annotations

from ..core.text import TruncationPolicy
from ..core.wire import json_bytes
from .excerpt import Excerpt, looks_binary
from .keeping import Keeper

__all__ = ["body", "cut_body", "exec_report", "freeform_report", "structured_report"]


async def body(output: Excerpt, limit: TruncationPolicy, keeper: Keeper) -> str:
    """Output with a heading when it was cut."""
    text = await cut_body(output, limit, keeper)
    if output.fits(limit) or looks_binary(output.head):
        return text
    return (
        f"Warning: truncated output (original token count: {output.tokens})\n"
        f"Total output lines: {output.lines}\n\n{text}"
    )


async def cut_body(output: Excerpt, limit: TruncationPolicy, keeper: Keeper) -> str:
    """Output that fits `limit`, and where the rest is."""
    if looks_binary(output.head):
        return f"[binary output, {output.size} bytes]\n{await _kept_line(keeper)}"
    if output.fits(limit):
        return output.text
    text = output.cut(limit)
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{await _kept_line(keeper)}"


async def _kept_line(keeper: Keeper) -> str:
    return f"Full output: {await keeper.handle()} (use read_output)"


def exec_report(
    text: str,
    *,
    seconds: float,
    chunk: str = "",
    exit_code: int | None = None,
    session: int | None = None,
    tokens: int | None = None,
) -> str:
    """The result of `exec_command` and `write_stdin`."""
    lines = [
        f"Chunk ID: {chunk}" if chunk else None,
        f"Wall time: {seconds:.4f} seconds",
        None if exit_code is None else f"Process exited with code {exit_code}",
        None if session is None else f"Process running with session ID {session}",
        None if tokens is None else f"Original token count: {tokens}",
        "Output:",
        text,
    ]
    return "\n".join(line for line in lines if line is not None)


def freeform_report(text: str, *, exit_code: int, seconds: float, lines: int | None = None) -> str:
    """The result of `shell_command` and `apply_patch`; `lines` only when some were cut."""
    parts = [
        f"Exit code: {exit_code}",
        f"Wall time: {seconds:.1f} seconds",
        None if lines is None else f"Total output lines: {lines}",
        "Output:",
        text,
    ]
    return "\n".join(part for part in parts if part is not None)


def structured_report(text: str, *, exit_code: int, seconds: float) -> str:
    """The result of `shell`."""
    metadata = {"exit_code": exit_code, "duration_seconds": round(seconds, 1)}
    return json_bytes({"output": text, "metadata": metadata}).decode()
