"""Birth: a thread for an agent, before anybody runs it.

Invariant: who started an agent is the first thing its own log says, so that the agent is
known for what it is whoever opens it.
"""

from __future__ import annotations

from msgspec import Raw

from ..context.view import CACHE_KEY
from ..core.entries import SettingsChange, control_draft
from ..core.wire import Json, json_bytes
from ..log.thread_log import ThreadLog
from ..store.contract import Change
from .values import DESCENT, Descent, Kin

__all__ = ["born"]


async def born(parent: ThreadLog, kin: Kin, depth: int) -> str:
    """A thread for `kin`, which knows what `parent` knows or nothing; its id."""
    store = parent.store
    if kin.forked:
        child = await parent.fork(title=kin.nickname)
    else:
        child = (await store.create(cwd=str(parent.setup.cwd), title=kin.nickname)).id
    lease = await store.acquire(child)
    try:
        settings = SettingsChange(_settings(parent, kin, child, depth))
        await store.commit(lease, Change(entries=(control_draft(settings),)))
    finally:
        await lease.release()
    return child


def _settings(parent: ThreadLog, kin: Kin, child: str, depth: int) -> dict[str, Json]:
    descent = Descent(
        thread=child,
        parent=parent.id,
        depth=depth,
        nickname=kin.nickname,
        agent_type=kin.agent_type,
        forked=kin.forked,
    )
    settings: dict[str, Json] = {DESCENT: Raw(json_bytes(descent))}
    if not kin.forked:
        # Agents of one type begin alike, whoever of the family started them.
        root = parent.view.cache_key.partition("/")[0]
        settings[CACHE_KEY] = Raw(json_bytes(f"{root}/{kin.agent_type}"))
    return settings
