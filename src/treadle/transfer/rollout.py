"""Rollouts: a thread as a file that Codex resumes.

Owns the lines that Codex needs beside the items. Invariant: opaque parts that another
provider made are left out, as in a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import Raw

from ..context.outbound import outbound
from ..context.row import Row
from ..core.entries import Entry, Flags, Head, own_parts
from ..core.items import Message, text_of
from ..core.wire import json_bytes
from ..store.contract import ThreadInfo

__all__ = ["Rollout", "iso"]

_HEAD = Head(provider="openai", api="responses", model="", images=True, audio=True)
_UNSPOKEN = Flags.CONTEXTUAL | Flags.VOLATILE | Flags.HIDDEN


@dataclass(frozen=True, slots=True)
class Rollout:
    """Writes one thread as a rollout."""

    info: ThreadInfo

    @property
    def session(self) -> str:
        """The id under which Codex finds it."""
        return self.info.id.partition("_")[2] or self.info.id

    @property
    def name(self) -> str:
        """What Codex calls such a file."""
        began = datetime.fromtimestamp(self.info.created / 1000, UTC)
        return f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{self.session}.jsonl"

    def head(self) -> bytes:
        """The line that begins a rollout."""
        meta = {
            "id": self.session,
            "timestamp": iso(self.info.created),
            "cwd": self.info.cwd or "/",
            "originator": "treadle",
            "cli_version": "0.0.0",
            "source": "cli",
            "model_provider": "openai",
        }
        return _line(self.info.created, "session_meta", meta)

    def write(self, entry: Entry, *, visible: bool) -> bytes:
        """The lines of one entry; none where Codex can do nothing with it."""
        if entry.kind != "item" or not visible:
            return b""
        body = outbound(Row.of_entry(entry), _HEAD)
        if body is None:
            return b""
        return _line(entry.time, "response_item", Raw(body)) + _event(entry)


def _event(entry: Entry) -> bytes:
    """What people see of a message; Codex lists a thread by its first one."""
    item = entry.item
    if not isinstance(item, Message) or entry.flags & _UNSPOKEN:
        return b""
    text = text_of(own_parts(item.content, entry.fragments))
    kind = {"user": "user_message", "assistant": "agent_message"}.get(item.role)
    if kind is None or not text:
        return b""
    return _line(entry.time, "event_msg", {"type": kind, "message": text})


def _line(time: int, kind: str, payload: object) -> bytes:
    return json_bytes({"timestamp": iso(time), "type": kind, "payload": payload}) + b"\n"


def iso(milliseconds: int) -> str:
    """A time of the log in ISO 8601, to the millisecond."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
