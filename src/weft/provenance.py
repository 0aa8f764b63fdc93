"""Provenance: who wrote a message, and which internal event made it.

Owns the signals that are stored beside an entry, so that nobody has to guess
them from text. None means "no signal", never "the user".
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

__all__ = ["Attachment", "InputProvenance", "InternalEvent", "ProvenanceKind"]

ProvenanceKind: TypeAlias = Literal["external_user", "inter_session", "internal_system"]


class InputProvenance(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where an input came from."""

    kind: ProvenanceKind = field()
    origin_thread: str | None = None
    source_thread: str | None = None
    source_channel: str | None = None
    source_tool: str | None = None
    source_role: Literal["subagent"] | None = None
    job_id: str | None = None
    run_id: str | None = None


class Attachment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file or medium that came with an event."""

    type: str | None = None
    name: str | None = None
    mime_type: str | None = None
    path: str | None = None
    url: str | None = None


class InternalEvent(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="task_completion"):
    """A task that ended elsewhere and is announced here."""

    source: str
    child_thread: str
    task: str
    status: Literal["ok", "timeout", "error", "unknown"]
    status_label: str = ""
    announce_type: str = ""
    result: str = ""
    no_visible_result: bool = False
    attachments: tuple[Attachment, ...] = ()
    stats: str = ""
    reply_instruction: str = ""
