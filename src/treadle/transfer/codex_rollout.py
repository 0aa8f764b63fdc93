"""Codex: rollouts of the Codex CLI, read and written.

Owns which lines of a rollout are conversation, and the lines that Codex needs beside the
items. Invariants: imported items keep their bytes, and their encrypted parts get an
account that no request uses, for a rollout does not say whose they are; an exported
rollout has no opaque parts of another provider, as in a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..context.compose import is_recordable
from ..context.outbound import outbound
from ..context.row import Row
from ..core.entries import Entry, Flags, Head, Origin, own_parts
from ..core.items import ITEMS, Message, Unknown, decode_item, text_of
from ..core.wire import json_bytes
from ..prompt.registry import Registry
from ..store.contract import ThreadInfo
from .import_drafts import (
    UNKNOWN_ACCOUNT,
    PlacedDraft,
    draft_of_foreign_item,
    notice_draft,
    rollback_draft,
    verbatim_draft,
)
from .import_report import ImportCounts
from .jsonl import JsonLine, iso_time, milliseconds, read_objects, strict_decoder
from .session_format import (
    ImportedSession,
    RecordPosition,
    clean_id,
    existing_directory,
    line_key,
)

__all__ = ["CodexFormat", "Rollout"]

_BOOKKEEPING = frozenset(
    {
        "turn_context",
        "world_state",
        "inter_agent_communication_metadata",
        "security_risk_score",
        "token_usage_record",
        *(
            f"event_msg.{event}"
            for event in (
                *("user_message", "agent_message", "agent_reasoning", "item_completed"),
                *("agent_reasoning_raw_content", "agent_reasoning_section_break", "token_count"),
                *("task_started", "turn_started", "task_complete", "turn_complete"),
                *("turn_aborted", "thread_settings_applied", "thread_goal_updated"),
                *("entered_review_mode", "exited_review_mode", "patch_apply_end"),
                *("context_compacted", "mcp_tool_call_end", "web_search_end"),
                *("image_generation_end", "sub_agent_activity", "thread_name_updated"),
                *("exec_command_end", "view_image_tool_call", "plan_update", "turn_diff"),
            )
        ),
    }
)
"""Types of lines that repeat an item, or that only Codex needs."""

_ROLES = frozenset({"user", "assistant", "developer"})
_ROLLBACK = "event_msg.thread_rolled_back"
_HEAD = Head(provider="openai", api="responses", model="", images=True, audio=True)
_NOT_SHOWN = Flags.CONTEXTUAL | Flags.VOLATILE | Flags.HIDDEN


class _Record(Struct):
    type: Any = ""
    payload: Raw = Raw(b"null")
    timestamp: Any = None


_record = msgspec.json.Decoder(_Record)
_payload = msgspec.json.Decoder(dict[str, Any])


class CodexFormat:
    """Reads rollouts, also those of 2025 whose lines are bare items."""

    name = "codex"
    agent = "Codex"

    def scan(self, path: Path, counts: ImportCounts) -> list[ImportedSession]:
        """Return the one conversation of a rollout."""
        scan = _RolloutScan(counts, path.stem)
        for line, record in read_objects(path, strict_decoder(_record.decode), counts):
            scan.add(line, record)
        return scan.sessions()

    def drafts(
        self, data: bytes, position: RecordPosition, registry: Registry
    ) -> list[PlacedDraft]:
        """Return the drafts of a line."""
        record = _record.decode(data)
        match _kind(record):
            case "response_item":
                return _item_drafts(record.payload, position, registry)
            case "compacted" if position.is_first:
                return _base_drafts(record.payload, position, registry)
            case "bare":
                return _item_drafts(Raw(data), position, registry)
            case kind if kind == _ROLLBACK:
                return _rollback_drafts(record.payload)
        return []

    def time(self, data: bytes) -> int | None:
        """Return the time of a line."""
        return milliseconds(_record.decode(data).timestamp)


@dataclass(slots=True)
class _RolloutScan:
    """A rollout while it is scanned."""

    counts: ImportCounts
    stem: str
    session: ImportedSession | None = None
    provider: str = "openai"
    model: str = ""

    def add(self, line: JsonLine, record: _Record) -> None:
        kind = _kind(record)
        if kind == "session_meta":
            self._begin(record.payload)
        elif kind == "header":
            self._begin(Raw(line.data))
        elif kind in _BOOKKEEPING or (
            kind == "response_item" and not _is_conversation(record.payload)
        ):
            self._leave_out(kind, record.payload)
        else:
            self._add_position(line)

    def _begin(self, payload: Raw) -> None:
        """Begin the session; a later header is a copy from the session this one was forked from."""
        if self.session is not None:
            self.counts.left_out["session_meta"] += 1
            return
        meta = _members(payload)
        name = clean_id(meta.get("id")) or self.stem
        self.provider = clean_id(meta.get("model_provider")) or self.provider
        self.session = ImportedSession(
            key=f"codex:{name}", cwd=existing_directory(meta.get("cwd")), positions=[]
        )

    def _leave_out(self, kind: str, payload: Raw) -> None:
        if kind == "turn_context" and (model := clean_id(_members(payload).get("model"))):
            self.model = model
        self.counts.left_out[kind] += 1

    def _add_position(self, line: JsonLine) -> None:
        if self.session is None:
            self.session = ImportedSession(key=f"codex:{self.stem}", positions=[])
        session = self.session
        key = line_key(session.key.removeprefix("codex:"), line)
        is_first = not session.positions
        session.positions.append(
            RecordPosition(key, line.offset, len(line.data), self.provider, self.model, is_first)
        )

    def sessions(self) -> list[ImportedSession]:
        return [self.session] if self.session and self.session.positions else []


def _kind(record: _Record) -> str:
    """Return the type of a line, of an event with its own; ``bare`` for an item by itself."""
    if record.type == "event_msg":
        return f"event_msg.{_members(record.payload).get('type', '')}"
    kind = record.type if isinstance(record.type, str) else ""
    if record.payload != Raw(b"null"):
        return kind
    return "bare" if kind else "header"


def _members(payload: Raw) -> dict[str, Any]:
    try:
        return _payload.decode(payload)
    except msgspec.ValidationError:
        return {}


def _is_conversation(payload: Raw) -> bool:
    """Return whether an item is part of the conversation."""
    item = decode_item(payload)
    return is_recordable(item) or isinstance(item, Message)


def _item_drafts(payload: Raw, position: RecordPosition, registry: Registry) -> list[PlacedDraft]:
    item = ITEMS.decode(payload)
    if isinstance(item, Message) and item.role not in _ROLES:
        text = text_of(item.content)
        return [notice_draft(text, "codex")] if item.role == "system" and text else []
    if isinstance(item, Unknown) or not is_recordable(item):
        return []
    origin = Origin(
        provider=position.provider,
        api="responses",
        model=position.model,
        account=UNKNOWN_ACCOUNT,
        harness="codex",
    )
    return [draft_of_foreign_item(item, registry, origin)]


def _base_drafts(payload: Raw, position: RecordPosition, registry: Registry) -> list[PlacedDraft]:
    """Return the start of a rollout that begins with a compacted history."""
    history = _members(payload).get("replacement_history")
    drafts: list[PlacedDraft] = []
    for value in history if isinstance(history, list) else ():
        body = Raw(msgspec.json.encode(value))
        drafts += _item_drafts(body, position, registry) or [verbatim_draft(body, "codex")]
    return drafts


def _rollback_drafts(payload: Raw) -> list[PlacedDraft]:
    turns = _members(payload).get("num_turns")
    return [rollback_draft(turns)] if isinstance(turns, int) and turns >= 1 else []


@dataclass(frozen=True, slots=True)
class Rollout:
    """Writes one thread as a rollout that Codex can resume."""

    info: ThreadInfo

    @property
    def session(self) -> str:
        """The id of the session in Codex."""
        return self.info.id.partition("_")[2] or self.info.id

    @property
    def name(self) -> str:
        """The file name that Codex gives to such a rollout."""
        created = datetime.fromtimestamp(self.info.created / 1000, UTC)
        return f"rollout-{created:%Y-%m-%dT%H-%M-%S}-{self.session}.jsonl"

    def head(self) -> bytes:
        """Return the first line of the rollout."""
        meta = {
            "id": self.session,
            "timestamp": iso_time(self.info.created),
            "cwd": self.info.cwd or "/",
            "originator": "treadle",
            "cli_version": "0.0.0",
            "source": "cli",
            "model_provider": "openai",
        }
        return _encode_line(self.info.created, "session_meta", meta)

    def write(self, entry: Entry, *, visible: bool) -> bytes:
        """Return the lines of one entry; none if Codex cannot use it."""
        if entry.kind != "item" or not visible:
            return b""
        body = outbound(Row.of_entry(entry), _HEAD)
        if body is None:
            return b""
        return _encode_line(entry.time, "response_item", Raw(body)) + _event_line(entry)


def _event_line(entry: Entry) -> bytes:
    """Return the event of a message; Codex lists a thread by its first one."""
    item = entry.item
    if not isinstance(item, Message) or entry.flags & _NOT_SHOWN:
        return b""
    text = text_of(own_parts(item.content, entry.fragments))
    kind = {"user": "user_message", "assistant": "agent_message"}.get(item.role)
    if kind is None or not text:
        return b""
    return _encode_line(entry.time, "event_msg", {"type": kind, "message": text})


def _encode_line(time: int, kind: str, payload: object) -> bytes:
    return json_bytes({"timestamp": iso_time(time), "type": kind, "payload": payload}) + b"\n"
