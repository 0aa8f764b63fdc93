"""Permission for a call: whether the user is asked, and what was answered before.

Owns the four modes. Invariant: what a server says of its own tools lowers no guard, unless the
user trusts that server; where nobody may be asked, what would have to be asked is refused.
"""

from __future__ import annotations

import asyncio

from ..config.mcp_settings import McpApproval
from ..sandbox.approvals import Ask, ForPrefix, ForThread, No, NoAndStop, Once
from ..tools.contract import ToolContext
from ..tools.permission import Rejected
from .server_settings import McpServer
from .tool_list import ToolRecord

__all__ = ["approval_mode", "is_harmless", "needs_approval", "obtain_permission"]


def approval_mode(server: McpServer, tool: str) -> McpApproval:
    """Return the mode of one tool: its own, else its server's."""
    own = server.settings.tools.get(tool)
    return server.settings.approval if own is None or own.approval is None else own.approval


def is_harmless(server: McpServer, record: ToolRecord) -> bool:
    """Return whether a trusted server says that a tool only reads."""
    return server.settings.trusted and record.read_only


def needs_approval(server: McpServer, record: ToolRecord) -> bool:
    """Return whether the user must be asked before a call."""
    mode = approval_mode(server, record.name)
    if record.asks or mode == "prompt":
        return True
    if mode == "approve":
        return False
    if not server.settings.trusted:
        return True
    if mode == "writes":
        return not record.read_only
    return not record.read_only and (record.destructive or record.open_world)


async def obtain_permission(
    server: McpServer, record: ToolRecord, name: str, arguments: str, context: ToolContext
) -> Rejected | None:
    """Ask the user where that is needed; return why a call does not run."""
    if not needs_approval(server, record):
        return None
    # For a whole thread, the tool is approved, not this one call of it.
    tool = Ask(argv=(name,), cwd="", reason="", outside=True)
    past = await asyncio.to_thread(context.approvals.load, context.thread, context.cwd)
    if not record.asks and (tool.argv, tool.cwd, tool.outside) in past.commands:
        return None
    if context.approval == "never":
        if context.policy.mode == "danger-full-access":
            return None
        key = f"mcp.servers.{server.name}.tools.{record.name}"
        return Rejected(
            "it needs the approval of the user, and nobody may be asked; the user can set "
            f'`approval = "approve"` for `{key}`, or trust the server'
        )
    reason = f"the tool {record.name!r} of the MCP server {server.name!r} runs outside the sandbox"
    ask = Ask(argv=(name, arguments), cwd="", reason=reason, outside=True)
    match await context.ask_approval(ask):
        case No(note):
            return Rejected("rejected by user" + (f": {note}" if note else ""), by_user=True)
        case NoAndStop():
            return Rejected("rejected by user", by_user=True, stop=True)
        case ForThread():
            context.approvals.record(context.thread, tool, ForThread())
            return None
        case Once() | ForPrefix():
            return None
