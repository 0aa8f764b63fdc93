"""What goes into a summary and what comes out of it, with its expand line.

Owns both values and the last line of every summary, which names what can be found by
opening it. Invariant: a summary has one such line, at its end, and says who wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ....context.tokens import estimate_item, estimate_text
from ...values import ContextItem
from .clipping import one_line

__all__ = [
    "EXPAND",
    "NO_NAMES",
    "SEPARATOR",
    "Summary",
    "SummarySource",
    "expand_names",
    "source_tokens",
    "summary_body",
    "with_expand_line",
    "without_empty_line",
]

EXPAND = "Expand for details about:"
"""The beginning of the expand line."""
SEPARATOR = "; "
NO_NAMES = "the exact wording"
"""Stands in an expand line that names nothing."""
_START = EXPAND.lower()


class SummarySource(Struct, frozen=True, kw_only=True):
    """The input of a summary: items for a leaf, texts of summaries for a node above them."""

    items: tuple[ContextItem, ...] = ()
    children: tuple[str, ...] = ()
    depth: int = 0
    """0 for a leaf."""
    others: frozenset[str] = frozenset()
    """The ids of items that another thread sent: they are not the user's words."""
    previous: str = ""
    """The summary right before, so that the model can read on from it; none of it is kept."""


class Summary(Struct, frozen=True, kw_only=True):
    """A summary, and how it was made."""

    text: str
    """Ends with the expand line."""
    model: str = ""
    """The model that wrote it; ``""`` for an extract."""
    prompt: str = ""
    """The version of the prompt that made it."""
    degraded: bool = False
    """Whether no model wrote it, so that it should be written again."""
    missing: tuple[str, ...] = ()
    """Facts of the source that are neither in the text nor in its expand line."""
    calls: int = 0
    """How often a model was asked."""


def source_tokens(source: SummarySource) -> int:
    """Return how many tokens the source takes in a view."""
    items = (one.tokens or estimate_item(one.item, len(one.body)) for one in source.items)
    return sum(items) + sum(map(estimate_text, source.children))


def summary_body(text: str) -> str:
    """Return a summary without its expand lines."""
    lines = [line for line in text.splitlines() if not _is_expand_line(line)]
    return "\n".join(lines).strip()


def expand_names(text: str) -> tuple[str, ...]:
    """Return what the expand lines of a text name."""
    lines = [line for line in text.splitlines() if _is_expand_line(line)]
    lists = (line[line.lower().index(_START) + len(_START) :] for line in lines)
    names = (name for line in lists for name in line.split(SEPARATOR.strip()))
    found = dict.fromkeys(one_line(name).strip(" .*_") for name in names)
    return tuple(name for name in found if name not in ("", NO_NAMES))


def with_expand_line(body: str, names: Iterable[str]) -> str:
    """Return `body` with an expand line of `names` at its end."""
    line = f"{EXPAND} {SEPARATOR.join(names) or NO_NAMES}"
    return f"{body}\n{line}" if body else line


def without_empty_line(text: str) -> str:
    """Return a summary as it is shown: without an expand line that names nothing."""
    return text.removesuffix(with_expand_line("", ())).rstrip()


def _is_expand_line(line: str) -> bool:
    return line.lstrip(" *_-").lower().startswith(_START)
