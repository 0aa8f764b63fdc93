"""Call views: a call of a tool as a client shows it.

Owns the kind, the title, the places and the contents of calls. Invariants: an output is shown up
to `MOST_SHOWN` characters, with a word about the rest; a patch is shown as one difference for
each of its places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from acp.helpers import text_block, tool_content, tool_diff_content
from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    TerminalToolCallContent,
    ToolCallLocation,
    ToolKind,
)

from ..core.redact import redact_known
from ..tools.call_text import call_text, patch_in
from ..tools.patch.errors import InvalidPatch
from ..tools.patch.parser import AddFile, Chunk, DeleteFile, Hunk, UpdateFile, parse_patch

__all__ = [
    "MOST_SHOWN",
    "Contents",
    "call_kind",
    "call_title",
    "clip_output",
    "patch_view",
    "raw_input",
]

MOST_SHOWN = 32_000
"""Characters of an output that a client is sent."""
_LONGEST_TITLE = 300

Contents: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

_KINDS: dict[str, ToolKind] = {
    "exec_command": "execute",
    "write_stdin": "execute",
    "shell": "execute",
    "shell_command": "execute",
    "local_shell": "execute",
    "apply_patch": "edit",
    "view_image": "read",
    "read_output": "read",
    "skill": "read",
    "recall_search": "search",
    "recall_expand": "search",
    "tool_search": "search",
    "update_plan": "think",
    "web_search": "fetch",
}


def call_kind(name: str, arguments: str) -> ToolKind:
    """Return what sort of act a call is."""
    return "edit" if patch_in(name, arguments) else _KINDS.get(name, "other")


def call_title(name: str, arguments: str) -> str:
    """Describe a call on one line."""
    line = " ".join(redact_known(call_text(name, arguments)).split())
    return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1] + "…"


def raw_input(arguments: str) -> Any:
    """Return the arguments of a call as the value that they are."""
    try:
        return json.loads(redact_known(arguments))
    except (ValueError, RecursionError):
        return {"input": redact_known(arguments)}


def patch_view(
    name: str, arguments: str, cwd: str
) -> tuple[list[Contents], list[ToolCallLocation]]:
    """Return the differences that a call would make, and the files; nothing for other calls."""
    text = patch_in(name, arguments)
    if text is None:
        return [], []
    try:
        hunks = parse_patch(text).hunks
    except InvalidPatch:
        return [], []
    places = {str(Path(cwd, hunk.path)): None for hunk in hunks}
    contents = [each for hunk in hunks for each in _differences(hunk, cwd)]
    return contents, [ToolCallLocation(path=place) for place in places]


def clip_output(output: str) -> Contents:
    """Return an output, or its end where it is long."""
    text = redact_known(output)
    if len(text) > MOST_SHOWN:
        left = len(text) - MOST_SHOWN
        text = f"[{left:,} characters before are in the thread]\n{text[-MOST_SHOWN:]}"
    return tool_content(text_block(text))


def _differences(hunk: Hunk, cwd: str) -> Iterator[Contents]:
    path = str(Path(cwd, hunk.path))
    match hunk:
        case AddFile(content=content):
            yield tool_diff_content(path, redact_known(content))
        case DeleteFile():
            yield tool_content(text_block(f"deletes {path}"))
        case UpdateFile(chunks=chunks):
            for chunk in chunks:
                yield _difference(path, chunk)


def _difference(path: str, chunk: Chunk) -> FileEditToolCallContent:
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (chunk.old, chunk.new))
    return tool_diff_content(path, redact_known(new), redact_known(old))
