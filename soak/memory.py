"""Memory: how a process that is never struck grows.

Owns the fit. The first third is left out: a process that has just begun grows because
it learns, not because it leaks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Sample", "slope"]

_FEWEST = 60
"""Below a minute of samples there is nothing to tell."""


class Sample(NamedTuple):
    """The resident memory of a process at a moment."""

    at: float
    megabytes: float

    @staticmethod
    def of(pid: int, at: float) -> Sample:
        """A sample now. Raises `OSError` when the process is gone."""
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return Sample(at, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def slope(samples: Sequence[Sample]) -> float | None:
    """Megabytes per hour by least squares over the last two thirds; None for too few."""
    kept = samples[len(samples) // 3 :]
    if len(kept) < _FEWEST:
        return None
    middle = sum(each.at for each in kept) / len(kept)
    usual = sum(each.megabytes for each in kept) / len(kept)
    rise = sum((each.at - middle) * (each.megabytes - usual) for each in kept)
    return round(rise / sum((each.at - middle) ** 2 for each in kept) * 3600, 1)
