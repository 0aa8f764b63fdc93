"""Info: what a context engine says of itself, and what it asks of its host.

Owns the vocabulary of capabilities. Invariant: an engine that a host cannot serve is
refused with a sentence that names what is missing; it is never served by halves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

__all__ = [
    "CAPABILITIES",
    "HOST_PARAMS",
    "LOOP_CAPABILITIES",
    "Capability",
    "EngineInfo",
    "HostParam",
    "MaintenanceMode",
    "Operation",
    "Requirement",
    "TranscriptPromise",
    "unmet_requirement",
]

Capability: TypeAlias = Literal[
    "bootstrap",
    "assemble-before-prompt",
    "after-turn",
    "maintain",
    "compact",
    "runtime-llm-complete",
    "thread-bootstrap-projection",
]
"""What a harness may be able to do for an engine."""

CAPABILITIES: frozenset[Capability] = frozenset(get_args(Capability))

LOOP_CAPABILITIES: frozenset[Capability] = CAPABILITIES - {"thread-bootstrap-projection"}
"""What Treadle's own loop can do: it has no thread of its own that could be bootstrapped."""

Operation: TypeAlias = Literal["agent-run", "manual-compact", "subagent-spawn"]
MaintenanceMode: TypeAlias = Literal["foreground", "background"]

HostParam: TypeAlias = Literal["prompt", "settings", "context", "cancelled"]

HOST_PARAMS: frozenset[HostParam] = frozenset(get_args(HostParam))
"""Parameters that the host adds beyond the conversation; an engine may decline them."""


class Requirement(Struct, frozen=True, kw_only=True):
    """What an operation needs of its host."""

    capabilities: tuple[Capability, ...]
    message: str = ""
    """What to tell the user where they are missing."""


class TranscriptPromise(Struct, frozen=True, kw_only=True):
    """What an engine promises about the log."""

    current_turn_fence: Literal["before-current-turn-entry-v1"] | None = None
    """It reads only what lies before the current turn."""
    turn_advancement: Literal["atomic-idempotent-v1"] | None = None
    """Its `commit_turn` is keyed and atomic."""


class EngineInfo(Struct, frozen=True, kw_only=True):
    """Who an engine is."""

    id: str
    name: str
    version: str = ""
    owns_compaction: bool = False
    """It keeps the view small itself and is asked before every model call."""
    turn_maintenance_mode: MaintenanceMode = "foreground"
    accepted_host_params: tuple[str, ...] | None = None
    """Host parameters it wants; None for all. `cancelled` always reaches `compact`."""
    host_requirements: Mapping[Operation, Requirement] = {}
    transcript: TranscriptPromise = TranscriptPromise()


def unmet_requirement(
    info: EngineInfo, operation: Operation, offered: Collection[Capability], host: str
) -> str | None:
    """Why `host` cannot serve an operation of an engine; None when it can."""
    requirement = info.host_requirements.get(operation)
    missing = [] if requirement is None else sorted(set(requirement.capabilities) - set(offered))
    if requirement is None or not missing:
        return None
    said = (
        f"engine {info.id!r} needs {', '.join(missing)} for {operation}, "
        f"which harness {host!r} does not have (it has {', '.join(sorted(offered)) or 'nothing'})"
    )
    return f"{said}; {requirement.message}" if requirement.message else said
