"""Bindings: which Codex thread shows the view of which thread.

Owns what a Codex thread was started for, its fingerprints, and the decision to use it
again. Invariant: a thread that was started for anything other than what is wanted now is
replaced; the output of an engine is part of no tool fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from ...core.entries import ProjectionMark
from ...core.specs import SPECS, ToolSpec
from ...core.wire import json_bytes
from ...engines.session import EngineSession
from ...store.contract import OutboxDraft, OutboxRow
from .codex_options import ProjectionMode

__all__ = [
    "KEY",
    "TOPIC",
    "Binding",
    "BindingDecision",
    "binding_draft",
    "decide_reuse",
    "fingerprint",
    "policy_fingerprint",
    "read_binding",
    "tools_fingerprint",
]

TOPIC = "codex"
"""The outbox topic of the bindings."""
KEY = "binding"


class Binding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Codex thread, and what it was started for."""

    version: int = 1
    thread: str
    """The Treadle thread; in the copy of a thread, the binding names the original."""
    codex: str
    """The id of the Codex thread."""
    path: str | None = None
    """Its rollout file, which is read after a crash."""
    engine: str
    policy: str
    tools: str
    model: str
    profile: str = ""
    """The profile with which the server is logged in; empty without one."""
    instructions: str = ""
    """The fingerprint of its developer instructions."""
    verbosity: str = ""
    """The verbosity that was asked for; Codex takes none for a turn."""
    hooks: str = ""
    """Which of Codex's own tools ask the hooks of the thread."""
    mode: ProjectionMode
    base: int = 0
    """The log entry that its view is based on."""
    plan: ProjectionMark | None = None
    """The plan of the engine that it shows, while that plan is valid."""
    reason: str = ""
    """Why it was started."""
    since: int = 0
    """When it was started, in milliseconds since 1970."""
    codex_version: str = ""
    turn: int = 0
    """The newest turn that was started on it."""
    offset: int = 0
    """The size of its rollout at that time."""
    former: tuple[str, ...] = ()
    """Codex threads that it has replaced, and that are not deleted yet."""
    collaboration: str = ""
    """The collaboration mode of its newest turn."""
    rows: int = 0
    """How many rows of the view it shows, since its newest turn has ended."""
    shown: str = ""
    """The fingerprint of those rows; empty while a turn runs, and if they are unknown."""
    end: int = 0
    """The size of its rollout at that end."""


class BindingDecision(Struct, frozen=True):
    """Whether a new Codex thread is needed, and the reason."""

    fresh: bool
    reason: str
    resumed: bool = False
    """Whether it is a thread of a process that has ended, or that was closed meanwhile."""


_binding = msgspec.json.Decoder(Binding)


def decide_reuse(
    known: Binding | None, wanted: Binding, *, missing: str, shows_view: bool
) -> BindingDecision:
    """Decide whether the thread of the binding `known` can be used for `wanted`.

    `missing` is the reason why this process does not have the thread, else empty.
    `shows_view` says whether the view still begins with the rows of the thread.
    """
    if known is None:
        return BindingDecision(True, "missing-thread-binding")
    by_epoch = wanted.plan is not None
    differences = (
        ("foreign-binding", known.thread != wanted.thread),
        ("missing-projection-binding", by_epoch and known.plan is None),
        (
            "context-engine-binding-mismatch",
            (known.engine, known.policy) != (wanted.engine, wanted.policy),
        ),
        ("dynamic-tools-mismatch", known.tools != wanted.tools),
        ("model-mismatch", known.model != wanted.model),
        ("verbosity-mismatch", known.verbosity != wanted.verbosity),
        ("hooks-mismatch", known.hooks != wanted.hooks),
        ("auth-profile-mismatch", known.profile != wanted.profile),
        ("projection-mismatch", (known.mode, known.plan) != (wanted.mode, wanted.plan)),
        (missing, bool(missing)),
        ("epoch-mismatch", known.base != wanted.base),
        ("view-mismatch", not shows_view),
        # In text mode nothing can be injected: changed instructions need another thread.
        (
            "instructions-mismatch",
            wanted.mode == "text" and known.instructions != wanted.instructions,
        ),
    )
    for reason, differs in differences:
        if differs:
            return BindingDecision(True, reason)
    return BindingDecision(
        False, "matching-thread-bootstrap-binding" if by_epoch else "per-turn-projection"
    )


def tools_fingerprint(tools: Sequence[ToolSpec]) -> str:
    """Return a digest of a list of tools that does not depend on the order."""
    specs = sorted(
        msgspec.json.encode(msgspec.json.decode(SPECS.encode(tool)), order="sorted")
        for tool in tools
    )
    return _digest(b"\n".join(specs)) if specs else ""


def policy_fingerprint(engine: EngineSession, budget: int | None, most: int) -> str:
    """Return a digest of the rules for an engine; other rules need another thread."""
    info = engine.info
    policy = {
        "version": 1,
        "engine": engine.name,
        "engine_version": info.version if info else "",
        "owns_compaction": info.owns_compaction if info else False,
        "maintenance": info.turn_maintenance_mode if info else "",
        "citations": engine.citations,
        "budget": budget,
        "most": most,
    }
    return _digest(json_bytes(policy))


def binding_draft(binding: Binding) -> OutboxDraft:
    """Return the outbox row of a binding."""
    return OutboxDraft(topic=TOPIC, key=KEY, body=Raw(json_bytes(binding)), state="ready")


def read_binding(row: OutboxRow) -> Binding | None:
    """Return the binding in an outbox row; None if it cannot be read."""
    try:
        binding = _binding.decode(row.body)
    except msgspec.DecodeError:
        return None
    return binding if binding.version == 1 else None


def fingerprint(text: str) -> str:
    """Return a digest of a text; empty for an empty text."""
    return _digest(text.encode()) if text else ""


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
