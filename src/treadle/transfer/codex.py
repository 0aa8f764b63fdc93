"""Codex: rollouts of the Codex CLI.

Owns which lines of a rollout are conversation and which only repeat or serve it.
Invariant: items keep their bytes; encrypted parts are stored under an account that
nobody asks with, for a rollout does not say whose they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..context.compose import is_recordable
from ..core.entries import Origin, Rollback, control_draft
from ..core.items import ITEMS, Message, Unknown, decode_item, text_of
from ..prompt.registry import Registry
from .lines import Line, read_objects, sound
from .pieces import UNKNOWN_ACCOUNT, Piece, foreign_piece, kept, milliseconds, notice
from .sessions import Session, Spot, clean_id, existing, line_key
from .tally import Tally

__all__ = ["BOOKKEEPING", "CodexFormat", "rolled_back"]

BOOKKEEPING = frozenset(
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
"""Lines that repeat an item, or that only Codex needs."""

_ROLES = frozenset({"user", "assistant", "developer"})
_ROLLED_BACK = "event_msg.thread_rolled_back"


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

    def survey(self, path: Path, tally: Tally) -> list[Session]:
        """The one conversation of a rollout."""
        reading = _Reading(tally, path.stem)
        for line, record in read_objects(path, sound(_record.decode), tally):
            reading.add(line, record)
        return reading.sessions()

    def pieces(self, data: bytes, spot: Spot, registry: Registry) -> list[Piece]:
        """What a line becomes."""
        record = _record.decode(data)
        match _kind(record):
            case "response_item":
                return _item_pieces(record.payload, spot, registry)
            case "compacted" if spot.alone:
                return _base_pieces(record.payload, spot, registry)
            case "bare":
                return _item_pieces(Raw(data), spot, registry)
            case kind if kind == _ROLLED_BACK:
                return _rollback_pieces(record.payload)
        return []

    def time(self, data: bytes) -> int | None:
        """When a line was written."""
        return milliseconds(_record.decode(data).timestamp)


@dataclass(slots=True)
class _Reading:
    """A rollout on its way through."""

    tally: Tally
    stem: str
    session: Session | None = None
    provider: str = "openai"
    model: str = ""

    def add(self, line: Line, record: _Record) -> None:
        kind = _kind(record)
        if kind == "session_meta":
            self.begin(record.payload)
        elif kind == "header":
            self.begin(Raw(line.data))
        elif kind in BOOKKEEPING or (kind == "response_item" and not _belongs(record.payload)):
            self.note(kind, record.payload)
        else:
            self.keep(line)

    def begin(self, payload: Raw) -> None:
        """The first head of a rollout is its own; others came along with a fork."""
        if self.session is not None:
            self.tally.left_out["session_meta"] += 1
            return
        meta = _members(payload)
        name = clean_id(meta.get("id")) or self.stem
        self.provider = clean_id(meta.get("model_provider")) or self.provider
        self.session = Session(key=f"codex:{name}", cwd=existing(meta.get("cwd")), spots=[])

    def note(self, kind: str, payload: Raw) -> None:
        if kind == "turn_context" and (model := clean_id(_members(payload).get("model"))):
            self.model = model
        self.tally.left_out[kind] += 1

    def keep(self, line: Line) -> None:
        session = self.begun()
        key = line_key(session.key.removeprefix("codex:"), line)
        alone = not session.spots
        session.spots.append(
            Spot(key, line.offset, len(line.data), self.provider, self.model, alone)
        )

    def begun(self) -> Session:
        if self.session is None:
            self.session = Session(key=f"codex:{self.stem}", spots=[])
        return self.session

    def sessions(self) -> list[Session]:
        return [self.session] if self.session and self.session.spots else []


def _kind(record: _Record) -> str:
    """The type of a line, of an event with its own; ``bare`` for an item without an envelope."""
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


def _belongs(payload: Raw) -> bool:
    """Whether an item is conversation, and no control of a request."""
    item = decode_item(payload)
    return is_recordable(item) or isinstance(item, Message)


def _item_pieces(payload: Raw, spot: Spot, registry: Registry) -> list[Piece]:
    item = ITEMS.decode(payload)
    if isinstance(item, Message) and item.role not in _ROLES:
        text = text_of(item.content)
        return [notice(text, "codex")] if item.role == "system" and text else []
    if isinstance(item, Unknown) or not is_recordable(item):
        return []
    origin = Origin(
        provider=spot.provider,
        api="responses",
        model=spot.model,
        account=UNKNOWN_ACCOUNT,
        harness="codex",
    )
    return [foreign_piece(item, registry, origin)]


def _base_pieces(payload: Raw, spot: Spot, registry: Registry) -> list[Piece]:
    """What a rollout starts from that holds only a compacted past."""
    history = _members(payload).get("replacement_history")
    pieces: list[Piece] = []
    for value in history if isinstance(history, list) else ():
        body = Raw(msgspec.json.encode(value))
        pieces += _item_pieces(body, spot, registry) or [kept(body, "codex")]
    return pieces


def _rollback_pieces(payload: Raw) -> list[Piece]:
    turns = _members(payload).get("num_turns")
    if not isinstance(turns, int) or turns < 1:
        return []
    # Which entries that are, only the log knows.
    return [Piece(control_draft(Rollback(0, turns)))]


def rolled_back(piece: Piece) -> int:
    """How many turns a piece takes back; 0 for one that takes none."""
    if piece.draft.kind != "rollback":
        return 0
    return msgspec.json.decode(piece.draft.body, type=Rollback).turns or 0
