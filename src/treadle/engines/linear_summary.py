"""The summary of a linear compaction: asked of the model, checked, and completed.

Owns what happens between the rows that are left out and the text that stands for them.
Invariants: a summary always comes back; a statement that contradicts the rows is not in it;
what the rows say and the summary does not is listed below it, as far as its room allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from ..context.row import Row
from ..context.tokens import estimate_text
from ..core.errors import TooLong
from ..core.items import Message, text_of
from ..core.provenance import is_inter_session
from ..core.text import BYTES_PER_TOKEN
from ..prompt.instructions import shorter_prompt, summary_with_details
from .compaction import SummariseRows
from .conversation import conversation_fields, named_rows
from .lossless.writing.answer_faults import repeats_itself, repeats_prompt
from .lossless.writing.claim_check import ClaimCheck, lines_without
from .lossless.writing.clipping import byte_size
from .lossless.writing.extract import decisions, extract, findings
from .lossless.writing.key_facts import Fact, find_facts, missing_facts
from .lossless.writing.passages import Passage, passages
from .lossless.writing.source import SummarySource, without_empty_line
from .lossless.writing.user_words import wishes_in, within_room

__all__ = ["DETAIL_TOKENS", "LinearSummary", "without_oldest"]

DETAIL_TOKENS = 1_200
"""How much may stand below a summary of what it lost, at most."""
_DETAIL_SHARE = 12
"""A window is this many times larger than that …"""
_SOURCE_SHARE = 4
"""… and what is left out is at least so many times larger."""
_EXTRACT_TOKENS = 1_500
_MOST_SENTENCES = 200
_WISH_SHARE = 0.3
"""How much of the details the user's own words may take …"""
_DECISION_SHARE = 0.25
"""… and how much the sentences that say what was decided, and why."""

_log = logging.getLogger(__name__)


class LinearSummary(Struct, frozen=True):
    """What a linear compaction leaves out, and what it keeps beside the summary of that."""

    thread: str
    rows: Sequence[Row]
    kept: Sequence[Message]
    """What the user said that stays word for word."""
    limit: int | None = None
    """How many tokens the view may have, if there is a limit."""

    async def write(self, prompt: Message, ask: SummariseRows) -> tuple[str, int]:
        """Return a summary, and how many of the oldest rows its model could not be shown.

        Raises `TooLong` where not even the newest one fits.
        """
        shown = list(self.rows)
        while True:
            try:
                text = await self._write_about(shown, prompt, ask)
            except TooLong:
                shorter = without_oldest(shown)
                if shorter == shown:
                    raise
                shown = shorter
            else:
                return text, len(self.rows) - len(shown)

    async def _write_about(self, shown: Sequence[Row], prompt: Message, ask: SummariseRows) -> str:
        """Ask the model, and once more where its answer is of no use; then take excerpts."""
        for question in (prompt, shorter_prompt(prompt)):
            text = (await ask(shown, question)).strip()
            if not text:
                break  # it was asked more than once already
            if _is_summary(text, text_of(question.content)):
                return await asyncio.to_thread(self._complete, text)
            _log.info("the model gave no summary that can be used: %.80r", text)
        excerpts = await asyncio.to_thread(extract, self._source(), _EXTRACT_TOKENS)
        return without_empty_line(excerpts.text)

    def _complete(self, text: str) -> str:
        """Return a summary without what contradicts the rows, and with what it lost of them."""
        pieces = passages(self._source())
        if wrong := ClaimCheck(pieces).contradictions(text):
            _log.info("a summary contradicts its source: %s", "; ".join(wrong))
            text = lines_without(text, frozenset(wrong))
        said = "\n".join((text, *(text_of(message.content) for message in self.kept)))
        room = self._room(text)
        wishes = within_room(
            [wish for wish in wishes_in(pieces) if wish not in said], int(room * _WISH_SHARE)
        )
        room -= sum(byte_size(wish) + 3 for wish in wishes)
        decided = _lost_decisions(pieces, said, int(room * _DECISION_SHARE))
        room -= sum(byte_size(line) + 3 for line in decided)
        lost = missing_facts(find_facts(pieces), "\n".join((said, *wishes, *decided)))
        lines, lost, room = _lost_sentences(pieces, lost, room)
        names = _names_within(lost, room)
        return summary_with_details(text, wishes=wishes, findings=[*decided, *lines], names=names)

    def _room(self, summary: str) -> int:
        """Return the bytes of what may be added to a summary."""
        most = DETAIL_TOKENS
        if self.limit is not None:
            most = min(most, self.limit // _DETAIL_SHARE)
        spare = sum(row.tokens for row in self.rows) // _SOURCE_SHARE - estimate_text(summary)
        return max(0, min(most, spare)) * BYTES_PER_TOKEN

    def _source(self) -> SummarySource:
        """Return the rows as a source: an earlier summary is none of the user's words."""
        said = [row for row in self.rows if not row.summary]
        fields = conversation_fields(named_rows(self.thread, said).items())
        earlier = [row.item for row in self.rows if row.summary]
        pairs = zip(fields["items"], fields["provenance"], strict=True)
        return SummarySource(
            items=tuple(fields["items"]),
            children=tuple(text_of(item.content) for item in earlier if isinstance(item, Message)),
            others=frozenset(
                item.id for item, sender in pairs if item.id and is_inter_session(sender)
            ),
        )


def without_oldest(rows: Sequence[Row]) -> list[Row]:
    """Return `rows` without the oldest one that is not context, and without its counterpart."""
    oldest = next((row for row in rows if not row.contextual), None)
    if oldest is None:
        return list(rows)
    call = oldest.shape.call_id
    return [
        row for row in rows if row is not oldest and (call is None or row.shape.call_id != call)
    ]


def _is_summary(text: str, prompt: str) -> bool:
    return not repeats_itself(text) and not repeats_prompt(text, prompt)


def _lost_decisions(pieces: Sequence[Passage], said: str, room: int) -> list[str]:
    """Return what was decided, and why, that is not `said`, as far as it fits."""
    own = [one for one in pieces if one.kind in ("assistant", "summary")]
    listed = dict.fromkeys(decisions(own))
    return list(within_room([line for line in listed if line not in said], room))


def _lost_sentences(
    pieces: Sequence[Passage], lost: tuple[Fact, ...], room: int
) -> tuple[list[str], tuple[Fact, ...], int]:
    """Return sentences with facts that were lost, the facts that still are, and the room left."""
    lines: list[str] = []
    for sentence in islice(findings(pieces, lost), _MOST_SENTENCES):
        less = missing_facts(lost, sentence)
        cost = byte_size(sentence) + 3
        if len(less) < len(lost) and cost <= room:
            lines.append(sentence)
            lost, room = less, room - cost
    return lines, lost, room


def _names_within(lost: Sequence[Fact], room: int) -> list[str]:
    names: list[str] = []
    for fact in lost:
        cost = byte_size(fact.text) + 2
        if cost <= room:
            names.append(fact.text)
            room -= cost
    return names
