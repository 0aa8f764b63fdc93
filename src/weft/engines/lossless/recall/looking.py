"""Looking: finding what was said.

Owns `recall_search`. Invariant: every line of a result begins with the id that opens it,
and a result never grows beyond what a model can read at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from ....errors import SearchRefused
from ....store.contract import Hit, Hits, Search
from ....tools.contract import ToolContext, ToolResult
from .desk import Desk, Refusal
from .records import entry_id, records_of, when

__all__ = ["Looking"]

_MOST_CHARS = 40_000
_SNIPPET = 400
_BESIDE = 160
"""Characters of an entry that stands beside a hit."""

_EVERYWHERE = "*"
_Role: TypeAlias = Literal["user", "assistant", "tool", "thinking", "agent"]
_Time: TypeAlias = Annotated[
    str, Meta(max_length=40, description="A date or a time, such as 2026-01-31T15:00; UTC.")
]


@dataclass(slots=True)
class Looking:
    """The function behind the tool; its docstring is what a model reads."""

    desk: Desk

    async def recall_search(
        self,
        query: Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1_000,
                description='What to look for; "quoted phrases" count more.',
            ),
        ],
        context: ToolContext,
        *,
        mode: Annotated[
            Literal["words", "substring", "regex"],
            Meta(description="Any of the words, the text as it stands, or a regular expression."),
        ] = "words",
        thread: Annotated[
            str,
            Meta(
                max_length=100,
                description="Another thread's id, or * for all you may read; else this one.",
            ),
        ] = "",
        roles: Annotated[tuple[_Role, ...], Meta(description="Only what these said.")] = (),
        tools: Annotated[
            tuple[str, ...], Meta(max_length=20, description="Only calls and results of these.")
        ] = (),
        since: _Time = "",
        until: _Time = "",
        limit: Annotated[int, Meta(ge=1, le=50)] = 10,
        neighbours: Annotated[
            int, Meta(ge=0, le=5, description="How many entries beside each hit to show.")
        ] = 1,
    ) -> ToolResult:
        """Search everything that was said and done in this thread, also what left the context.

        Each line is [thread:seq] who, when: an excerpt. Open an id with recall_expand.
        """
        try:
            asked = Search(
                query,
                mode=mode,
                threads=None if thread == _EVERYWHERE else (thread or context.thread,),
                roles=roles,
                tools=tools,
                since=_time("since", since),
                until=_time("until", until),
                limit=limit,
                neighbours=neighbours,
            )
            if thread != _EVERYWHERE:
                await self.desk.log(context.thread, thread)
            hits = await (await self.desk.log(context.thread)).find(asked)
            return ToolResult(await self._told(context.thread, hits))
        except (Refusal, SearchRefused) as error:
            return ToolResult(f"recall_search failed: {error}", success=False)

    async def _told(self, reader: str, hits: Hits) -> str:
        if not hits:
            none = "Nothing was found; try other words, or mode substring for a part of a name."
            return f"{none}\n{hits.note}".rstrip()
        beside = await self._beside(reader, hits)
        for hit in hits:
            beside.pop(entry_id(hit.thread, hit.seq), None)
        lines: list[str] = []
        size = len(hits.note)
        for at, hit in enumerate(hits):
            block = _block(hit, beside)
            size += len(block) + 1
            if size > _MOST_CHARS:
                lines.append(f"{len(hits) - at} more hits are left out; narrow the search.")
                break
            lines.append(block)
        return "\n".join(filter(None, (*lines, hits.note)))

    async def _beside(self, reader: str, hits: Sequence[Hit]) -> dict[str, str]:
        """What the neighbours of hits say, in short, by their ids."""
        wanted: dict[str, set[int]] = defaultdict(set)
        for hit in hits:
            wanted[hit.thread].update(hit.neighbours)
        told: dict[str, str] = {}
        for thread, entries in wanted.items():
            log = await self.desk.log(reader, thread)
            said = await log.spans([(seq, seq) for seq in sorted(entries)])
            for record in records_of(thread, said):
                told[record.id] = f"{record.role}: {_short(record.text, _BESIDE)}"
        return told


def _block(hit: Hit, beside: dict[str, str]) -> str:
    """A hit between its neighbours; what was shown already is not shown again."""
    near = [(seq, beside.pop(entry_id(hit.thread, seq), "")) for seq in hit.neighbours]
    before = [f"    [{seq}] {said}" for seq, said in near if said and seq < hit.seq]
    after = [f"    [{seq}] {said}" for seq, said in near if said and seq > hit.seq]
    line = (
        f"[{entry_id(hit.thread, hit.seq)}] {hit.role or 'entry'}, {when(hit.time)}: "
        f"{_short(hit.snippet, _SNIPPET)}"
    )
    return "\n".join((*before, line, *after))


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _time(name: str, text: str) -> int | None:
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Refusal(
            f"{name!r} is {text!r}; write a date or a time such as 2026-01-31T15:00"
        ) from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
