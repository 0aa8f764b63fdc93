"""Background indexing: a process of its own that indexes what a home has not indexed yet.

Owns when such a process is worth starting, and its life. Turns share neither its processor nor
its lock on the interpreter. Invariants: nobody waits for it; it ends with the process that
started it; whatever it wrote by then stays, and the next one goes on there.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import suppress

from msgspec import Struct

from ...core.aio import finish_uncancelled
from ...core.errors import TreadleError
from ...core.wire import json_bytes
from ..contract import Store
from .coverage import IndexCoverage, measure_coverage
from .tables import RunJob
from .vector_model import is_installed

__all__ = ["BackgroundIndexing", "IndexingOrder"]

_AGAIN = 600.0
"""Seconds after which a long-lived process looks again."""
_POLL = 1.0
_MUCH = 2_000
"""Entries without words in the index that are worth a process; fewer wait for a search."""
_MANY = 500
"""The same for entries without vectors."""
_PROGRAM = (sys.executable, "-P", "-m", "treadle.store.search.index_home")

_log = logging.getLogger("treadle.store")


class IndexingOrder(Struct, frozen=True):
    """What the process is to index, as its first line of input; the end of input ends it."""

    home: str
    address: str | None = None


class BackgroundIndexing:
    """Keeps the index of one home up to date, beside those who use it."""

    def __init__(self, store: Store, read_index: RunJob, order: IndexingOrder) -> None:
        self._store, self._read_index, self._order = store, read_index, order
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self) -> None:
        """Index in a process what there is, and look again from time to time, until cancelled."""
        while True:
            try:
                coverage = await measure_coverage(self._store, self._read_index)
            except TreadleError as error:
                _log.info("nothing is indexed in the background: %s", error)
                return
            if _is_much(coverage):
                await self._index()
            await asyncio.sleep(_AGAIN)

    async def _index(self) -> None:
        try:
            await finish_uncancelled(asyncio.to_thread(self._start))
            while self._process is not None and self._process.poll() is None:  # noqa: ASYNC110
                await asyncio.sleep(_POLL)
        except OSError as error:
            _log.warning("the home cannot be indexed in the background: %s", error)
        finally:
            await finish_uncancelled(asyncio.to_thread(self._end))

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of ours
            _PROGRAM,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for who started it
        )
        assert self._process.stdin is not None, "it was asked for"
        with suppress(BrokenPipeError):
            self._process.stdin.write(json_bytes(self._order) + b"\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        """End the process; all that it wrote is whole."""
        if self._process is None:
            return
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()
        if self._process.returncode > 0:
            _log.warning("indexing in the background ended with %d", self._process.returncode)


def _is_much(coverage: IndexCoverage) -> bool:
    without_words = coverage.entries - coverage.with_words
    without_vectors = coverage.entries - coverage.with_vectors
    return without_words >= _MUCH or (is_installed() and without_vectors >= _MANY)
