"""Claude Code: transcripts of its sessions and of their agents.

Owns which records of a transcript are the conversation (the path to the newest message,
and what belongs to it beside the path) and what each record becomes. Invariants: every
record is on a path, outside the tree, left out or abandoned, and counted; thinking is
stored as the block it was, with its signature, and can be sent to Anthropic only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..context.compose import item_draft
from ..core.entries import Origin
from ..core.items import FunctionCall, FunctionCallOutput, Message, OutputText, Part
from ..core.wire import json_bytes
from ..models.formats.messages import THINKING, reasoning_item
from ..prompt.input import past_message
from ..prompt.legacy import LegacyTag
from ..prompt.registry import Registry
from .import_drafts import (
    REMINDER_TAGS,
    PlacedDraft,
    as_context,
    as_history,
    draft_of_item,
    notice_draft,
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

__all__ = ["ClaudeFormat"]

_TAGS = tuple(LegacyTag(tag, "user") for tag in REMINDER_TAGS)
_OPENINGS = ("<command-name>", "<command-message>", "[Request interrupted by user")

_BOOKKEEPING = frozenset(
    {
        *("summary", "custom-title", "ai-title", "agent-name", "last-prompt"),
        *("file-history-snapshot", "queue-operation", "permission-mode", "mode", "tag"),
        *("progress", "pr-link", "worktree-state", "agent-setting", "content-replacement"),
    }
)
"""Types of records that are no part of the conversation."""

_LINKED = _BOOKKEEPING | {"user", "assistant", "system", "attachment"}
"""Types of records whose place in the tree is known, also at a root of it."""

_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""The records that name a session and their fields, the best first."""


class ClaudeFormat:
    """Reads transcripts; agents in the same file become threads of their own."""

    name = "claude"
    agent = "Claude Code"

    def scan(self, path: Path, counts: ImportCounts) -> list[ImportedSession]:
        """Return the conversations of a transcript."""
        transcript = _Transcript(counts, path.stem)
        for line, record in read_records(path, counts):
            transcript.add(line, record)
        return list(transcript.sessions())

    def drafts(
        self, data: bytes, position: RecordPosition, registry: Registry
    ) -> list[PlacedDraft]:
        """Return the drafts of a record."""
        record = decode_object(data)
        match record:
            case {"type": "user", "message": {"content": content}}:
                if record.get("isCompactSummary") and not position.is_first:
                    return []
                return _user_drafts(content, registry, meta=_is_meta(record))
            case {"type": "assistant", "message": {"content": content} as message}:
                if record.get("isApiErrorMessage"):
                    text = output_of(content)
                    return [notice_draft(text, "claude", "error")] if isinstance(text, str) else []
                return _assistant_drafts(content, message, registry)
            case {"type": "system", "content": str(text)} if text.strip():
                return [notice_draft(text, "claude")]
        return []

    def time(self, data: bytes) -> int | None:
        """Return the time of a record."""
        return milliseconds(decode_object(data).get("timestamp"))


class _Record(msgspec.Struct):
    """What a scan remembers of a record."""

    node: TreeNode
    position: RecordPosition
    chain: str
    kind: str
    only_links: bool = False
    """Whether it has no text and only links other records."""
    message: str = ""
    outputs: frozenset[str] = frozenset()
    """The calls that it holds the outputs of."""
    calls: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Transcript:
    """A transcript while it is scanned."""

    counts: ImportCounts
    session: str
    has_session_id: bool = False
    records: dict[str, _Record] = field(default_factory=dict)
    order: list[TreeNode] = field(default_factory=list)
    outside: list[RecordPosition] = field(default_factory=list)
    """Unknown records outside the tree."""
    titles: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Titles with their kinds; a summary also says which message it is about."""
    cwd: str = ""
    chains: dict[str, str] = field(default_factory=dict)
    """The chain of each record: the session's own, or the first record of an agent's."""
    leaves: dict[str, str] = field(default_factory=dict)
    """The newest message of each chain."""

    def add(self, line: JsonLine, record: dict[str, Any]) -> None:
        """Add the next record."""
        kind = record.get("type")
        kind = kind if isinstance(kind, str) else ""
        self.cwd = self.cwd or existing_directory(record.get("cwd"))
        if not self.has_session_id and (session := clean_id(record.get("sessionId"))):
            self.session, self.has_session_id = session, True
        name = clean_id(record.get("uuid"))
        is_unlinked = kind not in _LINKED and _parent(record) is None
        if name is None or is_unlinked or name in self.records:
            self._add_outside(line, kind, record)
        else:
            self._add_node(line, kind, name, record)

    def _add_outside(self, line: JsonLine, kind: str, record: dict[str, Any]) -> None:
        """Add a record outside the tree: a title, bookkeeping, or something unknown."""
        if kind in _TITLES and (title := clean_line(record.get(_TITLES[kind]))):
            self.titles.append((kind, title, clean_id(record.get("leafUuid"))))
        if kind in _BOOKKEEPING or clean_id(record.get("uuid")) in self.records:
            self.counts.left_out[kind] += 1
            return
        self.outside.append(RecordPosition(line_key("", line), line.offset, len(line.data)))

    def _add_node(self, line: JsonLine, kind: str, name: str, record: dict[str, Any]) -> None:
        parent = _parent(record)
        node = TreeNode(name, parent, len(self.order))
        message = record.get("message")
        message = message if isinstance(message, dict) else {}
        self.records[name] = _Record(
            node,
            RecordPosition(name, line.offset, len(line.data)),
            self._chain_of(name, parent, record),
            kind,
            _only_links(kind, record),
            clean_id(message.get("id")) or "",
            frozenset(_ids(message, "tool_result", "tool_use_id")),
            frozenset(_ids(message, "tool_use", "id")),
        )
        self.order.append(node)
        if kind in ("user", "assistant"):
            self.leaves[self.chains[name]] = name

    def _chain_of(self, name: str, parent: str | None, record: dict[str, Any]) -> str:
        """Return the chain of a record, and remember it for its children."""
        chain = ""
        if record.get("isSidechain") is True:
            chain = clean_id(record.get("agentId")) or self.chains.get(parent or "") or name
        self.chains[name] = chain
        return chain

    def sessions(self) -> Iterator[ImportedSession]:
        """Yield the session itself, then its agents."""
        title = self._title()
        taken: set[str] = set()
        key = ""
        for chain in sorted(self.leaves, key=lambda chain: (bool(chain), chain)):
            positions = self._positions(chain, taken)
            if not key:
                outside = (
                    msgspec.structs.replace(each, key=f"{self.session}{each.key}")
                    for each in self.outside
                )
                positions = sorted((*positions, *outside), key=lambda each: each.offset)
            key = f"claude:{self.session}" + (f"/{chain}" if chain else "")
            name = f"agent {chain}" if chain else title
            yield ImportedSession(key=key, title=name, cwd=self.cwd, positions=positions)
        self.counts.abandoned += len(self.records) - len(taken) + (0 if key else len(self.outside))

    def _title(self) -> str:
        """Return the newest title of the best kind; summaries of other sessions do not count."""
        titles = {
            kind: title for kind, title, leaf in self.titles if leaf is None or leaf in self.records
        }
        return next((titles[kind] for kind in _TITLES if kind in titles), "")

    def _positions(self, chain: str, taken: set[str]) -> list[RecordPosition]:
        """Return the records of a conversation in order; count those that only link others."""
        by_id = {name: each.node for name, each in self.records.items() if each.chain == chain}
        order = [node for node in self.order if node.id in by_id]
        for index, node in enumerate(order):
            node.index = index
        path = [node.id for node in path_to(by_id[self.leaves[chain]], order, by_id)]
        found = {*path, *self._beside(path, order)}
        taken |= found
        records = [self.records[node.id] for node in order if node.id in found]
        self.counts.left_out.update(each.kind for each in records if each.only_links)
        positions = [each.position for each in records if not each.only_links]
        return [msgspec.structs.replace(each, is_first=not at) for at, each in enumerate(positions)]

    def _beside(self, path: list[str], order: list[TreeNode]) -> Iterator[str]:
        """Yield records beside the path: parts of its answers, and outputs of its calls."""
        answers = {self.records[name].message for name in path} - {""}
        taken = set(path)
        rest = [node.id for node in order if node.id not in taken]
        calls = frozenset().union(*(self.records[name].calls for name in path))
        for name in rest:
            if self.records[name].message in answers:
                calls |= self.records[name].calls
                yield name
        known = frozenset().union(*(self.records[name].outputs for name in path))
        for name in rest:
            outputs = self.records[name].outputs
            if outputs and outputs <= calls - known:
                known |= outputs
                yield name


def _parent(record: dict[str, Any]) -> str | None:
    return clean_id(record.get("parentUuid")) or clean_id(record.get("logicalParentUuid"))


def _only_links(kind: str, record: dict[str, Any]) -> bool:
    text = record.get("content")
    has_text = isinstance(text, str) and text.strip()
    return kind in _BOOKKEEPING or (kind == "system" and not has_text)


def _ids(message: dict[str, Any], kind: str, field_name: str) -> Iterator[str]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield str(block.get(field_name))


def _is_meta(record: dict[str, Any]) -> bool:
    return record.get("isMeta") is True or record.get("isCompactSummary") is True


def _user_drafts(content: object, registry: Registry, *, meta: bool) -> list[PlacedDraft]:
    """Return the drafts of a message of the user, of tools or of the harness."""
    drafts: list[PlacedDraft] = []
    blocks: list[Any] = content if isinstance(content, list) else [content]
    for block in blocks:
        if _is_output(block):
            output = output_of(block.get("content", ""))
            call_id = str(block.get("tool_use_id", ""))
            item = FunctionCallOutput(call_id=call_id, output=output)
            drafts.append(draft_of_item(item, registry))
    unknown: list[dict[str, Any]] = []
    rest = [block for block in blocks if not _is_output(block)]
    parts = parts_of(rest if isinstance(content, list) else content, unknown.append)
    if parts:
        drafts.append(_message_draft(parts, registry, meta=meta))
    return [*drafts, *(verbatim_draft(json_bytes(block), "claude") for block in unknown)]


def _is_output(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _message_draft(parts: tuple[Part, ...], registry: Registry, *, meta: bool) -> PlacedDraft:
    """Return a message of the user; parts that the harness added are marked as such."""
    is_known = registry.is_contextual(past_message(parts))
    history = as_history(
        past_message(parts),
        registry,
        lambda text: _is_told(text) or registry.recognise("user", text) is not None,
    )
    draft = item_draft(history.message)
    if meta or is_known or len(history.quotations) == len(history.message.content):
        return PlacedDraft(as_context(draft))
    return PlacedDraft(msgspec.structs.replace(draft, fragments=history.marks), "input")


def _is_told(text: str) -> bool:
    """Return whether the harness wrote a text."""
    opens = text.lstrip().startswith(_OPENINGS)
    return opens or any(tag.matches(text) for tag in _TAGS)


def _assistant_drafts(
    content: object, message: dict[str, Any], registry: Registry
) -> list[PlacedDraft]:
    origin = Origin(
        provider="anthropic",
        api="messages",
        model=clean_id(message.get("model")) or "",
        harness="claude-code",
    )
    blocks: Iterable[object] = content if isinstance(content, list) else [content]
    return [draft for block in blocks for draft in _block_drafts(block, origin, registry)]


def _block_drafts(block: Any, origin: Origin, registry: Registry) -> Iterator[PlacedDraft]:
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            if text.strip():
                item = Message(role="assistant", content=(OutputText(text=text),))
                yield draft_of_item(item, registry, origin)
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            arguments = json_bytes(block.get("input", {})).decode()
            call = FunctionCall(name=name, arguments=arguments, call_id=call_id)
            yield draft_of_item(call, registry, origin)
        case {"type": kind} if kind in THINKING:
            yield draft_of_item(reasoning_item(block), registry, origin)
        case dict():
            yield verbatim_draft(json_bytes(block), "claude")
