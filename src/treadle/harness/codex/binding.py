"""Bindings: which Codex thread shows which view, and whether it still does.

Owns what a Codex thread was started for, its fingerprints, and the decision to use it
again. Invariant: a thread that was started for anything else than what is wanted now is
replaced, never trusted; what an engine says is part of no tool fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ...core.entries import ProjectionMark
from ...core.specs import SPECS, ToolSpec
from ...core.wire import json_bytes
from ...engines.session import EngineSession
from ...store.contract import OutboxDraft, OutboxRow

__all__ = [
    "KEY",
    "TOPIC",
    "Binding",
    "BindingDecision",
    "ProjectionMode",
    "binding_draft",
    "decide_reuse",
    "fingerprint",
    "policy_fingerprint",
    "read_binding",
    "tools_fingerprint",
]

TOPIC = "codex"
"""The outbox topic under which a thread's binding is kept."""
KEY = "binding"

ProjectionMode: TypeAlias = Literal["native", "text"]


class Binding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Codex thread, and what it was started for."""

    version: int = 1
    thread: str
    """The Treadle thread; a binding that came along with a copy names another."""
    codex: str
    path: str | None = None
    """Its rollout, where what a crash left behind is found."""
    engine: str
    policy: str
    tools: str
    model: str
    profile: str = ""
    """Who the server is signed in as for it; empty where that is nobody of ours."""
    instructions: str = ""
    """The fingerprint of its developer instructions."""
    mode: ProjectionMode
    base: int = 0
    """The entry that its view is based on."""
    plan: ProjectionMark | None = None
    """The engine's plan that it shows, for as long as that plan holds."""
    reason: str = ""
    """Why it was started."""
    since: int = 0
    """When, in milliseconds since 1970."""
    codex_version: str = ""
    turn: int = 0
    """The newest turn that was begun on it."""
    offset: int = 0
    """How long its rollout was then."""


class BindingDecision(Struct, frozen=True):
    """Whether a new Codex thread is needed, and why."""

    fresh: bool
    reason: str


_binding = msgspec.json.Decoder(Binding)


def decide_reuse(
    known: Binding | None, wanted: Binding, *, absent: str, shows: bool
) -> BindingDecision:
    """Whether the thread of a binding serves what is `wanted`.

    `absent` says why it is not at hand, if so; `shows` that the view still begins with its rows.
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
        ("auth-profile-mismatch", known.profile != wanted.profile),
        ("projection-mismatch", (known.mode, known.plan) != (wanted.mode, wanted.plan)),
        (absent, bool(absent)),
        ("epoch-mismatch", known.base != wanted.base),
        ("view-mismatch", not shows),
        # Where nothing can be injected, other instructions need another thread.
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
    """The digest of a tool list, whatever its order."""
    specs = sorted(
        msgspec.json.encode(msgspec.json.decode(SPECS.encode(tool)), order="sorted")
        for tool in tools
    )
    return _digest(b"\n".join(specs)) if specs else ""


def policy_fingerprint(engine: EngineSession, budget: int | None, most: int) -> str:
    """The digest of what an engine is held to; another policy needs another thread."""
    info = engine.info
    said = {
        "version": 1,
        "engine": engine.slot.name,
        "engine_version": info.version if info else "",
        "owns_compaction": info.owns_compaction if info else False,
        "maintenance": info.turn_maintenance_mode if info else "",
        "citations": engine.citations,
        "budget": budget,
        "most": most,
    }
    return _digest(json_bytes(said))


def binding_draft(binding: Binding) -> OutboxDraft:
    """The row that keeps a binding."""
    return OutboxDraft(topic=TOPIC, key=KEY, body=Raw(json_bytes(binding)), state="ready")


def read_binding(row: OutboxRow) -> Binding | None:
    """The binding in a row; None where it cannot be read, for then it is worth nothing."""
    try:
        binding = _binding.decode(row.body)
    except msgspec.DecodeError:
        return None
    return binding if binding.version == 1 else None


def fingerprint(text: str) -> str:
    """The digest of a text; empty for none."""
    return _digest(text.encode()) if text else ""


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
