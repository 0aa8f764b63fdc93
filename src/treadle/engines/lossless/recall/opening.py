"""Opening: what a summary or an entry covers, and the originals under it.

Owns `recall_describe` and `recall_expand`. Invariant: a result stays within its tokens,
and says what it left out and how to go on.
"""

# No postponed annotations: tools are made of them, and to read them from text takes its time.

from contextlib import aclosing
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from ....context.tokens import estimate_text
from ....core.patterns import regex
from ....core.text import BYTES_PER_TOKEN, TruncationPolicy, truncate_text
from ....tools.contract import ToolContext, ToolResult
from ..nodes import SummaryNode
from .desk import Desk, Found, Refusal, records
from .records import Record, records_of, when

__all__ = ["Opening"]

_PATH = regex(r"(?<![\w/.-])[\w.~-]*(?:/[\w.-]+)+\.\w{1,8}\b")
_LISTED = 20
_SHORT = 300
"""Bytes of an entry that a description shows."""
_LAST_LINES = 60
"""Tokens that are kept for what was left out."""

_Id: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="A summary (sum_…), an entry (thread:seq) or a range (first-last).",
    ),
]


class Opening(Struct):
    """The functions behind the tools; their docstrings are what a model reads."""

    desk: Desk

    async def recall_describe(self, id: _Id, context: ToolContext) -> ToolResult:  # noqa: A002
        """Tell what a summary or an entry of the past covers, without opening it.

        Entries, turns, times, sizes, files, and the summaries below or above it.
        """
        try:
            found = await self.desk.find(context.thread, id)
            if found.node is not None:
                return ToolResult(await self._node(found, found.node))
            return ToolResult(await self._entries(found))
        except Refusal as error:
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
            found = await self.desk.find(context.thread, id)
            node = found.node
            most = _within(max_tokens, context.room)
            if node is not None and node.children and not raw:
                return ToolResult(await self._children(node, most))
            return ToolResult(await _originals(found, most))
        except Refusal as error:
            return ToolResult(f"recall_expand failed: {error}", success=False)

    async def _node(self, found: Found, node: SummaryNode) -> str:
        ends = await found.log.spans([(found.first, found.first), (found.last, found.last)])
        turns = [item.turn for item in ends.items if item.turn]
        times = await found.log.times((found.first, found.last))
        files = sorted({*_PATH.findall(node.text), *_PATH.findall("\n".join(node.missing))})
        since, until = (when(times.get(seq)) for seq in (found.first, found.last))
        lines = [
            f"{node.id} stands for entries {node.first} to {node.last} of thread {found.thread}.",
            f"Turns: {_between(turns)}. From {since} to {until}.",
            f"Depth {node.depth}: {await self._below(node)}",
            f"It takes {node.tokens} tokens; what it summarises took {node.source_tokens}.",
            _writer(node),
            *_listed("Files named", files),
            *_listed("Only in the originals", node.missing),
            f'Open it with recall_expand("{node.id}").',
        ]
        return "\n".join(lines)

    async def _below(self, node: SummaryNode) -> str:
        if not node.children:
            return "it was made of the entries themselves."
        known = await self.desk.library.nodes(node.children)
        return "it was made of " + ", ".join(
            f"{name} (entries {known[name].first}-{known[name].last})" if name in known else name
            for name in node.children
        )

    async def _entries(self, found: Found) -> str:
        first, last = found.first, found.last
        said = await found.log.spans([(first, min(last, first + _LISTED - 1))])
        read = list(records_of(found.thread, said))
        if not read:
            raise Refusal(f"{found.thread}:{first} holds nothing that was said, or was rolled back")
        times = await found.log.times([record.seq for record in read])
        nodes = await self._above(found)
        lines = [f"{_about(record)} ({when(times.get(record.seq))})" for record in read]
        if last > first + _LISTED - 1:
            lines.append(f"… and up to entry {last}; ask for less to see more of it.")
        lines.append(f"Summarised in: {', '.join(nodes) or 'no summary yet'}.")
        return "\n".join(lines)

    async def _above(self, found: Found) -> list[str]:
        nodes = await self.desk.library.nodes_of_thread(found.thread)
        covering = [
            node.id
            for node in nodes
            if any(low <= found.first and found.last <= high for low, high in node.spans)
        ]
        return covering[:_LISTED]

    async def _children(self, node: SummaryNode, max_tokens: int) -> str:
        known = await self.desk.library.nodes(node.children)
        blocks: list[str] = []
        spare = max_tokens - _LAST_LINES
        for at, name in enumerate(node.children):
            child = known.get(name)
            text = "It is gone; open the entries with `raw`." if child is None else child.text
            block = f"[{name}] {_range(child)}\n{text.strip()}"
            if (size := estimate_text(block)) > spare:
                left = ", ".join(node.children[at:])
                blocks.append(f"Left out for want of room: {left}. Open them one by one.")
                break
            blocks.append(block)
            spare -= size
        blocks.append(f"The entries themselves: recall_expand with `raw`, or {_range(node)}.")
        return "\n\n".join(blocks)


async def _originals(found: Found, max_tokens: int) -> str:
    """Entries, as many as fit, and where to go on."""
    blocks: list[str] = []
    spare = max_tokens - _LAST_LINES
    async with aclosing(records(found)) as read:
        async for record in read:
            if record.tokens > spare:
                blocks += [_go_on(found, record.seq)] if blocks else _part(found, record, spare)
                break
            blocks.append(record.block)
            spare -= record.tokens
    if not blocks:
        raise Refusal(
            f"entries {found.first} to {found.last} of thread {found.thread!r} hold nothing that "
            "was said; they may not exist, or were rolled back"
        )
    return "\n\n".join(blocks)


def _within(tokens: int, room: int | None) -> int:
    """`tokens`, or fewer where the model would not get as many."""
    return tokens if room is None else min(tokens, room // BYTES_PER_TOKEN)


def _part(found: Found, record: Record, tokens: int) -> list[str]:
    """An entry that is too large to be shown whole, and where to go on."""
    cut = truncate_text(record.block, TruncationPolicy("tokens", max(tokens, 1)))
    return [cut] if record.seq == found.last else [cut, _go_on(found, record.seq + 1)]


def _go_on(found: Found, seq: int) -> str:
    return (
        f"Left out for want of room: entries {seq} to {found.last}. "
        f'Go on with recall_expand("{found.thread}:{seq}-{found.last}").'
    )


def _about(record: Record) -> str:
    head = f"[{record.id}] {record.role}, turn {record.turn}, {record.tokens} tokens: "
    return head + truncate_text(" ".join(record.text.split()), TruncationPolicy("bytes", _SHORT))


def _range(node: SummaryNode | None) -> str:
    return "unknown entries" if node is None else f"entries {node.first}-{node.last}"


def _between(turns: list[int]) -> str:
    if not turns:
        return "unknown"
    return str(turns[0]) if turns[0] == turns[-1] else f"{turns[0]} to {turns[-1]}"


def _writer(node: SummaryNode) -> str:
    if node.degraded:
        return "It was put together from excerpts, without a model; it will be written again."
    return f"It was written by {node.model or 'a model'}."


def _listed(title: str, names: tuple[str, ...] | list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return [f"{title}: {', '.join(names[:_LISTED])}{more}."]
