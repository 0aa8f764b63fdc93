"""What one turn has of its own, in place of the settings of its thread.

Owns how such wishes are applied and taken back. Invariant: after the turn the thread has the
settings that it had, and what others changed meanwhile stays changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ..core.wire import Json
from ..prompt.prompt_context import CollaborationMode, ContextValue, named_mode

if TYPE_CHECKING:
    from ..log.setup import RequestSetup

__all__ = ["OwnContext", "OwnMode", "own_schema", "own_settings", "set_for_turn"]

OwnMode: TypeAlias = str | CollaborationMode | UnsetType | None
OwnContext: TypeAlias = Mapping[str, str | ContextValue] | UnsetType


def own_settings(
    mode: OwnMode, personality: str | UnsetType | None, context: OwnContext
) -> dict[str, Any]:
    """Return the settings that a turn has of its own."""
    own: dict[str, Any] = {}
    if mode is not UNSET:
        own["collaboration_mode"] = named_mode(mode) if isinstance(mode, str) else mode
    if personality is not UNSET:
        own["personality"] = personality
    if context is not UNSET:
        own["additional_context"] = {
            key: ContextValue(value) if isinstance(value, str) else value
            for key, value in context.items()
        }
    return own


def own_schema(schema: Json | Mapping[str, Any] | UnsetType) -> Json | UnsetType:
    """Return the schema that a turn's answer must fit. Raises `InvalidOption`."""
    if schema is UNSET:
        return UNSET
    from ..policy.answer_schema import answer_schema  # most turns have none

    return answer_schema(schema)


@asynccontextmanager
async def set_for_turn(
    setup: RequestSetup, own: Mapping[str, Any], schema: Json | UnsetType
) -> AsyncIterator[None]:
    """Let `setup` have the turn's `own` settings and the schema of its answer."""
    usual, told = setup.choices, setup.settings
    setup.settings = msgspec.structs.replace(told, **own)
    if schema is not UNSET:
        setup.choices = msgspec.structs.replace(usual, output_schema=schema)
    try:
        yield
    finally:
        setup.choices = usual
        before = {name: getattr(told, name) for name in own}
        setup.settings = msgspec.structs.replace(setup.settings, **before)
