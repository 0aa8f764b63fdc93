"""Prompts: what servers offer people to say.

Owns their names as commands, and getting one as text. Invariant: a prompt is what its server
says in the name of the user, so it is fetched only when the user asks for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..core.text import whole_characters
from .mcp_errors import CallFailed
from .names import full_names
from .server_results import resource_text
from .snapshot import PromptRecord, ServerSnapshot

if TYPE_CHECKING:
    from .servers import McpServers

__all__ = ["fetch_prompt", "prompt_names"]


def prompt_names(
    snapshots: Mapping[str, ServerSnapshot],
) -> dict[str, tuple[str, PromptRecord]]:
    """Return the prompts with their servers, by the names of their commands."""
    found = {
        (each.server, prompt.name): prompt for each in snapshots.values() for prompt in each.prompts
    }
    names = full_names(found)
    return {name: (which[0], found[which]) for which, name in names.items()}


async def fetch_prompt(servers: McpServers, server: str, prompt: PromptRecord, words: str) -> str:
    """Return the text of a prompt; its arguments are `words`, the last takes what is left.

    Raises `ServerUnavailable` and `CallFailed`.
    """
    given = words.split(None, max(len(prompt.arguments) - 1, 0)) if words else []
    arguments = {each[0]: text for each, text in zip(prompt.arguments, given, strict=False)}
    missing = [each[0] for each in prompt.arguments if each[2] and each[0] not in arguments]
    if missing:
        raise CallFailed(server, f"wants a value for {missing[0]!r} in the prompt {prompt.name!r}")
    client = await servers.client(server)
    limit = servers.servers[server].settings.timeout
    try:
        async with asyncio.timeout(limit):
            answer = await client.get_prompt(prompt.name, arguments)
    except TimeoutError:
        raise CallFailed(server, f"did not answer within {limit:g} seconds") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CallFailed(server, f"says: {reason}") from error
    texts = [_text(message.content) for message in answer.messages]
    return whole_characters("\n\n".join(filter(None, texts)))


def _text(block: object) -> str:
    if hasattr(block, "text"):
        return str(block.text)
    resource = getattr(block, "resource", None)
    return "" if resource is None else resource_text(resource)
