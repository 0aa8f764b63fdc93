"""Provenance: who wrote a message, and which internal event made it.

Owns the signals that are stored beside an entry, their one normal form, and what
follows from them, so that no code has to guess it from text. Invariants: None means
"no signal", never "the user"; what is normal already stays as it is.
"""

# No postponed annotations: decoders read them, and reading them from text takes time.

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

__all__ = [
    "AGENT_MEDIATED",
    "SUBAGENT_ANNOUNCE",
    "SUBAGENT_SETTLE",
    "Attachment",
    "InputProvenance",
    "InternalEvent",
    "ProvenanceKind",
    "TaskStatus",
    "is_completion_report",
    "is_coordination",
    "is_inter_session",
    "normalize_event",
    "normalize_events",
    "normalize_provenance",
    "plain_text",
    "suppresses_persistence",
]

ProvenanceKind: TypeAlias = Literal["external_user", "inter_session", "internal_system"]
TaskStatus: TypeAlias = Literal["ok", "timeout", "error", "unknown"]

SUBAGENT_ANNOUNCE: Final = "subagent_announce"
"""The source tool of a subagent's live announcement."""

SUBAGENT_SETTLE: Final = "subagent_settle"
"""The source tool of a report that several subagents are done; it is kept."""

AGENT_MEDIATED: Final = frozenset(
    {"agent_harness_task", "image_generate", "music_generate", "video_generate"}
)
"""Source tools that report what a task made."""

T = TypeVar("T")

_KINDS: tuple[ProvenanceKind, ...] = ("external_user", "inter_session", "internal_system")
_PEER_KINDS = {"third-party_user": "external_user", "third_party_user": "external_user"}
"""What peers call a kind, where it is not one of ours."""
_STATUSES: tuple[TaskStatus, ...] = ("ok", "timeout", "error", "unknown")
_ROLES: tuple[Literal["subagent"], ...] = ("subagent",)
_LINE, _LABEL, _ADDRESS, _PROSE, _RESULT = 200, 500, 1_000, 2_000, 24_000
_CUT = "…[truncated]"
_JOINERS = "\u200c\u200d"
_KEPT = frozenset("\n\t" + _JOINERS)
_HIDING = frozenset(("Cc", "Cf", "Cs"))
"""Categories of characters: control and format characters, halves of characters."""
_LOOSE_JOINERS = f"(?<![^\x00-\x7f])[{_JOINERS}]+|[{_JOINERS}]+(?![^\x00-\x7f])"


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
    """A task that ended elsewhere and is announced here.

    `source` is ``subagent``, ``cron``, ``image_generation``, ``video_generation``,
    ``music_generation`` or a name of the host's own.
    """

    source: str
    child_thread: str
    task: str
    status: TaskStatus
    status_label: str = ""
    """The text for the status; empty for the status itself."""
    announce_type: str = ""
    result: str = ""
    no_visible_result: bool = False
    """Whether there is nothing to show, whatever `result` holds."""
    attachments: tuple[Attachment, ...] = ()
    stats: str = ""
    reply_instruction: str = ""


_PEER_NAMES = {
    "originSessionId": "origin_thread",
    "sourceSessionKey": "source_thread",
    "childSessionKey": "child_thread",
    "taskLabel": "task",
    "statsLine": "stats",
    "filePath": "path",
    "mediaUrl": "url",
}
"""What peers call a field, where it is not ours in camel case."""


def normalize_provenance(value: object) -> InputProvenance | None:
    """Return the provenance in `value` in its normal form; None if there is none.

    Takes a provenance or a mapping, with our names or in the camel case of peers.
    Texts become one trimmed line; blank ones and unknown fields are dropped. What is
    no object or of an unknown kind is no signal.
    """
    given = _fields(value)
    kind = given.get("kind")
    kind = _one_of(_KINDS, _PEER_KINDS.get(kind, kind) if isinstance(kind, str) else None)
    if kind is None:
        return None
    return InputProvenance(
        kind=kind,
        origin_thread=_line(given.get("origin_thread")) or None,
        source_thread=_line(given.get("source_thread")) or None,
        source_channel=_line(given.get("source_channel")) or None,
        source_tool=_line(given.get("source_tool")) or None,
        source_role=_one_of(_ROLES, given.get("source_role")),
        job_id=_line(given.get("job_id")) or None,
        run_id=_line(given.get("run_id")) or None,
    )


def normalize_event(value: object) -> InternalEvent | None:
    """Return the event in `value` in its normal form; None if there is none.

    Takes an event or a mapping of type ``task_completion``. A source that is not one
    of ours is kept as it is named; a status that is none is ``unknown``.
    """
    given = _fields(value)
    if given.get("type") != "task_completion":
        return None
    return InternalEvent(
        source=_line(given.get("source")) or "unknown",
        child_thread=_line(given.get("child_thread")) or "unknown",
        task=_line(given.get("task"), _LABEL) or "unnamed task",
        status=_one_of(_STATUSES, given.get("status")) or "unknown",
        status_label=_line(given.get("status_label"), _LABEL),
        announce_type=_line(given.get("announce_type")),
        result=_prose(given.get("result"), _RESULT),
        no_visible_result=given.get("no_visible_result") is True,
        attachments=tuple(_attachments(given)),
        stats=_line(given.get("stats"), _LABEL),
        reply_instruction=_prose(given.get("reply_instruction"), _PROSE),
    )


def normalize_events(values: object) -> tuple[InternalEvent, ...]:
    """Return the events of a sequence in their normal form, in order; leave out what is none."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        return ()
    return tuple(event for event in map(normalize_event, values) if event is not None)


def is_inter_session(provenance: InputProvenance | None) -> bool:
    """Return whether another thread sent it."""
    return provenance is not None and provenance.kind == "inter_session"


def is_completion_report(provenance: InputProvenance | None) -> bool:
    """Return whether another thread reports that work ended."""
    if provenance is None or provenance.kind != "inter_session":
        return False
    return provenance.source_tool in {SUBAGENT_ANNOUNCE, SUBAGENT_SETTLE, *AGENT_MEDIATED}


def is_coordination(provenance: InputProvenance | None) -> bool:
    """Return whether a subagent writes to the agents it works with, not to people."""
    if provenance is None or provenance.kind != "inter_session":
        return False
    return provenance.source_role == "subagent" and not is_completion_report(provenance)


def suppresses_persistence(
    provenance: InputProvenance | None, events: Sequence[InternalEvent] = ()
) -> bool:
    """Return whether only the model sees an input: a subagent's live announcement.

    Decided from the signals, never from text.
    """
    if provenance is None or provenance.kind != "inter_session":
        return False
    if provenance.source_tool != SUBAGENT_ANNOUNCE:
        return False
    return any(event.source == "subagent" for event in events)


def plain_text(text: str) -> str:
    """Return `text` without control and format characters and halves of characters.

    Line breaks and tabs stay, and so do joiners inside words of scripts that need them.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    from unicodedata import category

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    seen = (char for char in text if char in _KEPT or category(char) not in _HIDING)
    return re.sub(_LOOSE_JOINERS, "", "".join(seen))


def _fields(value: object) -> dict[str, Any]:
    """Return the members of an object under our names, which win over those of peers."""
    if isinstance(value, Struct):
        value = msgspec.to_builtins(value)
    if not isinstance(value, Mapping):
        return {}
    given = {name: member for name, member in value.items() if isinstance(name, str)}
    peers = {_PEER_NAMES.get(name) or _snake(name): member for name, member in given.items()}
    return {**peers, **given}


def _snake(name: str) -> str:
    """Return ``sourceTool`` as ``source_tool``."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def _one_of(choices: Iterable[T], value: object) -> T | None:
    return next((choice for choice in choices if choice == value), None)


def _attachments(given: Mapping[str, Any]) -> Iterable[Attachment]:
    """Yield the attachments of an event and its bare media addresses; leave out empty ones."""
    listed, media = given.get("attachments"), given.get("media_urls")
    bare = [{"url": url} for url in media] if isinstance(media, list | tuple) else []
    for value in (*(listed if isinstance(listed, list | tuple) else ()), *bare):
        members = _fields(value)
        attachment = Attachment(
            type=_line(members.get("type")) or None,
            name=_line(members.get("name")) or None,
            mime_type=_line(members.get("mime_type")) or None,
            path=_address(members.get("path")),
            url=_address(members.get("url")),
        )
        if attachment != Attachment():
            yield attachment


def _line(value: object, limit: int = _LINE) -> str:
    """Return a text as one trimmed line of at most `limit` characters."""
    if not isinstance(value, str):
        return ""
    line = " ".join(plain_text(" ".join(value.split())).split())
    return line if len(line) <= limit else line[: limit - len(_CUT)] + _CUT


def _address(value: object) -> str | None:
    """Return an address as one line; None for one that is too long, for half of it is useless."""
    line = _line(value, _ADDRESS)
    return None if not line or line.endswith(_CUT) else line


def _prose(value: object, limit: int) -> str:
    """Return a trimmed text of at most `limit` characters; a longer one loses its middle."""
    text = plain_text(value).strip() if isinstance(value, str) else ""
    if len(text) <= limit:
        return text
    half = (limit - len(_CUT)) // 2
    return plain_text(text[:half] + _CUT + text[-half:])
