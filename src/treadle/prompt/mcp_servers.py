"""MCP servers: which there are, and which of their tools were found.

Owns `<mcp_servers>` and `<mcp_found_tools>`, and the names of the functions that they speak of.
Invariants: what a server says of itself stands in the role of the user, who may be wrong about
it; only servers that changed are told; found tools are told again only on a new base, for until
then the conversation holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.found_text import FOUND_HEADING, SEARCH_TOOL
from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import McpServerFacts, PromptContext
from .state_fragment import Absent, Known, StateFragment, Unrecorded, fingerprint

__all__ = [
    "CALL_TOOL",
    "FoundTool",
    "FoundToolsState",
    "McpServersState",
]

CALL_TOOL = "tool_call"

_Servers = tuple[McpServerFacts, ...]
_MOST_BYTES = 20_000
_LENGTHS = (4_096, 512, 128, 0)
"""Characters of what a server says of itself; the first with which all servers fit is used."""


class McpServersFragment(Fragment, frozen=True):
    """The servers that came, changed and went."""

    id: ClassVar[str] = "mcp_servers"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<mcp_servers>", "</mcp_servers>")
    cap_tokens: ClassVar[int] = 6_000

    servers: tuple[McpServerFacts, ...] = ()
    gone: tuple[str, ...] = ()

    def body(self) -> str:
        """Return a paragraph for each server; where all are too long, what they say is cut."""
        gone = [f"- {name}: no longer there" for name in self.gone]
        for length in _LENGTHS:
            paragraphs = [_paragraph(server, length) for server in self.servers]
            text = "\n".join(("", *paragraphs, *gone, ""))
            if len(text.encode()) <= _MOST_BYTES:
                break
        return text


def _paragraph(server: McpServerFacts, length: int) -> str:
    how = f", found with {SEARCH_TOOL} and called with {CALL_TOOL}" if server.searched else ""
    tools = "1 tool" if server.tools == 1 else f"{server.tools} tools"
    lines = [f"- {server.name}: {tools}{how}"]
    if server.resources:
        lines.append("  It has resources; mcp_resources lists and reads them.")
    if server.problem:
        lines.append(f"  It is not available now: {server.problem}")
    said = server.instructions
    if len(said) > length:
        said = f"{said[:length].rstrip()} …" if length else ""
    if said:
        lines.append("  What it says of itself:")
        lines += (f"  | {line}" for line in said.splitlines())
    return "\n".join(lines)


class McpServersState(StateFragment[_Servers]):
    """Sends which servers there are, by difference."""

    id = McpServersFragment.id
    snapshot_type = tuple[McpServerFacts, ...]
    fragments = (McpServersFragment,)

    def snapshot(self, ctx: PromptContext) -> _Servers | None:
        """Return the servers of `ctx`."""
        return ctx.mcp_servers or None

    def comparable(self, snapshot: _Servers) -> _Servers:
        """Return the servers with digests in place of their words."""
        return tuple(replace(each, instructions=_digest(each.instructions)) for each in snapshot)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[_Servers | None],
        current: _Servers | None,
        /,
    ) -> Sequence[Fragment]:
        """Return the servers that are new or changed, and the names of those that are gone."""
        told = previous.snapshot if isinstance(previous, Known) else None
        before = {each.name: each for each in told or ()}
        now = {each.name: each for each in current or ()}
        same = {each.name: each for each in self.comparable(current or ())}
        changed = tuple(now[name] for name in sorted(now) if before.get(name) != same[name])
        gone = tuple(sorted(before.keys() - now.keys()))
        return (McpServersFragment(changed, gone),) if changed or gone else ()


def _digest(text: str) -> str:
    """Return a digest of words; one of a digest is itself."""
    return text if not text or text.startswith("=") else f"={fingerprint(text)}"


class FoundTool(Struct, frozen=True):
    """A tool that a search found, and what the model was told of it."""

    name: str
    text: str


class FoundToolsFragment(Fragment, frozen=True):
    """The tools that searches found before."""

    id: ClassVar[str] = "mcp_found_tools"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<mcp_found_tools>", "</mcp_found_tools>")
    cap_tokens: ClassVar[int] = 6_000

    tools: tuple[FoundTool, ...] = ()

    def body(self) -> str:
        """Return what the search had returned for each."""
        told = (f"{FOUND_HEADING}{tool.name}\n{tool.text}" for tool in self.tools)
        opening = f"{SEARCH_TOOL} found these tools before; {CALL_TOOL} calls them:"
        return "\n" + "\n\n".join((opening, *told)) + "\n"


class FoundToolsState(StateFragment[tuple[FoundTool, ...]]):
    """Sends the found tools after the searches were compacted."""

    id = FoundToolsFragment.id
    snapshot_type = tuple[FoundTool, ...]
    fragments = (FoundToolsFragment,)
    when: ClassVar[Literal["turn", "rebase"]] = "rebase"

    def snapshot(self, ctx: PromptContext) -> tuple[FoundTool, ...] | None:
        """Return None: what was found is read from the log."""
        del ctx
        return None

    def difference(
        self,
        _previous: Absent | Unrecorded | Known[tuple[FoundTool, ...] | None],
        current: tuple[FoundTool, ...] | None,
        /,
    ) -> Sequence[Fragment]:
        """Return all of them."""
        return (FoundToolsFragment(current),) if current else ()
