"""Found tools as text: what a search for tools returns, and how it is read again.

Owns the form, which is the same for every provider: logs have it, and a format whose API has a
form of its own writes that from it. Invariant: what is read was written here; no description
begins another tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct

from .wire import UNREADABLE, Json

__all__ = [
    "FOUND_HEADING",
    "SEARCH_TOOL",
    "FoundDefinition",
    "read_found",
    "split_found",
    "write_found",
]

SEARCH_TOOL = "tool_search"
"""The tool that finds others."""

FOUND_HEADING = "### "
"""What stands before the name of each tool that a search found."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ARGUMENTS = "\nArguments: "
_members = msgspec.json.Decoder(dict[str, Raw])


class FoundDefinition(Struct, frozen=True):
    """A tool that was found, with all that is needed to call it."""

    name: str
    description: str
    parameters: Json


def write_found(found: Iterable[FoundDefinition]) -> str:
    """Return what a search returns."""
    return "\n\n".join(map(_text, found))


def split_found(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each tool in such a text, with the rest of what is said of it."""
    for part in f"\n{text}".split(f"\n{FOUND_HEADING}")[1:]:
        name, _, rest = part.partition("\n")
        yield name.strip(), rest.strip()


def read_found(text: str) -> tuple[FoundDefinition, ...]:
    """Return the tools in such a text, without those that were cut."""
    found = []
    for name, rest in split_found(text):
        description, there, schema = f"\n{rest}".rpartition(_ARGUMENTS)
        try:
            _members.decode(schema)
        except UNREADABLE:
            continue
        if there and _NAME.fullmatch(name):
            found.append(FoundDefinition(name, description.strip(), Raw(schema.encode())))
    return tuple(found)


def _text(tool: FoundDefinition) -> str:
    said = tool.description.replace(f"\n{FOUND_HEADING}", f"\n {FOUND_HEADING}")
    said = f" {said}" if said.startswith(FOUND_HEADING) else said
    return f"{FOUND_HEADING}{tool.name}\n{said}{_ARGUMENTS}{bytes(tool.parameters).decode()}"
