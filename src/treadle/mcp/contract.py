"""What a thread needs of MCP servers.

Owns the `OffersServers` Protocol, so that naming servers in options loads nothing of them.
Invariant: everything but `prepare` answers at once, from what is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..tools.contract import ToolResult
    from .offer import Offer
    from .snapshot import ServerSnapshot

__all__ = ["OffersServers"]


class OffersServers(Protocol):
    """MCP servers, as threads use them; `treadle.mcp.servers.McpServers` is one."""

    @property
    def snapshots(self) -> Mapping[str, ServerSnapshot]:
        """Return what each server offered when it was last asked."""
        ...

    async def prepare(self) -> tuple[str, ...]:
        """Have what the next turn is offered; return what the user should know.

        Raises `ConfigError` when a required server does not start.
        """
        ...

    def start(self) -> None:
        """Connect to every server in the background."""
        ...

    def adopt(self, snapshot: ServerSnapshot) -> None:
        """Use a snapshot that a thread has stored, where nothing newer is known."""
        ...

    async def task_outcome(self, server: str, task: str) -> ToolResult | None:
        """Wait for the outcome of a task of an earlier process; None where it cannot be had."""
        ...

    def offer(self, *, searched: bool = False, only_search: bool = False) -> Offer:
        """Return what the model may call.

        With `searched` no tool moves into the requests, with `only_search` none is there.
        """
        ...
