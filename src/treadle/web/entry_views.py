"""Entries as the inspector shows them: a kind, a title, a text, and what belongs to it.

Owns how each kind of entry reads in the browser. Invariant: any entry can be shown, also one
that a newer version or a stranger wrote; a long text is cut, and says so.
"""

from __future__ import annotations

import json
from typing import Any

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
from ..core.errors import StoreError, TreadleError
from ..core.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    Item,
    LocalShellCall,
    Message,
    Part,
    Reasoning,
    item_type,
    text_of,
)
from ..harness.hosted_calls import hosted_call
from ..store.json_views import entry_json, flag_names
from .api_answers import page_of
from .diffs import patch_view
from .verdicts import verdict_of_call, verdict_of_output

__all__ = ["CUT", "entry_images", "entry_text", "item_text", "shown_entry", "whole_entry"]

_DECISIONS = frozenset({"approval", "hook"})
CUT = 4_000
"""Characters of a text in a list; the rest is asked for by itself."""


def shown_entry(entry: Entry, *, visible: bool) -> dict[str, Any]:
    """Return an entry for a list: its facts, and how it reads."""
    return {**_facts(entry, visible=visible), "view": _view(entry, visible=visible)}


def whole_entry(entry: Entry, offset: int, *, visible: bool) -> dict[str, Any]:
    """Return an entry with a page of its whole text."""
    view = _view(entry, visible=visible)
    page = page_of(entry_text(entry), offset)
    view |= {"text": page.text, "cut": page.next is not None, "chars": page.chars}
    return {**_facts(entry, visible=visible), "view": view, "next": page.next}


def _facts(entry: Entry, *, visible: bool) -> dict[str, Any]:
    """Return what `--json` tells of an entry; its body only where that is short."""
    facts = entry_json(entry, visible=visible)
    if len(entry.body) > CUT:
        facts.pop("item", None)
        facts.pop("control", None)
        facts["body_bytes"] = len(entry.body)
    return facts


def _view(entry: Entry, *, visible: bool) -> dict[str, Any]:
    text = entry_text(entry)
    page = page_of(text, 0, CUT)
    view: dict[str, Any] = {
        "kind": entry.kind,
        "title": entry.kind,
        "text": page.text,
        "cut": page.next is not None,
        "chars": page.chars,
        "badges": _badges(entry, visible=visible),
    }
    try:
        view |= _item_view(entry, entry.item) if entry.kind == "item" else _title(entry.control)
    except (TreadleError, msgspec.MsgspecError):
        view |= {"kind": "unreadable", "title": f"unreadable {entry.kind}"}
    if images := entry_images(entry):
        view["images"] = list(range(len(images)))
    return view


def _badges(entry: Entry, *, visible: bool) -> list[str]:
    sent = entry.provenance
    names = ["context" if name == "contextual" else name for name in flag_names(entry.flags)]
    told = [f"tells {mark.id}" for mark in entry.fragments]
    source = [sent.kind.replace("_", " ")] if sent is not None else []
    imported = ["imported"] if entry.source_id is not None else []
    return [*names, *told, *source, *imported, *([] if visible else ["rolled back"])]


def _item_view(entry: Entry, item: Item) -> dict[str, Any]:
    match item:
        case Message(role=role):
            return {"kind": _message_kind(entry, role), "title": _sender(entry) or role}
        case AgentMessage():
            return {"kind": "agent", "title": f"agent {item.author} to {item.recipient}"}
        case Reasoning():
            return {"kind": "thinking", "title": "thinking"}
        case FunctionCall() | CustomToolCall():
            given = item.arguments if isinstance(item, FunctionCall) else item.input
            call = {"name": item.name, "id": item.call_id, "arguments": page_of(given, 0, CUT).text}
            view: dict[str, Any] = {"kind": "call", "title": f"call {item.name}", "call": call}
            if (diff := patch_view(item.name, given)) is not None:
                view["diff"] = diff
            return {**view, **verdict_of_call(given)}
        case FunctionCallOutput() | CustomToolCallOutput():
            call = {"name": item.name or "", "id": item.call_id or "", "arguments": ""}
            title = f"output {item.name or ''}".strip()
            told = verdict_of_output(item_text(item, entry.body))
            return {"kind": "output", "title": title, "call": call, **told}
        case LocalShellCall():
            return {"kind": "call", "title": "call local_shell"}
        case _:
            return _hosted_view(item)


def _hosted_view(item: Item) -> dict[str, Any]:
    """Return the view of a call that the provider ran itself, or of what nobody knows."""
    found = hosted_call(item)
    if found is None:
        return {"kind": "other", "title": item_type(item) or "unknown"}
    call = {"name": found[1], "id": "", "arguments": found[2][:CUT]}
    return {"kind": "call", "title": f"call {found[1]}", "call": call}


def _message_kind(entry: Entry, role: str) -> str:
    if role == "assistant":
        return "assistant"
    if entry.has_flag(Flags.SUMMARY):
        return "summary"
    return "context" if role != "user" or entry.has_flag(Flags.CONTEXTUAL) else "user"


def _sender(entry: Entry) -> str:
    """Return who sent an input, when it was not the user."""
    sent = entry.provenance
    if sent is None or sent.kind == "external_user":
        return ""
    source = sent.source_thread or sent.origin_thread or ""
    return f"thread {source}".rstrip() if sent.kind == "inter_session" else "system"


def entry_text(entry: Entry) -> str:
    """Return the whole text of an entry, as people read it."""
    try:
        if entry.kind == "item":
            return _item_text(entry, entry.item)
        return _control_text(entry.control)
    except (TreadleError, msgspec.MsgspecError, RecursionError):
        return entry.body.decode(errors="replace")


def _item_text(entry: Entry, item: Item) -> str:
    match item:
        case Message(role="user") if not entry.has_flag(Flags.CONTEXTUAL):
            return _parts_text(own_parts(item.content, entry.fragments))
        case _:
            return item_text(item, entry.body)


def item_text(item: Item, body: bytes) -> str:
    """Return all that the model reads of an item, as people read it."""
    match item:
        case Message() | AgentMessage():
            return _parts_text(item.content)
        case Reasoning():
            return text_of((*item.summary, *(item.content or ())))
        case FunctionCall(arguments=given) | CustomToolCall(input=given):
            return _readable(given)
        case FunctionCallOutput(output=output) | CustomToolCallOutput(output=output):
            return output if isinstance(output, str) else _parts_text(output)
        case LocalShellCall():
            return " ".join(getattr(item.action, "command", ()))
        case _:
            return _readable(body.decode(errors="replace"))


def _readable(text: str) -> str:
    """Return JSON with a line for each member; any other text as it is."""
    if len(text) > 1 << 20:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _parts_text(parts: tuple[Part, ...]) -> str:
    return "\n".join(_part_text(part) for part in parts)


def _part_text(part: msgspec.Struct) -> str:
    text = getattr(part, "text", None) or getattr(part, "refusal", None)
    return text if isinstance(text, str) else f"[{part.__struct_config__.tag}]"


def entry_images(entry: Entry) -> list[str]:
    """Return the addresses of the images in an entry."""
    if entry.kind != "item" or b"image_url" not in entry.body:
        return []
    try:
        item = entry.item
    except StoreError:
        return []
    content: Any = ()
    if isinstance(item, Message):
        content = item.content
    elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
        content = () if isinstance(item.output, str) else item.output
    return [part.image_url for part in content if isinstance(part, InputImage)]


def _title(control: Control) -> dict[str, Any]:
    match control:
        case Notice(level=level, source=source):
            # What somebody decided about a call stands out among the notices.
            kind = source if source in _DECISIONS else "notice"
            title = kind if level == "info" else f"{kind}: {level}"
            return {"kind": kind, "title": title, "level": level, "source": source}
        case Epoch(reason=reason):
            return {"title": f"epoch: {reason.value}", "reason": reason.value}
        case Rollback(cut=cut, turns=turns):
            return {"title": "rollback", "cut_at": cut, "turns": turns}
        case ResponseMark(status=status, request=request):
            return {"title": f"answer {status}", "request": request, "status": status}
        case RequestMark():
            return {"title": "request"}
        case CompletionMark(purpose=purpose):
            return {"title": f"request for {purpose or 'a completion'}"}
        case SettingsChange():
            return {"title": "settings"}


def _control_text(control: Control) -> str:
    match control:
        case Notice(text=text):
            return text
        case Epoch(note=note, by=by):
            return "\n".join(filter(None, (f"by {by}" if by else "", note)))
        case Rollback(cut=cut):
            return f"entries from {cut} up to here no longer count"
        case ResponseMark(error=error, usage=usage):
            said = (
                "" if usage is None else f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
            )
            return "\n".join(filter(None, (error or "", said)))
        case RequestMark(size=size, items=items, digest=digest):
            return f"{size:,} bytes, {items} items, {digest}"
        case CompletionMark(size=size, items=items, digest=digest):
            return f"{size:,} bytes, {items} items, {digest}"
        case SettingsChange(changes=changes):
            lines = [f"{name} = {bytes(value).decode()}" for name, value in changes.items()]
            return "\n".join(lines)
