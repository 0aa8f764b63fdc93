"""OpenClaw: session files with a header and a tree of entries.

Owns which entries are the conversation: the path to the newest leaf; a reset begins a
conversation of its own. Invariant: a summary of entries in the same file is stored
verbatim and not sent to models, for the entries are all there.
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
from .import_drafts import (
    UNKNOWN_ACCOUNT,
    PlacedDraft,
    as_context,
    draft_of_item,
    draft_of_user,
    output_of,
    parts_of,
    verbatim_draft,
)
from .import_report import ImportCounts
from .jsonl import JsonLine, decode_object, milliseconds, read_records
from .session_format import (
    ImportedSession,
    RecordPosition,
    TreeNode,
    clean_id,
    clean_line,
    existing_directory,
    line_key,
    path_to,
)

__all__ = ["OpenClawFormat"]

_BOOKKEEPING = frozenset(
    {"thinking_level_change", "model_change", "label", "session_info", "leaf", "session_state"}
)
"""Types of entries that are no part of the conversation."""

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

    def scan(self, path: Path, counts: ImportCounts) -> list[ImportedSession]:
        """Return the conversations of a session: one, and one more for each reset."""
        scan = _SessionScan(counts, path.stem)
        for line, record in read_records(path, counts):
            scan.add(line, record)
        return list(scan.sessions())

    def drafts(
        self, data: bytes, position: RecordPosition, registry: Registry
    ) -> list[PlacedDraft]:
        """Return the drafts of an entry."""
        record = decode_object(data)
        match record:
            case {"type": "message", "message": dict(message)}:
                return _message_drafts(message, registry)
            case {"type": "custom_message"}:
                return _extension_drafts(record, registry)
            case {"type": "branch_summary", "summary": str(text)} if text.strip():
                return [_context_draft(text, registry)]
            case {"type": "compaction", "summary": str(text)} if position.is_first and text.strip():
                return [_context_draft(text, registry)]
        return []

    def time(self, data: bytes) -> int | None:
        """Return the time of an entry."""
        record = decode_object(data)
        message = record.get("message")
        inner = message.get("timestamp") if isinstance(message, dict) else None
        return milliseconds(record.get("timestamp")) or milliseconds(inner)


@dataclass(slots=True)
class _SessionScan:
    """A session file while it is scanned."""

    counts: ImportCounts
    session: str
    title: str = ""
    cwd: str = ""
    leaf: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    positions: dict[str, RecordPosition] = field(default_factory=dict)
    order: list[TreeNode] = field(default_factory=list)

    def add(self, line: JsonLine, record: dict[str, Any]) -> None:
        kind = record.get("type")
        kind = kind if isinstance(kind, str) else ""
        if kind == "session":
            self.session = clean_id(record.get("id")) or self.session
            self.cwd = existing_directory(record.get("cwd"))
            return
        if kind == "session_info":
            self.title = clean_line(record.get("name")) or self.title
        given = clean_id(record.get("id"))
        name = given or line_key(self.session, line)
        if name in self.positions:
            self.counts.left_out[kind] += 1
            return
        before = self.order[-1].id if self.order else None
        parent = clean_id(record.get("parentId")) if given and "parentId" in record else before
        self.kinds[name] = kind
        self.positions[name] = RecordPosition(name, line.offset, len(line.data))
        self.order.append(TreeNode(name, parent, len(self.order)))
        self._move_leaf(kind, name, record)

    def _move_leaf(self, kind: str, name: str, record: dict[str, Any]) -> None:
        """Make the newest entry the leaf, unless it is a side entry or points to another one."""
        pointed = clean_id(record.get("leafId")) or clean_id(record.get("targetId"))
        if kind in ("leaf", "session_state"):
            self.leaf = pointed if pointed in self.positions else self.leaf
        elif record.get("appendMode") != "side":
            self.leaf = name

    def sessions(self) -> Iterator[ImportedSession]:
        """Yield the conversation up to the first reset, and one from each reset on."""
        if not self.leaf:
            self.counts.abandoned += len(self.order)
            return
        by_id = {node.id: node for node in self.order}
        path = [node.id for node in path_to(by_id[self.leaf], self.order, by_id)]
        abandoned = self.positions.keys() - set(path)
        self.counts.abandoned += sum(self.kinds[name] not in _BOOKKEEPING for name in abandoned)
        left_out = (self.kinds[name] for name in path if self.kinds[name] in _BOOKKEEPING)
        self.counts.left_out.update(left_out)
        for key, names in self._split_at_resets(path):
            shown = [name for name in names if self.kinds[name] not in _BOOKKEEPING]
            positions = [
                msgspec.structs.replace(self.positions[name], is_first=not at)
                for at, name in enumerate(shown)
            ]
            if positions:
                yield ImportedSession(key=key, title=self.title, cwd=self.cwd, positions=positions)

    def _split_at_resets(self, path: list[str]) -> Iterator[tuple[str, list[str]]]:
        key, names = f"openclaw:{self.session}", list[str]()
        for name in path:
            if self.kinds[name] == "reset":
                yield key, names
                key, names = f"openclaw:{self.session}/{name}", []
            names.append(name)
        yield key, names


def _message_drafts(message: dict[str, Any], registry: Registry) -> list[PlacedDraft]:
    content = message.get("content")
    match message.get("role"):
        case "user":
            unknown: list[dict[str, Any]] = []
            parts = parts_of(content, unknown.append)
            drafts = [draft_of_user(parts, registry)] if parts else []
            return [*drafts, *(verbatim_draft(json_bytes(block), "openclaw") for block in unknown)]
        case "assistant":
            origin = _origin(message)
            blocks = content if isinstance(content, list) else [content]
            return [draft for block in blocks for draft in _block_drafts(block, origin, registry)]
        case "toolResult":
            call_id = str(message.get("toolCallId", ""))
            item = FunctionCallOutput(call_id=call_id, output=output_of(content))
            return [draft_of_item(item, registry)]
        case "bashExecution" if not message.get("excludeFromContext"):
            text = f"$ {message.get('command', '')}\n{message.get('output', '')}"
            return [_context_draft(text, registry)]
        case "custom":
            return _extension_drafts(message, registry)
    return []


def _extension_drafts(record: dict[str, Any], registry: Registry) -> list[PlacedDraft]:
    """Return a message of an extension to the model; hidden unless it asks to be shown."""
    parts = parts_of(record.get("content"), lambda _: None)
    if not parts:
        return []
    draft = draft_of_user(parts, registry).draft
    return [PlacedDraft(as_context(draft, Flags.NONE if record.get("display") else Flags.HIDDEN))]


def _context_draft(text: str, registry: Registry) -> PlacedDraft:
    draft = draft_of_user(parts_of(text, lambda _: None), registry).draft
    return PlacedDraft(as_context(draft))


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


def _block_drafts(block: Any, origin: Origin, registry: Registry) -> Iterator[PlacedDraft]:
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            if text.strip():
                item = Message(role="assistant", content=(OutputText(text=text),))
                yield draft_of_item(item, registry, origin)
        case {"type": "toolCall", "id": str(call_id), "name": str(name)}:
            arguments = block.get("arguments", {})
            given = arguments if isinstance(arguments, str) else json_bytes(arguments).decode()
            call = FunctionCall(name=name, arguments=given, call_id=call_id)
            yield draft_of_item(call, registry, origin)
        case {"type": "thinking", "thinking": str(text)}:
            yield draft_of_item(_reasoning(text, block, origin), registry, origin)
        case dict():
            yield verbatim_draft(json_bytes(block), "openclaw")


def _reasoning(text: str, block: dict[str, Any], origin: Origin) -> Item:
    """Return thinking with the signature of its API; without one, only its text."""
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
