"""Replay: entries of a log as the updates of a session that is loaded.

Owns the translation. Invariant: each entry that people are shown becomes updates, in log order,
and an entry that nobody can read becomes a thought that says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from acp.helpers import image_block, start_tool_call, text_block, update_tool_call
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ImageContentBlock,
    TextContentBlock,
    UserMessageChunk,
)

from ..core.entries import Entry, Notice, ResponseMark, own_parts
from ..core.errors import StoreError
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
    Output,
    Part,
    Reasoning,
    item_type,
    text_of,
)
from ..core.redact import redact_known
from .call_views import call_kind, call_title, clip_output, patch_view, raw_input
from .session_updates import SessionUpdate

__all__ = ["Replay"]


class Replay:
    """Translates the entries of one thread."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd

    def of(self, entry: Entry) -> Iterator[SessionUpdate]:
        """Yield what a client is told of an entry."""
        try:
            yield from self._item(entry) if entry.kind == "item" else _control(entry)
        except StoreError:
            yield _thought(entry, f"entry {entry.seq} cannot be read")

    def _item(self, entry: Entry) -> Iterator[SessionUpdate]:
        item = entry.item
        match item:
            case Message(role="assistant"):
                yield from (_agent_chunk(entry, text) for text in _texts(item.content))
            case Message():
                parts = own_parts(item.content, entry.fragments)
                yield from (_user_chunk(entry, block) for block in _blocks(parts))
            case AgentMessage():
                yield _thought(entry, f"{item.author}: {text_of(item.content)}")
            case Reasoning():
                yield _thought(entry, text_of((*item.summary, *(item.content or ()))))
            case _:
                yield from self._call(entry, item)

    def _call(self, entry: Entry, item: Item) -> Iterator[SessionUpdate]:
        match item:
            case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
                yield self._start(item.call_id, name, given)
            case LocalShellCall():
                command = " ".join(getattr(item.action, "command", ()))
                yield self._start(item.call_id or str(entry.seq), "local_shell", command)
            case FunctionCallOutput() | CustomToolCallOutput():
                call = item.call_id or str(entry.seq)
                yield update_tool_call(
                    call, status="completed", content=[clip_output(_text(item.output))]
                )
            case _:
                title = item_type(item) or "unknown"
                yield start_tool_call(f"entry-{entry.seq}", title, kind="other", status="completed")

    def _start(self, call: str, name: str, given: str) -> SessionUpdate:
        contents, places = patch_view(name, given, self._cwd)
        return start_tool_call(
            call,
            call_title(name, given),
            kind=call_kind(name, given),
            status="pending",
            content=contents or None,
            locations=places or None,
            raw_input=raw_input(given),
        )


def _control(entry: Entry) -> Iterator[SessionUpdate]:
    match entry.control:
        case Notice(text=text):
            yield _thought(entry, text)
        case ResponseMark(status=status, error=error):
            yield _thought(entry, f"the answer is {status}: {error or 'nobody said why'}")
        case _:
            return


def _agent_chunk(entry: Entry, text: str) -> AgentMessageChunk:
    return AgentMessageChunk(
        session_update="agent_message_chunk",
        content=text_block(text),
        message_id=f"entry-{entry.seq}",
    )


def _thought(entry: Entry, text: str) -> AgentThoughtChunk:
    return AgentThoughtChunk(
        session_update="agent_thought_chunk",
        content=text_block(redact_known(text)),
        message_id=f"entry-{entry.seq}",
    )


def _user_chunk(entry: Entry, block: TextContentBlock | ImageContentBlock) -> UserMessageChunk:
    return UserMessageChunk(
        session_update="user_message_chunk", content=block, message_id=f"entry-{entry.seq}"
    )


def _blocks(parts: tuple[Part, ...]) -> Iterator[TextContentBlock | ImageContentBlock]:
    for part in parts:
        if isinstance(part, InputImage):
            yield _image(part.image_url)
        elif text := _text((part,)):
            yield text_block(text)


def _image(url: str | None) -> TextContentBlock | ImageContentBlock:
    head, comma, data = (url or "").partition(";base64,")
    if not comma or not head.startswith("data:image/"):
        return text_block("[image]")
    return image_block(data, head.removeprefix("data:"))


def _texts(content: Output) -> Iterator[str]:
    for part in (content,) if isinstance(content, str) else content:
        if text := _text(part if isinstance(part, str) else (part,)):
            yield text


def _text(content: Output) -> str:
    if isinstance(content, str):
        return content
    found = (getattr(p, "text", None) or getattr(p, "refusal", None) for p in content)
    return "\n".join(text if isinstance(text, str) else "[image]" for text in found)
