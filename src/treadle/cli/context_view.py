"""What fills the window, as people see it: a bar and a table.

Owns the letters and colours of the kinds. Invariant: what a colour says a letter says, too, so
that nothing is lost without colours.
"""

from __future__ import annotations

from typing import TypeAlias

from ..context.composition import Composition, ContextKind

__all__ = ["Run", "context_bar", "context_rows"]

_LOOKS: dict[ContextKind, tuple[str, str]] = {
    "instructions": ("I", "blue"),
    "tools": ("T", "magenta"),
    "context": ("X", "cyan"),
    "summaries": ("S", "bright_blue"),
    "user": ("U", "green"),
    "assistant": ("A", "yellow"),
    "reasoning": ("R", "bright_black"),
    "calls": ("C", "bright_magenta"),
    "outputs": ("O", "red"),
    "images": ("P", "bright_cyan"),
    "other": ("?", "white"),
}
_NAMES: dict[ContextKind, str] = {
    "context": "context",
    "user": "your messages",
    "assistant": "its messages",
}
_FREE = "."

Run: TypeAlias = tuple[str, int, str]
"""A letter, how often it stands in the bar, and its colour; no colour for what is free."""


def context_bar(found: Composition, width: int) -> list[Run]:
    """Return the bar; every kind that there is has a place in it."""
    kinds = found.by_kind()
    whole = max(found.tokens, found.window or 0, 1)
    runs: list[Run] = []
    for kind, tokens in kinds.items():
        letter, colour = _LOOKS[kind]
        runs.append((letter, max(round(tokens / whole * width), 1), colour))
    used = sum(count for _, count, _ in runs)
    while used > width and runs:
        # Many small kinds were rounded up: the largest gives.
        at = max(range(len(runs)), key=lambda n: runs[n][1])
        letter, count, colour = runs[at]
        runs[at] = (letter, count - 1, colour)
        used -= 1
    return [*runs, (_FREE, width - used, "")] if found.window and used < width else runs


def context_rows(found: Composition) -> list[list[str]]:
    """Return the rows of the table: letter, what, tokens, share of the window."""
    whole = found.window or found.tokens or 1
    rows: list[list[str]] = []
    for kind, tokens in found.by_kind().items():
        parts = [part for part in found.parts if part.kind == kind]
        name = _NAMES.get(kind, kind)
        rows.append([_LOOKS[kind][0], name, f"{tokens:,}", _share(tokens, whole)])
        if any(part.label for part in parts):
            for part in parts:
                count = f" ({part.count})" if kind == "tools" else ""
                what = f"  {part.label or 'other'}{count}"
                rows.append(["", what, f"{part.tokens:,}", _share(part.tokens, whole)])
    if found.free is not None:
        rows.append([_FREE, "free", f"{found.free:,}", _share(found.free, whole)])
    return rows


def _share(tokens: int, whole: int) -> str:
    percent = 100 * tokens / whole
    return "<1%" if 0 < percent < 1 else f"{percent:.0f}%"
