"""Costs: what a thread and its agents used, in tokens and money.

Owns the sums, and how a family of agents is found. Invariant: each agent counts once, for the
thread that started it, and so for whoever started that one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..config.settings import Price
from ..context.view import load_view
from ..core.errors import NotFound
from ..core.usage import ThreadUsage, TokenUsage
from ..core.wire import Json
from ..log.bills import spent_on
from ..log.thread_log import ThreadLog
from ..log.usages import thread_usages
from ..prompt.registry import Registry
from ..store.contract import Store
from ..store.counted_usage import RequestUsage
from ..subagents.records import agent_records

__all__ = ["agents_usages", "thread_usage"]


async def thread_usage(log: ThreadLog, prices: Mapping[str, Price]) -> ThreadUsage:
    """Return what the thread of `log` has cost so far, in every process; `prices` come first."""
    turns = await log.store.turns(log.id)
    spent = (turn.usage for turn in turns if turn.usage is not None)
    agents = await agents_usages(log.store, log.registry, log.id, log.view.settings)
    by_agents = spent_on(agents, prices)
    return ThreadUsage(
        total=sum(spent, start=TokenUsage()),
        last=log.requests.usage or TokenUsage(),
        context_window=log.setup.profile.effective_window,
        cost=spent_on(await thread_usages(log.store, log.id), prices).bill,
        agents=by_agents.usage,
        agents_cost=by_agents.bill,
    )


async def agents_usages(
    store: Store, registry: Registry, thread: str, settings: Mapping[str, Json]
) -> list[RequestUsage]:
    """Return what the agents that a thread with these settings started used, and theirs."""
    found: list[RequestUsage] = []
    for child in agent_records(settings, thread):
        try:
            found += await thread_usages(store, child)
            view = await load_view(store, child, registry)
        except NotFound:
            continue  # it was deleted
        found += await agents_usages(store, registry, child, view.settings)
    return found
