"""What a thread offers of its MCP servers: decided at the start of a turn, kept until its end.

Owns the offer of the present turn and the snapshots that the log stores of it. Invariants: an
offer changes between turns only; each snapshot that the model is told of is stored with the
thread, so that the thread goes on with the same tools wherever it is opened.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from ..core.errors import NotFound
from ..core.found_text import SEARCH_TOOL
from ..core.typed import decode_json
from ..harness.events import Event, NoticeRaised, StepStarted, TurnStarted
from ..prompt.mcp_servers import McpServersState
from ..prompt.prompt_context import McpServerFacts
from ..prompt.state_fragment import Known
from ..store.rows import blob_digest

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..mcp.contract import OffersServers
    from ..mcp.offer import Offer
    from ..mcp.snapshot import ServerSnapshot

__all__ = ["OfferedServers"]

_SEARCHES = tuple(f'"{key}":"{SEARCH_TOOL}"'.encode() for key in ("name", "type"))


class OfferedServers:
    """The servers of one thread, as its present turn sees them."""

    def __init__(self, log: ThreadLog, servers: OffersServers) -> None:
        self._log, self._servers = log, servers
        self._stored: set[str] = set()
        """The digests of the snapshots that are stored with the thread."""
        self._started = False
        self._offers: dict[bool, Offer] = {}
        self._decide()

    async def prepare(self) -> tuple[str, ...]:
        """Decide what the next turn is offered; return what the user should know.

        Raises `ConfigError` when a required server does not start.
        """
        self._started = False
        await self._adopt()
        notices = await self._servers.prepare()
        self._decide()
        bodies = {blob_digest(each.body): each.body for each in self._snapshots}
        # All at once: a store writes what arrives together in one transaction.
        put = self._log.store.put_blob
        new = [body for digest, body in bodies.items() if digest not in self._stored]
        self._stored |= set(await asyncio.gather(*(put(self._log.id, body) for body in new)))
        return notices

    async def foresee(self) -> None:
        """Decide what the next turn is offered from what is known; connect to and store nothing."""
        await self._adopt()
        self._decide()

    def offer(self, *, own_tools: bool) -> Offer:
        """Return the offer of the present turn.

        A harness with tools of its own (`own_tools`) gets the search only: Codex keeps the tools
        of a thread for its life, and reserves names that begin with ``mcp__`` for itself.
        """
        return self._offers[own_tools]

    def facts(self, *, own_tools: bool) -> tuple[McpServerFacts, ...]:
        """Return what the model is told of the servers."""
        offer = self.offer(own_tools=own_tools)
        digests = {each.server: blob_digest(each.body) for each in offer.snapshots}
        return tuple(
            msgspec.structs.replace(each, digest=digests.get(each.name, ""))
            for each in offer.servers
        )

    @property
    def _snapshots(self) -> tuple[ServerSnapshot, ...]:
        return self.offer(own_tools=False).snapshots

    def _decide(self) -> None:
        usual = self._servers.offer(searched=self._searches())
        self._offers = {False: usual, True: self._servers.offer(only_search=True)}

    def observe(self, event: Event) -> None:
        """Connect to the servers once a model has begun to answer: not before, for that costs."""
        if not self._started and not isinstance(event, TurnStarted | StepStarted | NoticeRaised):
            self._started = True
            self._servers.start()

    def _searches(self) -> bool:
        """Return whether the thread's requests have the search already."""
        head = self._log.view.head
        return head is not None and any(
            form in bytes(tool) for tool in head.tools for form in _SEARCHES
        )

    async def _adopt(self) -> None:
        """Use the snapshots that the view speaks of, where this machine knows none."""
        known = self._log.view.baselines.get(McpServersState.id)
        if not isinstance(known, Known):
            return
        from ..mcp.snapshot import ServerSnapshot

        for told in decode_json(known.snapshot, tuple[McpServerFacts, ...] | None) or ():
            if told.name in self._servers.snapshots or not told.digest:
                continue
            try:
                snapshot = ServerSnapshot.read(await self._log.store.blob(told.digest))
            except NotFound:
                continue
            if snapshot is not None:
                self._servers.adopt(snapshot)
