"""Meanings: the part that vectors have in a search.

Owns for which queries vectors count, and that no turn waits for their model. Invariant: where
the extra `semantic` is missing, or a home has no vectors, a search is what words make it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

from .query import Search
from .scope import Scope
from .tables import RunJob
from .terms import WordQuery
from .vector_model import begin_loading, is_installed, load_model, loaded_model
from .vectors import has_vectors

if TYPE_CHECKING:
    from .closeness import Closeness, Floats

__all__ = ["measure_closeness", "question_vector"]

_FEWEST_WORDS = 2
"""A single word is looked for as it stands."""
_LONGEST = 480
"""Characters of a query that get a vector."""


async def question_vector(read_index: RunJob, words: WordQuery, query: Search) -> Floats | None:
    """Return the vector of a query; None where words alone decide."""
    if not query.weights.meaning or not is_installed() or not _is_told(words, query):
        return None
    if not await read_index(has_vectors):
        return None
    model = loaded_model()
    if model is None and query.wait_for_vectors:
        model = await asyncio.to_thread(load_model)
    if model is None:
        begin_loading()
        return None
    (vector,) = await asyncio.to_thread(model.vectors, [query.text[:_LONGEST]])
    return vector  # type: ignore[no-any-return] # numpy does not say what rows it has


def _is_told(words: WordQuery, query: Search) -> bool:
    """Return whether a query tells something in words of its own, rather than names it."""
    exact = query.all_words or query.skip_common or words.phrases
    return not exact and words.word_count >= _FEWEST_WORDS


def measure_closeness(connection: sqlite3.Connection, question: Floats, scope: Scope) -> Closeness:
    """Return how close the texts of a scope are to a question."""
    from .closeness import Closeness

    return Closeness(connection, question, scope)
