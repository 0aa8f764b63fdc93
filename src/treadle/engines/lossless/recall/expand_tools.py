"""The tools `recall_describe` and `recall_expand`: what an id covers, and the originals.

Owns how summaries and entries are opened. Invariant: a result stays within its tokens,
and says what it left out and how to go on.
"""

# No postponed annotations: tools are made of them, and evaluating text takes time.

import re
from contextlib import aclosing
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from ....context.tokens import estimate_text
from ....core.text import BYTES_PER_TOKEN, TruncationPolicy, truncate_text
from ....tools.contract import ToolContext, ToolResult
from ..nodes import SummaryNode
from .record_texts import Record, format_time, records_of
from .resolver import RecallRefused, ResolvedId, Resolver, read_records

__all__ = ["ExpandTools"]

_FILE_PATH = r"(?<![\w/.-])[\w.~-]*(?:/[\w.-]+)+\.\w{1,8}\b"
_MOST_LISTED = 20
_EXCERPT_BYTES = 300
"""Bytes of an entry that a description shows."""
_LAST_LINES = 60
"""Tokens that are reserved for the lines about what was left out."""

_Id: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="A summary (sum_…), an entry (thread:seq) or a range (first-last).",
    ),
]


class ExpandTools(Struct):
    """Holds the functions behind the tools; a model reads their docstrings."""

    resolver: Resolver

    async def recall_describe(self, id: _Id, context: ToolContext) -> ToolResult:  # noqa: A002
        """Tell what a summary or an entry of the past covers, without opening it.

        Entries, turns, times, sizes, files, and the summaries below or above it.
        """
        try:
            found = await self.resolver.resolve(context.thread, id)
            if found.node is not None:
                return ToolResult(await self._describe_node(found, found.node))
            return ToolResult(await self._describe_entries(found))
        except RecallRefused as error:
            return ToolResult(f"recall_describe failed: {error}", success=False)

    async def recall_expand(
        self,
        id: _Id,  # noqa: A002
        context: ToolContext,
        max_tokens: Annotated[
            int, Meta(ge=100, le=20_000, description="How much to open at most.")
        ] = 4_000,
        raw: Annotated[
            bool,
            Meta(description="The entries themselves, also where a summary is made of summaries."),
        ] = False,
    ) -> ToolResult:
        """Open a summary or a range of entries: the originals, word for word.

        A summary made of summaries opens as those, unless `raw` is set.
        """
        try:
            found = await self.resolver.resolve(context.thread, id)
            node = found.node
            most = max_tokens
            if context.output_limit is not None:
                most = min(most, context.output_limit // BYTES_PER_TOKEN)
            if node is not None and node.children and not raw:
                return ToolResult(await self._open_children(node, most))
            return ToolResult(await _open_entries(found, most))
        except RecallRefused as error:
            return ToolResult(f"recall_expand failed: {error}", success=False)

    async def _describe_node(self, found: ResolvedId, node: SummaryNode) -> str:
        ends = await found.log.spans([(found.first, found.first), (found.last, found.last)])
        turns = [item.turn for item in ends.items if item.turn]
        times = await found.log.times((found.first, found.last))
        texts = (node.text, "\n".join(node.missing))
        files = sorted({path for text in texts for path in re.findall(_FILE_PATH, text)})
        since, until = (format_time(times.get(seq)) for seq in (found.first, found.last))
        lines = [
            f"{node.id} stands for entries {node.first} to {node.last} of thread {found.thread}.",
            f"Turns: {_turn_range(turns)}. From {since} to {until}.",
            f"Depth {node.depth}: {await self._origin_of(node)}",
            f"It takes {node.tokens} tokens; what it summarises took {node.source_tokens}.",
            _writer_line(node),
            *_list_line("Files named", files),
            *_list_line("Only in the originals", node.missing),
            f'Open it with recall_expand("{node.id}").',
        ]
        return "\n".join(lines)

    async def _origin_of(self, node: SummaryNode) -> str:
        if not node.children:
            return "it was made of the entries themselves."
        known = await self.resolver.library.nodes(node.children)
        return "it was made of " + ", ".join(
            f"{name} (entries {known[name].first}-{known[name].last})" if name in known else name
            for name in node.children
        )

    async def _describe_entries(self, found: ResolvedId) -> str:
        first, last = found.first, found.last
        conversation = await found.log.spans([(first, min(last, first + _MOST_LISTED - 1))])
        records = list(records_of(found.thread, conversation))
        if not records:
            raise RecallRefused(
                f"{found.thread}:{first} holds nothing that was said, or was rolled back"
            )
        times = await found.log.times([record.seq for record in records])
        nodes = await self._covering_nodes(found)
        lines = [f"{_about(record)} ({format_time(times.get(record.seq))})" for record in records]
        if last > first + _MOST_LISTED - 1:
            lines.append(f"… and up to entry {last}; ask for less to see more of it.")
        lines.append(f"Summarised in: {', '.join(nodes) or 'no summary yet'}.")
        return "\n".join(lines)

    async def _covering_nodes(self, found: ResolvedId) -> list[str]:
        nodes = await self.resolver.library.nodes_of_thread(found.thread)
        covering = [
            node.id
            for node in nodes
            if any(low <= found.first and found.last <= high for low, high in node.spans)
        ]
        return covering[:_MOST_LISTED]

    async def _open_children(self, node: SummaryNode, max_tokens: int) -> str:
        known = await self.resolver.library.nodes(node.children)
        blocks: list[str] = []
        spare = max_tokens - _LAST_LINES
        for at, name in enumerate(node.children):
            child = known.get(name)
            text = "It is gone; open the entries with `raw`." if child is None else child.text
            block = f"[{name}] {_entry_range(child)}\n{text.strip()}"
            if (size := estimate_text(block)) > spare:
                left = ", ".join(node.children[at:])
                blocks.append(f"Left out for want of room: {left}. Open them one by one.")
                break
            blocks.append(block)
            spare -= size
        blocks.append(f"The entries themselves: recall_expand with `raw`, or {_entry_range(node)}.")
        return "\n\n".join(blocks)


async def _open_entries(found: ResolvedId, max_tokens: int) -> str:
    """Return as many entries as fit, and how to go on."""
    blocks: list[str] = []
    spare = max_tokens - _LAST_LINES
    async with aclosing(read_records(found)) as records:
        async for record in records:
            if record.tokens > spare:
                blocks += (
                    [_continue_line(found, record.seq)]
                    if blocks
                    else _cut_entry(found, record, spare)
                )
                break
            blocks.append(record.block)
            spare -= record.tokens
    if not blocks:
        raise RecallRefused(
            f"entries {found.first} to {found.last} of thread {found.thread!r} hold nothing that "
            "was said; they may not exist, or were rolled back"
        )
    return "\n\n".join(blocks)


def _cut_entry(found: ResolvedId, record: Record, tokens: int) -> list[str]:
    """Return a part of an entry that is too large, and how to go on."""
    cut = truncate_text(record.block, TruncationPolicy("tokens", max(tokens, 1)))
    return [cut] if record.seq == found.last else [cut, _continue_line(found, record.seq + 1)]


def _continue_line(found: ResolvedId, seq: int) -> str:
    return (
        f"Left out for want of room: entries {seq} to {found.last}. "
        f'Go on with recall_expand("{found.thread}:{seq}-{found.last}").'
    )


def _about(record: Record) -> str:
    head = f"[{record.id}] {record.role}, turn {record.turn}, {record.tokens} tokens: "
    return head + truncate_text(
        " ".join(record.text.split()), TruncationPolicy("bytes", _EXCERPT_BYTES)
    )


def _entry_range(node: SummaryNode | None) -> str:
    return "unknown entries" if node is None else f"entries {node.first}-{node.last}"


def _turn_range(turns: list[int]) -> str:
    if not turns:
        return "unknown"
    return str(turns[0]) if turns[0] == turns[-1] else f"{turns[0]} to {turns[-1]}"


def _writer_line(node: SummaryNode) -> str:
    if node.degraded:
        return "It was put together from excerpts, without a model; it will be written again."
    return f"It was written by {node.model or 'a model'}."


def _list_line(title: str, names: tuple[str, ...] | list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return [f"{title}: {', '.join(names[:_MOST_LISTED])}{more}."]
