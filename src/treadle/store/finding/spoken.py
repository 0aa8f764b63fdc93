"""What an entry says, who said it, and with which tool.

Owns which text of the log can be found. Invariant: what the runtime told and what is
volatile is not in it, and of an annotated message only its sender's own words are.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.entries import Entry, Flags, own_parts
from ...core.errors import StoreCorrupt
from ...core.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    Reasoning,
    WebSearchCall,
    text_of,
)
from ...core.items import Search as WebSearch

__all__ = ["SILENT", "Spoken", "spoken"]


class Spoken(NamedTuple):
    """The findable part of an entry."""

    text: str
    role: str
    """``user``, ``assistant`` … of a message; else ``tool``, ``thinking`` or ``agent``."""
    tool: str = ""
    call: str = ""
    """The call that it is, or that it answers."""


SILENT = Spoken("", "")
"""Of an entry that says nothing."""


def spoken(entry: Entry) -> Spoken:
    """What can be found of an entry."""
    if entry.kind != "item" or entry.flags & (Flags.CONTEXTUAL | Flags.VOLATILE):
        return SILENT
    try:
        item = entry.item
        if isinstance(item, Message):
            return Spoken(text_of(own_parts(item.content, entry.fragments)), item.role)
        return _said(item)
    except StoreCorrupt:
        return SILENT


def _said(item: Item) -> Spoken:
    match item:
        case AgentMessage():
            return Spoken(text_of(item.content), "agent")
        case Reasoning():
            return Spoken(text_of((*item.summary, *(item.content or ()))), "thinking")
        case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
            return Spoken(f"{name} {given}", "tool", name, item.call_id)
        case FunctionCallOutput() | CustomToolCallOutput():
            return Spoken(text_of(item.output), "tool", item.name or "", item.call_id or "")
        case LocalShellCall():
            command = getattr(item.action, "command", ())
            return Spoken(" ".join(command), "tool", "local_shell")
        case WebSearchCall(action=WebSearch(query=str(query))):
            return Spoken(query, "tool", "web_search")
    return SILENT
