"""What a comparison showed, as a file.

Invariant: it says what answered, a model or the stand-in, and never whose machine it was.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from .trial import TrialResult

__all__ = ["COMMITTED", "Compared"]

COMMITTED = Path(__file__).parent / "results.json"


class Compared(Struct, kw_only=True):
    """The trials of a comparison."""

    measured: str
    """The day."""
    model: str
    real: bool
    """Whether a real model answered."""
    plain: list[TrialResult] = []
    killed: list[TrialResult] = []
    long: list[TrialResult] = []

    @classmethod
    def begun(cls, model: str, *, real: bool) -> Self:
        """Return one without trials."""
        return cls(measured=time.strftime("%Y-%m-%d", time.gmtime()), model=model, real=real)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what a file says."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        """Put it into a file, without what the processes complained about."""
        told = msgspec.to_builtins(self)
        for trial in (*told["plain"], *told["killed"], *told["long"]):
            trial["error"] = "yes" if trial["error"] else ""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
