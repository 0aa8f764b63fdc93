"""Served tools: their names, what they are told to do, and their schemas.

Owns the list that clients read. Invariant: the list is the same for every client, in the same
order, so that it can stay in their prompt caches.
"""

from __future__ import annotations

from msgspec import Struct

from mcp import types

from .agent_home import FoundEntries, ReadEntries, ShownThread, ThreadList, TurnReport
from .tool_arguments import (
    ExpandArguments,
    ReplyArguments,
    RunArguments,
    SearchArguments,
    ShowArguments,
    ThreadsArguments,
    schema_of,
)

__all__ = ["INSTRUCTIONS", "TOOLS", "ServedTool", "tool_list"]

INSTRUCTIONS = """\
Treadle runs coding agents and remembers every conversation with them, word for word. Search \
first: recall_search finds what was said, decided or done before, in any thread, and \
recall_expand reads it whole. run gives a task to an agent of its own, in a new thread; reply \
goes on with a thread."""


class ServedTool(Struct, frozen=True):
    """A tool of the server."""

    name: str
    title: str
    description: str
    arguments: type[Struct]
    answer: type[Struct]
    reads_only: bool = True


TOOLS = (
    ServedTool(
        "run",
        "Run an agent",
        "Gives a task to a coding agent that works by itself: it reads and edits files and runs "
        "commands in a sandbox. Returns its last message and the id of its thread, with which "
        "`reply` goes on. It may take minutes.",
        RunArguments,
        TurnReport,
        reads_only=False,
    ),
    ServedTool(
        "reply",
        "Go on with a thread",
        "Says something more to the agent of a thread, which knows all of the conversation, and "
        "lets it work. Also goes on after a turn that was interrupted.",
        ReplyArguments,
        TurnReport,
        reads_only=False,
    ),
    ServedTool(
        "threads",
        "List threads",
        "Lists the threads of all directories, the most recently written first.",
        ThreadsArguments,
        ThreadList,
    ),
    ServedTool(
        "show",
        "Read a thread",
        "Returns the newest messages, calls and outputs of a thread; long outputs are cut, and "
        "`recall_expand` has them whole.",
        ShowArguments,
        ShownThread,
    ),
    ServedTool(
        "recall_search",
        "Search everything",
        "Searches every message, call and output of all threads: what was asked, answered, "
        "decided, tried. Entries with more of the words, and with rarer words, come first. Each "
        "result has an id for `recall_expand`.",
        SearchArguments,
        FoundEntries,
    ),
    ServedTool(
        "recall_expand",
        "Read entries whole",
        "Returns entries that `recall_search` found, with their whole text, also ranges and the "
        "entries behind summaries; what does not fit is named.",
        ExpandArguments,
        ReadEntries,
    ),
)


def tool_list() -> list[types.Tool]:
    """Return the tools as clients read them."""
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=schema_of(tool.arguments),
            output_schema=schema_of(tool.answer),
            annotations=types.ToolAnnotations(
                read_only_hint=tool.reads_only,
                destructive_hint=not tool.reads_only,
                idempotent_hint=tool.reads_only,
                open_world_hint=not tool.reads_only,
            ),
        )
        for tool in TOOLS
    ]
