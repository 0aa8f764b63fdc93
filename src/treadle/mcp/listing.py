"""Listing: asking a server what it offers.

Owns walking its pages. Invariant: a server that lists without end is asked a bounded number of
times, and what it lists is read in the bounds of `tool_list`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.redact import one_line
from .server_settings import McpServer
from .snapshot import PromptRecord, ServerSnapshot
from .tool_list import MOST_TOOLS, bounded_text, read_tools

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["fetch_snapshot"]

_MOST_PAGES = 50
_MOST_PROMPTS = 200


async def fetch_snapshot(client: Client, server: McpServer) -> tuple[ServerSnapshot, list[str]]:
    """Return what a server offers now, and a sentence for each thing that was left out.

    Raises what the SDK raises where the tools cannot be listed.
    """
    able = client.server_capabilities
    tools, problems = read_tools(await _tools(client) if able.tools is not None else ())
    prompts: tuple[PromptRecord, ...] = ()
    has_resources = False
    # One that cannot list the rest still has its tools.
    try:
        prompts = await _prompts(client) if able.prompts is not None else ()
    except Exception as error:  # noqa: BLE001 - the SDK raises anything
        problems.append(f"its prompts cannot be listed: {one_line(str(error))[:200]}")
    try:
        has_resources = able.resources is not None and await _has_resources(client)
    except Exception as error:  # noqa: BLE001
        problems.append(f"its resources cannot be listed: {one_line(str(error))[:200]}")
    info = client.server_info
    snapshot = ServerSnapshot(
        server=server.name,
        made_for=server.digest,
        version=client.protocol_version,
        title=bounded_text((info.title or info.name) if info else "")[:100],
        instructions=bounded_text(client.instructions or ""),
        tools=tools,
        prompts=prompts,
        has_resources=has_resources,
    )
    return snapshot, problems


async def _tools(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += [tool.model_dump(by_alias=True, exclude_none=True) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None or len(found) > MOST_TOOLS:
            break
    return found


async def _has_resources(client: Client) -> bool:
    """Return whether there are any: many servers say that they could have some."""
    if (await client.list_resources()).resources:
        return True
    return bool((await client.list_resource_templates()).resource_templates)


async def _prompts(client: Client) -> tuple[PromptRecord, ...]:
    found: dict[str, PromptRecord] = {}
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_prompts(cursor=cursor)
        for prompt in page.prompts:
            arguments = tuple(
                (each.name, bounded_text(each.description or ""), bool(each.required))
                for each in prompt.arguments or ()
            )
            found.setdefault(
                prompt.name,
                PromptRecord(prompt.name, bounded_text(prompt.description or ""), arguments),
            )
        cursor = page.next_cursor
        if cursor is None or len(found) >= _MOST_PROMPTS:
            break
    return tuple(found[name] for name in sorted(found)[:_MOST_PROMPTS])
