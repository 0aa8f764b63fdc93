"""Expanding: the last line of a summary, which names what it left out.

Owns how that line is written, read and filled. Invariant: a summary has one such line,
at its end, and what does not fit there is told as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .clipping import on_one_line, size_of
from .facts import Fact, missing
from .source import EXPAND

__all__ = ["body_of", "completed", "named_in", "with_names"]

_NOTHING = "the exact wording"
_SEPARATOR = "; "
_START = EXPAND.lower()


def body_of(text: str) -> str:
    """A summary without its expand lines."""
    lines = [line for line in text.splitlines() if not _is_expand(line)]
    return "\n".join(lines).strip()


def named_in(text: str) -> tuple[str, ...]:
    """What the expand lines of a text name."""
    lines = [line for line in text.splitlines() if _is_expand(line)]
    listed = (line[line.lower().index(_START) + len(_START) :] for line in lines)
    names = (name for line in listed for name in line.split(_SEPARATOR.strip()))
    found = dict.fromkeys(on_one_line(name).strip(" .*_") for name in names)
    return tuple(name for name in found if name not in ("", _NOTHING))


def with_names(body: str, names: Iterable[str]) -> str:
    """`body`, ended by the line that names what can be found by expanding."""
    line = f"{EXPAND} {_SEPARATOR.join(names) or _NOTHING}"
    return f"{body}\n{line}" if body else line


def completed(text: str, facts: Sequence[Fact], room: int) -> tuple[str, tuple[str, ...]]:
    """`text` with the facts it lacks in its expand line, and those that found no room.

    `room` is how many bytes may be added.
    """
    body, names = body_of(text), list(named_in(text))
    room -= size_of(with_names(body, names)) - size_of(text)
    if not names:
        room += size_of(_NOTHING) + len(_SEPARATOR)
    for fact in missing(facts, text):
        name = on_one_line(fact.text)
        cost = size_of(name) + len(_SEPARATOR)
        if cost <= room and missing((fact,), _SEPARATOR.join(names)):
            names.append(name)
            room -= cost
    full = with_names(body, names)
    return full, tuple(on_one_line(fact.text) for fact in missing(facts, full))


def _is_expand(line: str) -> bool:
    return line.lstrip(" *_-").lower().startswith(_START)
