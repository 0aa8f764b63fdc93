"""Results: what a run of the benchmark showed, as a file that others can read.

Invariant: a file says what the machine is (cores, Python), never whose it is or where.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .figures import Figures, least, medians
from .targets import Medians

__all__ = ["COMMITTED", "Results", "machine"]

COMMITTED = Path(__file__).parent.parent / "results" / "peers.json"
DIGITS = 4


@dataclass(slots=True)
class Results:
    """Figures of every run, by scenario and contestant; why some have none."""

    machine: dict[str, Any]
    measured: str
    """The day."""
    versions: dict[str, str] = field(default_factory=dict)
    runs: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """What the parts of Treadle's own turns cost, by kind of turn."""
    remark: str = ""
    """What a reader has to know about how they came about."""

    @classmethod
    def begun(cls) -> Results:
        """None yet."""
        return cls(machine(), time.strftime("%Y-%m-%d", time.gmtime()))

    @classmethod
    def read(cls, path: Path) -> Results:
        """Results of a file."""
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """Put them into a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {name: getattr(self, name) for name in self.__slots__}
        path.write_text(json.dumps(_rounded(told), indent=1) + "\n")

    def note(self, scenario: str, contestant: str, figures: Figures) -> None:
        """Keep what a run showed; it makes up for one that failed."""
        self.runs.setdefault(scenario, {}).setdefault(contestant, []).append(figures)
        self.failures.get(scenario, {}).pop(contestant, None)

    def failed(self, scenario: str, contestant: str, reason: str) -> None:
        """Keep why a run showed nothing."""
        self.failures.setdefault(scenario, {})[contestant] = reason

    @property
    def rounds(self) -> list[Medians]:
        """The figures of each round alone, for what they say of the noise."""
        counts = (len(runs) for by_name in self.runs.values() for runs in by_name.values())
        return [
            {
                scenario: {name: runs[at] for name, runs in by_name.items() if at < len(runs)}
                for scenario, by_name in self.runs.items()
            }
            for at in range(max(counts, default=0))
        ]

    @property
    def least(self) -> Medians:
        """The least of each figure over rounds: that of the round which others disturbed least."""
        return {
            scenario: {name: least(runs) for name, runs in by_name.items()}
            for scenario, by_name in self.runs.items()
        }

    @property
    def medians(self) -> Medians:
        """The medians over rounds."""
        return {
            scenario: {name: medians(runs) for name, runs in by_name.items()}
            for scenario, by_name in self.runs.items()
        }


def machine() -> dict[str, Any]:
    """What matters about the machine."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": os.getloadavg()[1],
    }


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
        case list():
            return [_rounded(each) for each in value]
    return value
