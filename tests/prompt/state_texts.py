"""What the built-in states say, for tests that pin their words."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from treadle.core.items import InputText
from treadle.prompt import (
    Baseline,
    ContextUpdate,
    Known,
    PromptContext,
    Unrecorded,
    context_update,
    default_registry,
    take_snapshots,
)

REGISTRY = default_registry()
CTX = PromptContext(cwd="/repo")


def with_(**changes: object) -> PromptContext:
    return msgspec.structs.replace(CTX, **changes)


def told(
    now: PromptContext, before: PromptContext | None = None, *, rebase: bool = True
) -> ContextUpdate:
    known: dict[str, Baseline] = {}
    if before is not None:
        known = {k: Known(v or Raw(b"null")) for k, v in take_snapshots(REGISTRY, before).items()}
    return context_update(REGISTRY, known, take_snapshots(REGISTRY, now), rebase=rebase)


def said(state: str, now: PromptContext, before: PromptContext | None = None) -> list[str]:
    return [
        part.text
        for message in told(now, before).messages
        for part, mark in zip(message.message.content, message.marks, strict=True)
        if mark.id == state and isinstance(part, InputText)
    ]


def said_after_unknown(state: str, now: PromptContext) -> list[str]:
    known = {k: Known(v or Raw(b"null")) for k, v in take_snapshots(REGISTRY, now).items()}
    telling = context_update(
        REGISTRY, {**known, state: Unrecorded()}, take_snapshots(REGISTRY, now), rebase=True
    )
    return [p.text for m in telling.messages for p in m.message.content if isinstance(p, InputText)]
