"""Exporting: a thread becomes a file that others can read.

Owns which entries an export holds, and how a page of Markdown shows them. Invariant: a
thread is read a page at a time, entries that a rollback hides are left out, or marked as
hidden, and no known secret is written.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..context.visible import visible_backwards
from ..core.entries import Entry, Flags, Notice, Rollback, own_parts
from ..core.errors import StoreError
from ..core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Reasoning,
    item_type,
    text_of,
)
from ..core.redact import blank_value
from ..log.usages import thread_usages
from ..prompt.registry import Registry, installed_registry
from ..store.contract import Store, ThreadInfo
from .atif import Trajectory
from .codex_rollout import Rollout
from .content_text import content_text
from .imported_threads import entries_of
from .jsonl import iso_time
from .plain_jsonl import encode_entry

__all__ = ["EXPORTS", "ExportFormat", "MarkdownPage", "export_thread"]

_TICKS = re.compile("`+")
_HEADING = re.compile(r"^( {0,3})(## .*\(\d{4}-)", re.MULTILINE)
"""A line that reads as the heading of an entry."""

ExportFormat: TypeAlias = Literal["jsonl", "codex", "markdown", "atif"]
EXPORTS: tuple[ExportFormat, ...] = ("jsonl", "codex", "markdown", "atif")

_NOT_SHOWN = Flags.CONTEXTUAL | Flags.VOLATILE | Flags.HIDDEN


async def export_thread(
    store: Store,
    thread: str,
    format: ExportFormat = "jsonl",  # noqa: A002 - the word that users know
    *,
    everything: bool = False,
    registry: Registry | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a file: the conversation, or with `everything` all that is stored."""
    info = blank_value(await store.info(thread))
    if registry is None:
        registry = await asyncio.to_thread(installed_registry)
    # A trajectory has an end for each request, and shows what it was charged.
    whole = everything or format == "atif"
    entries = _exported_entries(store, thread, everything=whole)
    async with aclosing(entries) as exported:
        if format == "jsonl":
            name = info.title or info.id
            async for entry, visible in exported:
                yield encode_entry(entry, name, registry, visible=visible) + b"\n"
            return
        if format == "atif":
            usages = await thread_usages(store, thread)
            trajectory = Trajectory(info, usages, context=everything)
            async for entry, visible in exported:
                if visible:
                    trajectory.add(entry)
            yield trajectory.document()
            return
        writer = Rollout(info) if format == "codex" else MarkdownPage(info)
        yield writer.head()
        async for entry, visible in exported:
            yield writer.write(entry, visible=visible)


async def _exported_entries(
    store: Store, thread: str, *, everything: bool
) -> AsyncGenerator[tuple[Entry, bool], None]:
    """Yield the entries in order, each with whether it is visible."""
    hidden = await _hidden_ranges(store, thread)
    async for entry in entries_of(store, thread):
        while hidden and hidden[-1][1] <= entry.seq:
            hidden.pop()
        visible = not (hidden and hidden[-1][0] <= entry.seq)
        is_plain = entry.kind == "item" and not entry.flags & _NOT_SHOWN
        if everything or (visible and is_plain):
            # It may be older than what is known of secrets by now.
            yield blank_value(entry), visible


async def _hidden_ranges(store: Store, thread: str) -> list[tuple[int, int]]:
    """Return the ranges that rollbacks hide, the oldest last; the end of each is not hidden."""
    found: list[tuple[int, int]] = []
    async with aclosing(visible_backwards(store, thread)) as entries:
        async for entry in entries:
            control = entry.control if entry.kind == "rollback" else None
            if isinstance(control, Rollback):
                found.append((control.cut, entry.seq))
    return found


@dataclass(slots=True)
class MarkdownPage:
    """Writes one thread as a page for people; no text can end its block, or begin an entry."""

    info: ThreadInfo
    _names: dict[str, str] = field(init=False, default_factory=dict)

    def head(self) -> bytes:
        """Return the title and the id of the thread."""
        title = " ".join((self.info.title or self.info.id).split())
        return (
            f"# {title}\n\nThread `{self.info.id}`, begun {iso_time(self.info.created)}.\n".encode()
        )

    def write(self, entry: Entry, *, visible: bool) -> bytes:
        """Return the section of one entry; empty for an entry without text."""
        try:
            title, text = (
                self._item_section(entry) if entry.kind == "item" else _notice_section(entry)
            )
        except StoreError:
            title, text = f"unreadable {entry.kind}", ""
        if not text.strip():
            return b""
        note = "" if visible else ", rolled back"
        text = _HEADING.sub(r"\1\\\2", text).rstrip()
        return f"\n## {title} ({iso_time(entry.time)}{note})\n\n{text}\n".encode()

    def _item_section(self, entry: Entry) -> tuple[str, str]:
        item = entry.item
        if isinstance(item, Message):
            own = own_parts(item.content, entry.fragments) or item.content
            return item.role, content_text(own)
        match item:
            case Reasoning():
                text = text_of((*item.summary, *(item.content or ())))
                return "thinking", "\n".join(f"> {line}" for line in text.splitlines())
            case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
                self._names[item.call_id] = name
                return f"call `{name}`", _block(given)
            case FunctionCallOutput() | CustomToolCallOutput():
                name = self._names.get(item.call_id or "") or item.name or ""
                return f"output `{name}`" if name else "output", _block(content_text(item.output))
            case _:
                return item_type(item) or "unknown", ""


def _notice_section(entry: Entry) -> tuple[str, str]:
    control = entry.control
    return (f"notice, {control.level}", control.text) if isinstance(control, Notice) else ("", "")


def _block(text: str) -> str:
    """Return `text` between fences that are longer than any in it."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}" if text.strip() else ""
