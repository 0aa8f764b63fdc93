"""Documents: an entry as search keeps it.

Owns how what an entry says is cut into terms. Invariant: the same entry is the same
document, whoever indexes it.
"""

from __future__ import annotations

from ...core.entries import Entry
from .spoken import Spoken
from .tables import Document, mark
from .terms import tokens, words_of

__all__ = ["document_of"]

_LONGEST_TEXT = 2_000_000


def document_of(entry: Entry, said: Spoken, tool: str) -> Document:
    """What to index of an entry that says something."""
    terms = {mark("role", said.role)}
    if tool:
        terms.add(mark("tool", tool))
    words = words_of(said.text[:_LONGEST_TEXT])
    spellings, whole, parts = zip(*tokens(set(words)), strict=True) if words else ((), (), ())
    terms.update(*whole, *filter(None, parts))
    return Document(entry.seq, entry.time, len(words), terms, set[str]().union(*spellings))
