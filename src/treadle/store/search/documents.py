"""Documents: the text of an entry that search can find, and its terms.

Owns which text of the log is searchable. Invariant: text from the runtime and volatile
text is not, and of a message with fragments only the sender's own words are; the same
entry gives the same document, whichever process indexes it.
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
    WebSearch,
    WebSearchCall,
    text_of,
)
from .tables import SearchDocument, label_term
from .terms import split_words, word_terms

__all__ = ["EntryText", "build_document", "entry_text"]

_LONGEST_TEXT = 2_000_000


class EntryText(NamedTuple):
    """The searchable text of an entry."""

    text: str
    role: str
    """``user``, ``assistant`` … of a message; else ``tool``, ``thinking`` or ``agent``."""
    tool: str = ""
    call_id: str = ""
    """The id of the call that the entry is, or that it answers."""


_NO_TEXT = EntryText("", "")


def entry_text(entry: Entry) -> EntryText:
    """Return the searchable text of an entry; empty for an entry without any."""
    if entry.kind != "item" or entry.flags & (Flags.CONTEXTUAL | Flags.VOLATILE):
        return _NO_TEXT
    try:
        item = entry.item
        if isinstance(item, Message):
            return EntryText(text_of(own_parts(item.content, entry.fragments)), item.role)
        return _item_text(item)
    except StoreCorrupt:
        return _NO_TEXT


def _item_text(item: Item) -> EntryText:
    match item:
        case AgentMessage():
            return EntryText(text_of(item.content), "agent")
        case Reasoning():
            return EntryText(text_of((*item.summary, *(item.content or ()))), "thinking")
        case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
            return EntryText(f"{name} {given}", "tool", name, item.call_id)
        case FunctionCallOutput() | CustomToolCallOutput():
            return EntryText(text_of(item.output), "tool", item.name or "", item.call_id or "")
        case LocalShellCall():
            command = getattr(item.action, "command", ())
            return EntryText(" ".join(command), "tool", "local_shell")
        case WebSearchCall(action=WebSearch(query=str(query))):
            return EntryText(query, "tool", "web_search")
    return _NO_TEXT


def build_document(entry: Entry, text: EntryText, tool: str) -> SearchDocument:
    """Build the document of an entry that has text."""
    terms = {label_term("role", text.role)}
    if tool:
        terms.add(label_term("tool", tool))
    words = split_words(text.text[:_LONGEST_TEXT])
    spellings, whole, parts = zip(*word_terms(set(words)), strict=True) if words else ((), (), ())
    terms.update(*whole, *filter(None, parts))
    return SearchDocument(entry.seq, entry.time, len(words), terms, set[str]().union(*spellings))
