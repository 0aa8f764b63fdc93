"""Exporting: a thread becomes a file that others can read.

Owns which entries an export holds. Invariant: an export is read a page at a time, and
what a rollback hides is left out, or said to be hidden.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal, TypeAlias

from ..context.visible import visible_backwards
from ..core.entries import Entry, Flags, Rollback
from ..prompt.registry import Registry, default_registry
from ..store.contract import Store
from .history import entries_of
from .markdown import MarkdownPage
from .plain import line_of
from .rollout import Rollout

__all__ = ["EXPORTS", "ExportFormat", "export_thread"]

ExportFormat: TypeAlias = Literal["jsonl", "codex", "markdown"]
EXPORTS: tuple[ExportFormat, ...] = ("jsonl", "codex", "markdown")

_UNSHOWN = Flags.CONTEXTUAL | Flags.VOLATILE | Flags.HIDDEN


async def export_thread(
    store: Store,
    thread: str,
    format: ExportFormat = "jsonl",  # noqa: A002 - the word that users know
    *,
    everything: bool = False,
    registry: Registry | None = None,
) -> AsyncGenerator[bytes, None]:
    """The lines of a file: what was said and done, and with `everything` all that is stored."""
    info = await store.info(thread)
    words = registry or default_registry()
    entries = shown_entries(store, thread, everything=everything)
    async with aclosing(entries) as shown:
        if format == "jsonl":
            name = info.title or info.id
            async for entry, visible in shown:
                yield line_of(entry, name, words, visible=visible) + b"\n"
            return
        writer = Rollout(info) if format == "codex" else MarkdownPage(info)
        yield writer.head()
        async for entry, visible in shown:
            yield writer.write(entry, visible=visible)


async def shown_entries(
    store: Store, thread: str, *, everything: bool
) -> AsyncGenerator[tuple[Entry, bool], None]:
    """The entries in order, each with whether it is visible."""
    hidden = await _hidden(store, thread)
    async for entry in entries_of(store, thread):
        while hidden and hidden[-1][1] <= entry.seq:
            hidden.pop()
        visible = not (hidden and hidden[-1][0] <= entry.seq)
        plain = entry.kind == "item" and not entry.flags & _UNSHOWN
        if everything or (visible and plain):
            yield entry, visible


async def _hidden(store: Store, thread: str) -> list[tuple[int, int]]:
    """The stretches that rollbacks hide, the oldest last; the end of each is not hidden."""
    found: list[tuple[int, int]] = []
    async with aclosing(visible_backwards(store, thread)) as entries:
        async for entry in entries:
            control = entry.control if entry.kind == "rollback" else None
            if isinstance(control, Rollback):
                found.append((control.cut, entry.seq))
    return found
