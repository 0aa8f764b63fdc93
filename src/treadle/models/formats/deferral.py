"""Deferral: tools that a search finds, for APIs with a form of their own for them.

Owns which calls are searches and what they found. Invariant: the log has searches as plain
calls with plain outputs, so that a thread may go on with any other provider; what an API is told
instead is a function of these alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ...core.entries import Head
from ...core.found_text import SEARCH_TOOL, FoundDefinition, read_found
from ...core.items import FunctionCall, FunctionCallOutput, Item, text_of
from ...core.specs import SPECS, ToolSearchTool, spec_name

__all__ = ["Searches", "found_definitions", "search_spec"]

_SEARCH = b'"type":"tool_search"'


def search_spec(head: Head) -> ToolSearchTool | None:
    """Return the search that a head offers in the provider's own form; None for no such one."""
    for encoded in head.tools:
        if _SEARCH in bytes(encoded) and isinstance(spec := SPECS.decode(encoded), ToolSearchTool):
            return spec
    return None


class Searches(Struct):
    """Follows the items of one body, and tells searches from other calls."""

    offered: frozenset[str]
    """Tools that are in every request: nothing has to be said of them when they are found."""
    _calls: set[str] = field(default_factory=set)

    @classmethod
    def under(cls, head: Head) -> Searches | None:
        """Return what follows the items under a head; None where it offers no such search."""
        if search_spec(head) is None:
            return None
        return cls(frozenset(spec_name(SPECS.decode(tool)) for tool in head.tools))

    def is_search(self, item: Item) -> bool:
        """Return whether an item is a search, and remember it."""
        if not isinstance(item, FunctionCall) or item.name != SEARCH_TOOL or item.namespace:
            return False
        self._calls.add(item.call_id)
        return True

    def found_by(self, item: Item) -> tuple[FoundDefinition, ...] | None:
        """Return what a search found whose output an item is; None for other items."""
        if not isinstance(item, FunctionCallOutput) or item.call_id not in self._calls:
            return None
        found = read_found(text_of(item.output))
        return tuple(each for each in found if each.name not in self.offered)

    def copy(self) -> Searches:
        """Return an independent follower that continues from here."""
        return Searches(self.offered, set(self._calls))


def found_definitions(items: Iterable[Item], head: Head) -> tuple[FoundDefinition, ...]:
    """Return every tool that the searches among some items found, as it was found last."""
    searches = Searches.under(head)
    if searches is None:
        return ()
    known = {each.name: each for each in _all_found(items, searches)}
    return tuple(known.values())


def _all_found(items: Iterable[Item], searches: Searches) -> Iterator[FoundDefinition]:
    for item in items:
        if not searches.is_search(item):
            yield from searches.found_by(item) or ()
