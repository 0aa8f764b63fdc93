"""OpenClaw: session files, a header and a tree of entries.

Owns which entries are the conversation: the path to the newest leaf, a reset beginning
a conversation of its own. Invariant: a summary that stands for entries of the same file
is kept, not told; the entries are all there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..core.entries import Flags, Origin
from ..core.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    decode_item,
)
from ..core.wire import json_bytes
from ..models.formats.messages import reasoning_item
from ..prompt.registry import Registry
from .lines import Line, object_of, read_records
from .pieces import (
    UNKNOWN_ACCOUNT,
    Piece,
    contextual,
    item_piece,
    kept,
    milliseconds,
    parts_of,
    text_in,
    user_piece,
)
from .sessions import Session, Spot, clean_id, clean_line, existing, line_key
from .tally import Tally
from .tree import Branch, path_to

__all__ = ["BOOKKEEPING", "OpenClawFormat"]

BOOKKEEPING = frozenset(
    {"thinking_level_change", "model_change", "label", "session_info", "leaf", "session_state"}
)
"""Entries that say nothing to a model."""

_APIS = {
    "anthropic-messages": "messages",
    "openai-responses": "responses",
    "openai-codex-responses": "responses",
    "openai-completions": "chat",
}


class OpenClawFormat:
    """Reads session files of any version."""

    name = "openclaw"
    agent = "OpenClaw"

    def survey(self, path: Path, tally: Tally) -> list[Session]:
        """The conversations of a session: one, and one more for each reset."""
        reading = _Reading(tally, path.stem)
        for line, record in read_records(path, tally):
            reading.add(line, record)
        return list(reading.sessions())

    def pieces(self, data: bytes, spot: Spot, registry: Registry) -> list[Piece]:
        """What an entry becomes."""
        record = object_of(data)
        match record:
            case {"type": "message", "message": dict(message)}:
                return _said(message, registry)
            case {"type": "custom_message"}:
                return _custom(record, registry)
            case {"type": "branch_summary", "summary": str(text)} if text.strip():
                return [_told(text, registry)]
            case {"type": "compaction", "summary": str(text)} if spot.alone and text.strip():
                return [_told(text, registry)]
        return []

    def time(self, data: bytes) -> int | None:
        """When an entry was made."""
        record = object_of(data)
        message = record.get("message")
        said = message.get("timestamp") if isinstance(message, dict) else None
        return milliseconds(record.get("timestamp")) or milliseconds(said)


@dataclass(slots=True)
class _Reading:
    """A session file on its way through."""

    tally: Tally
    session: str
    title: str = ""
    cwd: str = ""
    leaf: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    spots: dict[str, Spot] = field(default_factory=dict)
    order: list[Branch] = field(default_factory=list)

    def add(self, line: Line, record: dict[str, Any]) -> None:
        kind = record.get("type")
        kind = kind if isinstance(kind, str) else ""
        if kind == "session":
            self.session = clean_id(record.get("id")) or self.session
            self.cwd = existing(record.get("cwd"))
            return
        if kind == "session_info":
            self.title = clean_line(record.get("name")) or self.title
        given = clean_id(record.get("id"))
        name = given or line_key(self.session, line)
        if name in self.spots:
            self.tally.left_out[kind] += 1
            return
        before = self.order[-1].id if self.order else None
        parent = clean_id(record.get("parentId")) if given and "parentId" in record else before
        self.kinds[name] = kind
        self.spots[name] = Spot(name, line.offset, len(line.data))
        self.order.append(Branch(name, parent, len(self.order)))
        self.turn_to(kind, name, record)

    def turn_to(self, kind: str, name: str, record: dict[str, Any]) -> None:
        """The newest entry is the leaf, unless it stands aside or points to another one."""
        pointed = clean_id(record.get("leafId")) or clean_id(record.get("targetId"))
        if kind in ("leaf", "session_state"):
            self.leaf = pointed if pointed in self.spots else self.leaf
        elif record.get("appendMode") != "side":
            self.leaf = name

    def sessions(self) -> Iterator[Session]:
        """The conversation up to the first reset, and one from each reset on."""
        if not self.leaf:
            self.tally.abandoned += len(self.order)
            return
        by_id = {branch.id: branch for branch in self.order}
        path = [branch.id for branch in path_to(by_id[self.leaf], self.order, by_id)]
        off = self.spots.keys() - set(path)
        self.tally.abandoned += sum(self.kinds[name] not in BOOKKEEPING for name in off)
        served = (self.kinds[name] for name in path if self.kinds[name] in BOOKKEEPING)
        self.tally.left_out.update(served)
        for key, names in self.parts(path):
            spoken = [name for name in names if self.kinds[name] not in BOOKKEEPING]
            spots = [
                msgspec.structs.replace(self.spots[name], alone=not at)
                for at, name in enumerate(spoken)
            ]
            if spots:
                yield Session(key=key, title=self.title, cwd=self.cwd, spots=spots)

    def parts(self, path: list[str]) -> Iterator[tuple[str, list[str]]]:
        key, names = f"openclaw:{self.session}", list[str]()
        for name in path:
            if self.kinds[name] == "reset":
                yield key, names
                key, names = f"openclaw:{self.session}/{name}", []
            names.append(name)
        yield key, names


def _said(message: dict[str, Any], registry: Registry) -> list[Piece]:
    content = message.get("content")
    match message.get("role"):
        case "user":
            strange: list[dict[str, Any]] = []
            parts = parts_of(content, strange.append)
            pieces = [user_piece(parts, registry)] if parts else []
            return [*pieces, *(kept(json_bytes(block), "openclaw") for block in strange)]
        case "assistant":
            origin = _origin(message)
            blocks = content if isinstance(content, list) else [content]
            return [piece for block in blocks for piece in _block(block, origin, registry)]
        case "toolResult":
            call_id = str(message.get("toolCallId", ""))
            item = FunctionCallOutput(call_id=call_id, output=text_in(content))
            return [item_piece(item, registry)]
        case "bashExecution" if not message.get("excludeFromContext"):
            text = f"$ {message.get('command', '')}\n{message.get('output', '')}"
            return [_told(text, registry)]
        case "custom":
            return _custom(message, registry)
    return []


def _custom(record: dict[str, Any], registry: Registry) -> list[Piece]:
    """What an extension told the model; shown to people where it says so."""
    parts = parts_of(record.get("content"), lambda _: None)
    if not parts:
        return []
    draft = user_piece(parts, registry).draft
    return [Piece(contextual(draft, Flags.NONE if record.get("display") else Flags.HIDDEN))]


def _told(text: str, registry: Registry) -> Piece:
    draft = user_piece(parts_of(text, lambda _: None), registry).draft
    return Piece(contextual(draft))


def _origin(message: dict[str, Any]) -> Origin:
    api = message.get("api")
    provider = clean_id(message.get("provider")) or ""
    name = _APIS.get(api, clean_id(api) or "") if isinstance(api, str) else ""
    return Origin(
        provider=provider,
        api=name or ("messages" if provider == "anthropic" else ""),
        model=clean_id(message.get("model")) or "",
        account="" if provider == "anthropic" else UNKNOWN_ACCOUNT,
        harness="openclaw",
    )


def _block(block: Any, origin: Origin, registry: Registry) -> Iterator[Piece]:
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            if text.strip():
                item = Message(role="assistant", content=(OutputText(text=text),))
                yield item_piece(item, registry, origin)
        case {"type": "toolCall", "id": str(call_id), "name": str(name)}:
            arguments = block.get("arguments", {})
            given = arguments if isinstance(arguments, str) else json_bytes(arguments).decode()
            call = FunctionCall(name=name, arguments=given, call_id=call_id)
            yield item_piece(call, registry, origin)
        case {"type": "thinking", "thinking": str(text)}:
            yield item_piece(_thought(text, block, origin), registry, origin)
        case dict():
            yield kept(json_bytes(block), "openclaw")


def _thought(text: str, block: dict[str, Any], origin: Origin) -> Item:
    """Thinking with the signature of its API; without one, its words alone."""
    signature = block.get("thinkingSignature")
    if isinstance(signature, str) and signature:
        if origin.provider == "anthropic":
            if block.get("redacted") is True:
                return reasoning_item({"type": "redacted_thinking", "data": signature})
            return reasoning_item({"type": "thinking", "thinking": text, "signature": signature})
        try:
            item = decode_item(signature.encode())
        except msgspec.DecodeError:
            item = None
        if isinstance(item, Reasoning):
            return item
    return Reasoning(content=(ReasoningText(text),) if text else None)
