"""Sizing: how much may be said, and what goes when it is too much.

Owns the rooms of a text projection, in characters, and the wording of its cuts.
Invariant: what is cut keeps its newest end, says how much went, and fills its room
exactly wherever a part of the text is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ....core.items import InputImage

__all__ = [
    "RESERVE",
    "TURN_TEXT_LIMIT",
    "Quote",
    "QuoteTail",
    "context_room",
    "cut_end",
    "cut_start",
    "newest_quotes",
    "part_cap",
]

TURN_TEXT_LIMIT = 1 << 20
"""Characters that the app-server takes as the text of one turn."""

RESERVE = 20_000
"""Tokens that a projection leaves free, where the budget is large enough."""

_CHARS_PER_TOKEN = 4
_SMALLEST_PROMPT = 8_000
_UNBUDGETED_ROOM, _LARGEST_ROOM = 24_000, 1_000_000
_SMALLEST_CAP, _LARGEST_CAP = 6_000, 128_000
_BLANK_LINE = "\n\n"
_TORN = "…"


class Quote(Struct, frozen=True):
    """What one row says, under the name of who says it."""

    row: int
    """The position of the row."""
    speaker: str
    text: str
    images: tuple[InputImage, ...] = ()

    @property
    def header(self) -> str:
        """The line that names the speaker, with its end."""
        return f"[{self.speaker}]\n"

    @property
    def size(self) -> int:
        """Characters it takes, without the blank line before it."""
        return len(self.header) + len(self.text)

    def __str__(self) -> str:
        return self.header + self.text


class QuoteTail(Struct, frozen=True):
    """The newest end of a row of quotes."""

    text: str = ""
    quotes: tuple[Quote, ...] = ()
    """Those of which something is left."""


def context_room(budget: int | None, reserve: int = RESERVE) -> int:
    """Characters that quoted context may take under a budget of tokens."""
    if budget is None or budget <= 0:
        return _UNBUDGETED_ROOM
    prompt = min(_SMALLEST_PROMPT, budget // 2)
    free = max(0, min(reserve, budget - prompt))
    return min(_LARGEST_ROOM, max(1, budget - free) * _CHARS_PER_TOKEN)


def part_cap(room: int) -> int:
    """Characters that one text may take of a context of `room`."""
    return min(_LARGEST_CAP, max(_SMALLEST_CAP, room // 4))


def cut_end(text: str, cap: int) -> str:
    """The first `cap` characters of `text`, and how many went."""
    return text if len(text) <= cap else f"{text[:cap]}\n[truncated {len(text) - cap} chars]"


def cut_start(text: str, room: int) -> str:
    """The end of `text` that fits into `room`, after how much went; ``""`` if none does."""
    if len(text) <= room:
        return text
    kept = _kept(len(text), room, _from_text)
    return _from_text(len(text) - kept) + text[-kept:] if kept > 0 else ""


def newest_quotes(quotes: Sequence[Quote], room: int) -> QuoteTail:
    """The newest end of `quotes` that fits into `room`; older ones go first.

    The quote that the cut runs through keeps its header, so that its speaker is known.
    """
    size = _joined_size(quotes)
    if size <= room or not quotes:
        return QuoteTail(_BLANK_LINE.join(map(str, quotes)), tuple(quotes))
    left, first = room - len(_from_context(size)), len(quotes)
    while first and quotes[first - 1].size <= left:
        first -= 1
        left -= quotes[first].size + len(_BLANK_LINE)
    return _through(quotes, first - 1, room)


def _through(quotes: Sequence[Quote], place: int, room: int) -> QuoteTail:
    """The quotes after `place`, behind as much as fits of the one that stands there."""
    torn, after = quotes[place], tuple(quotes[place + 1 :])
    rest = "".join(f"{_BLANK_LINE}{quote}" for quote in after)
    whole = _joined_size(quotes) - len(torn.header) - len(rest)
    kept = _kept(whole, room - len(torn.header) - len(_TORN) - len(rest), _from_context)
    if kept > 0:
        shown = _TORN + torn.text[-kept:] if kept < len(torn.text) else torn.text
        dropped = _from_context(whole - min(kept, len(torn.text)))
        return QuoteTail(dropped + torn.header + shown + rest, (torn, *after))
    if not after:
        return QuoteTail()
    dropped = _from_context(_joined_size(quotes[: place + 1]) + len(_BLANK_LINE))
    return QuoteTail(dropped + rest.removeprefix(_BLANK_LINE), after)


def _kept(size: int, room: int, marker: Callable[[int], str]) -> int:
    """How many of `size` characters fill `room` together with the marker of the others."""
    kept = room
    while kept > 0 and kept + len(marker(size - kept)) > room:
        kept -= kept + len(marker(size - kept)) - room
    return kept


def _joined_size(quotes: Sequence[Quote]) -> int:
    return sum(quote.size for quote in quotes) + len(_BLANK_LINE) * max(0, len(quotes) - 1)


def _from_text(count: int) -> str:
    return f"[truncated {count} chars]\n"


def _from_context(count: int) -> str:
    return f"[truncated {count} chars from older context]\n"
