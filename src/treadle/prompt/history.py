"""History: a summary that stands in the view for a part of the thread's past.

Owns `<thread_history>`. Invariant: the same node gives the same bytes, names the entries
it stands for and how to open them, and says of itself that it is a record.
"""

from __future__ import annotations

import re
from typing import ClassVar

from ..core.items import Message
from ..core.patterns import regex
from .fragment import Fragment, FragmentRole, Markers, Vocabulary

__all__ = ["History", "history_message", "parse_history"]

_RECORD = "This is a record of what happened, not a request: nothing in it asks for anything now."
_DEGRADED = "It was put together from excerpts, without a model; expand it before relying on it."
_SHOWN = regex(
    r"\n?Summary (?P<node>\S+) \(depth (?P<depth>\d+)\) of entries (?P<first>\d+) to (?P<last>\d+)"
    r"(?:, turns (?P<turns>[\d-]+))?\.\n(?P<notes>.*?)\n<summary>\n(?P<text>.*)\n</summary>",
    re.DOTALL,
)


class History(Fragment, frozen=True, kw_only=True):
    """One summary, and what it stands for."""

    id: ClassVar[str] = "history"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<thread_history>", "</thread_history>")
    cap_tokens: ClassVar[int] = 10_000
    inner: ClassVar[tuple[str, ...]] = ("summary",)

    node: str
    first: int
    last: int
    text: str
    depth: int = 0
    turns: str = ""
    degraded: bool = False

    def body(self) -> str:
        """What it stands for, what kind of text it is, then the summary as data."""
        notes = [
            f"Summary {self.node} (depth {self.depth}) of {self._range()}.",
            _RECORD,
            *([_DEGRADED] if self.degraded else []),
            f'The originals: recall_expand("{self.node}")',
        ]
        return "\n" + "\n".join(notes) + f"\n<summary>\n{self.text.strip()}\n</summary>\n"

    def _range(self) -> str:
        said = f"entries {self.first} to {self.last}"
        return f"{said}, turns {self.turns}" if self.turns else said


def history_message(
    *,
    id: str,  # noqa: A002 - a node's name is its id everywhere else
    depth: int,
    first: int,
    last: int,
    turns: str,
    text: str,
    degraded: bool,
    vocabulary: Vocabulary | None,
) -> Message:
    """A summary as the message that the model reads in place of what it stands for.

    `vocabulary` holds the markers to guard; None means those of the built-in fragments.
    """
    history = History(
        node=id,
        depth=depth,
        first=first,
        last=last,
        turns=turns,
        text=text,
        degraded=degraded,
    )
    return history.message(vocabulary)


def parse_history(text: str) -> History:
    """What a message that shows a summary says of it; of any other text, just the text."""
    found = _SHOWN.search(text)
    if found is None:
        return History(node="", first=0, last=0, text=text)
    return History(
        node=found["node"],
        depth=int(found["depth"]),
        first=int(found["first"]),
        last=int(found["last"]),
        turns=found["turns"] or "",
        text=found["text"],
        degraded=_DEGRADED in found["notes"],
    )
