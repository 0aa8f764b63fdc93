"""Markdown: a thread for people to read.

Owns how each kind of entry looks on a page. Invariant: no text of an entry can end the
block that it stands in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.entries import Entry, Notice, own_parts
from ..core.errors import StoreError
from ..core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Output,
    Reasoning,
    item_type,
    text_of,
)
from ..core.patterns import regex
from ..store.contract import ThreadInfo
from .rollout import iso

__all__ = ["MarkdownPage"]

_TICKS = regex("`+")


@dataclass(slots=True)
class MarkdownPage:
    """Writes one thread as a page."""

    info: ThreadInfo
    _called: dict[str, str] = field(init=False, default_factory=dict)

    def head(self) -> bytes:
        """The title, and which thread it is."""
        title = " ".join((self.info.title or self.info.id).split())
        return f"# {title}\n\nThread `{self.info.id}`, begun {iso(self.info.created)}.\n".encode()

    def write(self, entry: Entry, *, visible: bool) -> bytes:
        """The section of one entry; none for what has nothing to read."""
        try:
            title, text = self._said(entry) if entry.kind == "item" else _control(entry)
        except StoreError:
            title, text = f"unreadable {entry.kind}", ""
        if not text.strip():
            return b""
        gone = "" if visible else ", rolled back"
        return f"\n## {title} ({iso(entry.time)}{gone})\n\n{text.rstrip()}\n".encode()

    def _said(self, entry: Entry) -> tuple[str, str]:
        item = entry.item
        if isinstance(item, Message):
            own = own_parts(item.content, entry.fragments) or item.content
            return item.role, _prose(own)
        return self._done(item)

    def _done(self, item: Item) -> tuple[str, str]:
        match item:
            case Reasoning():
                said = text_of((*item.summary, *(item.content or ())))
                return "thinking", "\n".join(f"> {line}" for line in said.splitlines())
            case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
                self._called[item.call_id] = name
                return f"call `{name}`", _block(given)
            case FunctionCallOutput() | CustomToolCallOutput():
                name = self._called.get(item.call_id or "") or item.name or ""
                return f"output `{name}`" if name else "output", _block(_prose(item.output))
            case _:
                return item_type(item) or "unknown", ""


def _control(entry: Entry) -> tuple[str, str]:
    control = entry.control
    return (f"notice, {control.level}", control.text) if isinstance(control, Notice) else ("", "")


def _prose(content: Output) -> str:
    """The text of a content array, with a word for whatever is not text."""
    if isinstance(content, str):
        return content
    return "\n\n".join(
        getattr(part, "text", None) or f"[{part.__struct_config__.tag}]" for part in content
    )


def _block(text: str) -> str:
    """`text` between fences that are longer than any in it."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}" if text.strip() else ""
