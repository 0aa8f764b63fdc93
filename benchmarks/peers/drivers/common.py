"""What every driver needs: its job from the command line, and a report at the end.

Standard library only, for a driver runs in the environment of its peer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["INSTRUCTIONS", "MODEL", "QUESTION", "Job", "drive", "peak_kilobytes"]

MODEL = "gpt-5.5"
INSTRUCTIONS = "You are a coding agent. Be brief."
QUESTION = "Mend the failing test in the module, then run all tests again, please"


@dataclass(slots=True)
class Job:
    """A scenario, where the server is, and how much of it."""

    scenario: str
    address: str
    scratch: Path
    sizes: dict[str, int]
    told: dict[str, Any] = field(default_factory=dict)
    """What a driver has to tell beside the peak of its memory."""

    def base(self, script: str) -> str:
        """The base URL under which the server follows a script."""
        return f"{self.address}/{script}/v1"


def drive(package: str, scenarios: dict[str, Callable[[Job], Awaitable[None]]]) -> None:
    """Do the job on the command line, and print a report."""
    scenario, address, scratch, sizes = sys.argv[1:]
    job = Job(scenario, address, Path(scratch), json.loads(sizes))
    asyncio.run(scenarios[scenario](job))  # type: ignore[arg-type]
    report = {"version": version(package), "peak_kb": peak_kilobytes(), **job.told}
    print(json.dumps(report))


def peak_kilobytes() -> int:
    """The most memory that this process ever had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
