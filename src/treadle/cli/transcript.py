"""The transcript: a log for people.

Owns which entries are shown to people and how each reads. Invariant: any entry
can be shown, also one that a newer version or a stranger wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ..core.entries import (
    CompletionMark,
    Control,
    Entry,
    Epoch,
    Flags,
    Notice,
    RequestMark,
    ResponseMark,
    Rollback,
    SettingsChange,
    own_parts,
)
from ..core.errors import StoreCorrupt, StoreError
from ..core.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    Output,
    Reasoning,
    item_type,
    text_of,
)
from ..core.money import Cost
from ..harness.hosted_calls import hosted_call
from ..store.json_views import flag_names
from .output import iso, one_line, printable

__all__ = ["Transcript"]

_UNSHOWN = Flags.CONTEXTUAL | Flags.VOLATILE | Flags.HIDDEN
_LINES = 12
_WIDTH = 160


@dataclass(slots=True)
class Transcript:
    """Turns entries into headings and texts, in log order."""

    everything: bool = False
    """Also context, control entries and what was rolled back."""
    costs: Mapping[int, Cost | None] = field(default_factory=dict)
    """What answers cost, by the entries in which they ended."""
    _tool_names: dict[str, str] = field(init=False, default_factory=dict)

    def shows(self, entry: Entry, visible: bool) -> bool:
        """Return whether this entry is shown."""
        if self.everything:
            return True
        if entry.kind == "item":
            return visible and not entry.flags & _UNSHOWN and _has_words(entry)
        return visible and (entry.kind == "notice" or _is_failed(entry))

    def block(self, entry: Entry, *, visible: bool) -> tuple[str, str]:
        """Return the heading and the indented text of one entry."""
        try:
            title, text = self._item_text(entry) if entry.kind == "item" else _control(entry)
        except StoreError:
            title, text = f"unreadable {entry.kind}", one_line(entry.body.decode(errors="replace"))
        heading = printable(title)
        if self.everything:
            heading = f"#{entry.seq} {entry.turn}.{entry.step} {heading}"
        marks = self._marks(entry, visible) if self.everything else []
        lines = "\n".join(f"  {line}".rstrip() for line in text.split("\n")) if text else ""
        return " · ".join([heading, iso(entry.time), *marks]), lines

    def _marks(self, entry: Entry, visible: bool) -> list[str]:
        told = [printable(mark.id) for mark in entry.fragments]
        names = ["context" if name == "contextual" else name for name in flag_names(entry.flags)]
        return [
            *names,
            *([f"tells {', '.join(told)}"] if told else []),
            *([f"{entry.tokens:,} tokens"] if entry.tokens else []),
            *([str(cost)] if (cost := self.costs.get(entry.seq)) else []),
            *([] if visible else ["rolled back"]),
        ]

    def _item_text(self, entry: Entry) -> tuple[str, str]:
        """Return the title and text of an item; without `everything`, of an input only the text."""
        item = entry.item
        if not isinstance(item, Message):
            return self._item(item)
        own = item.content if self.everything else own_parts(item.content, entry.fragments)
        return _sender(entry) or item.role, _content(own)

    def _item(self, item: Item) -> tuple[str, str]:
        match item:
            case AgentMessage():
                return f"agent {item.author} to {item.recipient}", _content(item.content)
            case Reasoning():
                return "thinking", text_of((*item.summary, *(item.content or ())))
            case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
                self._tool_names[item.call_id] = name
                return f"call {name}", _shorten(given)
            case FunctionCallOutput() | CustomToolCallOutput():
                name = self._tool_names.get(item.call_id or "") or item.name or item.call_id or ""
                return f"output {name}".rstrip(), _shorten(_content(item.output))
            case LocalShellCall():
                command = getattr(item.action, "command", ())
                return "call local_shell", _shorten(" ".join(command))
            case _:
                return _hosted_lines(item) or (item_type(item) or "unknown", "")


def _hosted_lines(item: Item) -> tuple[str, str] | None:
    """Return the title and text of a call that the provider ran itself."""
    found = hosted_call(item)
    return None if found is None else (f"call {found[1]}", _shorten(found[2]))


def _sender(entry: Entry) -> str:
    """Return who sent an input, when it was not the user."""
    sent = entry.provenance
    if sent is None or sent.kind == "external_user":
        return ""
    source = sent.source_thread or sent.origin_thread or ""
    return f"thread {source}".rstrip() if sent.kind == "inter_session" else "system"


def _has_words(entry: Entry) -> bool:
    """Return whether an item has text; reasoning often has none."""
    try:
        item = entry.item
    except StoreCorrupt:
        return True
    return not isinstance(item, Reasoning) or bool(
        text_of((*item.summary, *(item.content or ()))).strip()
    )


def _is_failed(entry: Entry) -> bool:
    if entry.kind != "response":
        return False
    try:
        control = entry.control
    except StoreError:
        return True
    # Whoever asked outside the conversation says by itself what came of it.
    if not isinstance(control, ResponseMark) or control.purpose:
        return False
    return control.status != "completed"


def _content(content: Output) -> str:
    """Return the text of a content array, with a placeholder for parts that are not text."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in content)


def _part_text(part: msgspec.Struct) -> str:
    text = getattr(part, "text", None) or getattr(part, "refusal", None)
    return text if isinstance(text, str) else f"[{part.__struct_config__.tag}]"


def _shorten(text: str) -> str:
    """Return the first lines of `text`, and how many are missing."""
    lines = text.rstrip("\n").split("\n")
    shown = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines[:_LINES]]
    if len(lines) > _LINES:
        shown.append(f"… {len(lines) - _LINES} more lines")
    return "\n".join(shown)


def _control(entry: Entry) -> tuple[str, str]:
    control = entry.control
    return _title(control), _control_text(control, entry)


def _title(control: Control) -> str:
    match control:
        case Notice(level=level):
            return f"notice {level}"
        case Epoch(reason=reason):
            return f"epoch {reason.value}"
        case RequestMark():
            return "request"
        case CompletionMark():
            return "completion"
        case ResponseMark(status=status, purpose=purpose):
            return f"response {status}{f' ({purpose})' if purpose else ''}"
        case Rollback():
            return "rollback"
        case SettingsChange():
            return "settings"


def _control_text(control: Control, entry: Entry) -> str:
    match control:
        case Notice(text=text):
            return text
        case Epoch(recipe=recipe, note=note):
            parts = f"starts from {len(recipe.parts)} parts" if recipe else ""
            return "\n".join(filter(None, [parts, note]))
        case RequestMark() | CompletionMark():
            return f"{control.items} items, {control.size:,} bytes, digest {control.digest}"
        case ResponseMark(usage=usage, error=error):
            spent = f"{usage.total_tokens:,} tokens" if usage else ""
            return "\n".join(filter(None, [spent, error]))
        case Rollback(cut=cut):
            return f"entries {cut} to {entry.seq - 1} are hidden"
        case SettingsChange(changes=changes):
            said = (f"{name} = {bytes(value).decode()}" for name, value in changes.items())
            return _shorten("\n".join(said))
