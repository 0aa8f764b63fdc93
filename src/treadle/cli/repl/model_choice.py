"""Choosing a model: `/model`, with a name or from a list.

Invariant: models that have a key come first, and the current one is where the list begins.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...models.model_reports import load_reports
from ...policy.auth.secrets import SecretStore
from ..fallbacks import apply_own_fallbacks
from ..model_rows import ModelRow, model_rows
from ..ways_in import missing_access
from .choose import Choice

if TYPE_CHECKING:
    from .chat_session import ChatSession
    from .slash import Slash

__all__ = ["change_model", "known_models"]

_KEYS = {"environment": "key in the environment", "kept": "key stored"}


async def change_model(slash: Slash, rest: str) -> None:
    """Change the model from the next turn on: to the one that is named, or one from a list."""
    session = slash.session
    chosen = rest or await _pick(session)
    if chosen:
        session.thread.use(chosen)
        apply_own_fallbacks(session.thread, session.setup.config)
    session.screen.say(f"model {session.thread.model}")
    if chosen and (missing := await missing_access(session.setup, session.thread.model)):
        session.screen.trouble(missing)


async def _pick(session: ChatSession) -> str:
    rows = await asyncio.to_thread(_rows, session)
    names = [row.model for row in rows]
    now = session.thread.model
    start = names.index(now) if now in names else 0
    choices = [Choice(row.model, _about(row)) for row in rows]
    at = await session.front.choose("Which model?", choices, start)
    return "" if at is None else names[at]


def _rows(session: ChatSession) -> list[ModelRow]:
    home = session.setup.home
    kept = (each.provider for each in SecretStore(home).profiles() if each.kind == "api_key")
    catalog = session.thread.log.setup.catalog
    return model_rows(catalog, session.setup.settings, kept, load_reports(home))


def _about(row: ModelRow) -> str:
    window = f"{row.window:,} tokens" if row.window else ""
    best = "recommended" if row.recommended else ""
    return " · ".join(filter(None, [best, window, _KEYS.get(row.key, "no key")]))


def known_models(session: ChatSession) -> list[tuple[str, str]]:
    """Return the names of models, for completion."""
    catalog = session.thread.log.setup.catalog
    profiles = [catalog.profile(name) for name in catalog.entries]
    windows = {f"{each.provider}:{each.slug}": each.context_window for each in profiles}
    return [(name, f"{size:,} tokens" if size else "") for name, size in sorted(windows.items())]
