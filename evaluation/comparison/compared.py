"""What a comparison showed, as a file.

Invariant: it says what answered, a model or the stand-in, and never whose machine it was.
"""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from .mini import PACKAGES
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
    versions: dict[str, str] = {}
    """Of those who were compared, where they have one."""
    plain: list[TrialResult] = []
    killed: list[TrialResult] = []
    long: list[TrialResult] = []

    @classmethod
    def begun(cls, model: str, *, real: bool) -> Self:
        """Return one without trials."""
        day = time.strftime("%Y-%m-%d", time.gmtime())
        return cls(measured=day, model=model, real=real, versions=_versions())

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


def _versions() -> dict[str, str]:
    """Return the versions of those that are no part of this repository."""
    name, _, pinned = PACKAGES[0].partition("==")
    try:
        return {"Codex": version("openai-codex-cli-bin"), name: pinned}
    except PackageNotFoundError:
        return {name: pinned}
