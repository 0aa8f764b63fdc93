"""Offers: which tools of which servers are in requests, and which are found by search.

Owns the choice between the two. Invariants: an offer is a pure function of snapshots and
settings; once a thread searches, its tools stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..core.specs import spec_name
from ..prompt.prompt_context import McpServerFacts
from ..tools.contract import Tool
from .names import full_names
from .resources import ResourceTool
from .search_tools import CallFoundTool, FindTools
from .server_tool import ServerTool
from .snapshot import ServerSnapshot

if TYPE_CHECKING:
    from .servers import McpServers

__all__ = ["Offer", "make_offer"]


class Offer(Struct, frozen=True, kw_only=True):
    """What a model may call of MCP servers."""

    direct: tuple[Tool, ...] = ()
    """In every request."""
    deferred: tuple[ServerTool, ...] = ()
    """Run when they are called, though no request has them."""
    servers: tuple[McpServerFacts, ...] = ()
    """What the model is told of the servers; their digests are added by whoever stores them."""
    snapshots: tuple[ServerSnapshot, ...] = ()

    def only(self, allows: Callable[[str], bool]) -> Offer:
        """Return it without the tools of servers that are not allowed, by their full names.

        The functions that reach others stay where there are any to reach.
        """
        deferred = tuple(tool for tool in self.deferred if allows(tool.name))
        direct: list[Tool] = []
        for tool in self.direct:
            if isinstance(tool, FindTools | CallFoundTool):
                direct += [tool.only(allows)] if deferred else []
            elif allows(spec_name(tool.spec)):
                direct.append(tool)
        return replace(self, direct=tuple(direct), deferred=deferred)

    def for_provider(self) -> Offer:
        """Return it as a provider takes it that has a form of its own for found tools."""
        direct = (e.for_provider() if isinstance(e, FindTools) else e for e in self.direct)
        return replace(self, direct=tuple(direct))


def make_offer(
    servers: McpServers,
    snapshots: Sequence[ServerSnapshot],
    *,
    problems: Collection[str] = (),
    searched: bool = False,
    only_search: bool = False,
) -> Offer:
    """Return the offer of some snapshots; `problems` names servers that cannot be called now.

    With `searched` no tool moves into the requests by itself, with `only_search` none is there.
    """
    chosen = {each.server: each.tools_for(servers.servers[each.server]) for each in snapshots}
    names = full_names((server, tool.name) for server, tools in chosen.items() for tool in tools)
    tools = [
        ServerTool(names[name, record.name], servers.servers[name], record, servers)
        for name, records in chosen.items()
        for record in records
    ]
    usual = [tool for tool in tools if tool.server.settings.load == "auto"]
    always = [tool for tool in tools if tool.server.settings.load == "direct"]
    many = len(usual) + len(always) > servers.direct_tools
    direct = {tool.name for tool in always}
    if not (many or searched):
        direct |= {tool.name for tool in usual}
    if only_search:
        direct = set()
    deferred = tuple(tool for tool in tools if tool.name not in direct)
    shown: tuple[Tool, ...] = tuple(tool for tool in tools if tool.name in direct)
    if any(each.has_resources for each in snapshots):
        shown = (*shown, ResourceTool(servers))
    if deferred or searched:
        by_name = {tool.name: tool for tool in tools}
        shown = (*shown, FindTools(deferred), CallFoundTool(by_name))
    return Offer(
        direct=shown,
        deferred=deferred,
        servers=tuple(
            _facts(each, len(chosen[each.server]), deferred, problems) for each in snapshots
        ),
        snapshots=tuple(snapshots),
    )


def _facts(
    snapshot: ServerSnapshot,
    tools: int,
    deferred: Sequence[ServerTool],
    problems: Collection[str],
) -> McpServerFacts:
    return McpServerFacts(
        name=snapshot.server,
        tools=tools,
        searched=any(tool.server.name == snapshot.server for tool in deferred),
        resources=snapshot.has_resources,
        instructions=snapshot.instructions,
        problem="it does not start" if snapshot.server in problems else "",
    )
