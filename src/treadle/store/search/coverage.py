"""Coverage: how much of a home is in its index.

Owns what is counted: entries of living threads, each once, under the thread that wrote it.
Invariant: nothing is indexed and nothing is written for it.
"""

from __future__ import annotations

from msgspec import Struct

from ...core.install import install_command
from ..contract import Store
from .tables import RunJob, indexed_threads
from .vector_model import is_installed
from .vectors import thread_progress

__all__ = ["IndexCoverage", "measure_coverage"]


class IndexCoverage(Struct, frozen=True):
    """How many entries there are, and how many of them can be found by words and by meaning."""

    entries: int
    with_words: int
    with_vectors: int
    """Entries that were looked at for it; only user and assistant text gets vectors."""

    @property
    def told(self) -> str:
        """The same in a sentence."""
        if not self.entries:
            return "there is nothing to index yet"
        words = f"{_share(self.with_words, self.entries)} can be found by words"
        if not is_installed():
            return f"{words}; {install_command('semantic')} adds vectors"
        return f"{words}, {_share(self.with_vectors, self.entries)} by meaning"


async def measure_coverage(store: Store, read_index: RunJob) -> IndexCoverage:
    """Return how much of the living threads is indexed."""
    words, vectors = await read_index(lambda db: (indexed_threads(db), thread_progress(db)))
    entries = with_words = with_vectors = 0
    for info in await store.threads():
        entries += info.last - info.cut
        with_words += _covered(words.get(info.id, 0), info.cut, info.last)
        with_vectors += _covered(vectors.get(info.id, 0), info.cut, info.last)
    return IndexCoverage(entries, with_words, with_vectors)


def _share(part: int, whole: int) -> str:
    return f"all {whole:,} entries" if part >= whole else f"{part:,} of {whole:,} entries"


def _covered(upto: int, cut: int, last: int) -> int:
    return max(0, min(upto, last) - cut)
