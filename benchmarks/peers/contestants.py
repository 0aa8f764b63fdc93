"""Who takes part: how each is installed and started.

Invariant: a peer's packages live in an environment of its own under `benchmarks/.peers`,
made when it is first needed and made anew when its requirements change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CONTESTANTS", "Contestant", "NotInstalled", "python_of"]

HERE = Path(__file__).parent
CACHE = HERE.parent / ".peers"
PATIENCE = 1_800.0
"""Seconds that an installation may take."""


class NotInstalled(Exception):
    """A peer's packages could not be had."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One of those who are measured."""

    name: str
    title: str
    driver: str
    environment: str | None
    """The requirements that its environment has; without, it runs in ours."""
    scenarios: tuple[str, ...]


_BARE = ("cold_start", "tool_loop", "command_loop", "deltas", "turns", "threads")
_ALL = (*_BARE, "resume")
_FLOOR = (*_BARE, "threads_many")
_TREADLE = (*_ALL, "threads_many", "resume_long", "resume_huge")
_LOOPS = ("tool_loop", "turns")
CONTESTANTS = {
    each.name: each
    for each in (
        Contestant("floor", "bare aiohttp + msgspec", "floor", "floor", _FLOOR),
        Contestant("raw", "raw asyncio + msgspec", "raw", "floor", _FLOOR),
        Contestant("treadle", "Treadle", "treadle_library", None, _TREADLE),
        Contestant("treadle_linear", "Treadle, linear", "treadle_linear", None, _LOOPS),
        Contestant("treadle_exec", "`treadle exec`", "", None, ("cold_start",)),
        Contestant("codex", "Codex", "codex", None, _ALL),
        Contestant("pydantic_ai", "Pydantic AI", "pydantic_agent", "pydantic_ai", _ALL),
        Contestant("openai_agents", "OpenAI Agents SDK", "openai_agents", "openai_agents", _ALL),
        Contestant("langgraph", "LangGraph", "langgraph_agent", "langgraph", _ALL),
        Contestant("google_adk", "Google ADK", "google_agent", "google_adk", _ALL),
        Contestant("smolagents", "smolagents", "smolagents_agent", "smolagents", _ALL),
    )
}


def python_of(contestant: Contestant) -> Path:
    """The Python that runs a contestant; its environment is made if need be."""
    if contestant.environment is None:
        return Path(sys.executable)
    requirements = HERE / "requirements" / f"{contestant.environment}.txt"
    place = CACHE / contestant.environment
    stamp = place / "installed.txt"
    if not (stamp.exists() and stamp.read_text() == requirements.read_text()):
        _install(place, requirements)
        stamp.write_text(requirements.read_text())
    return place / "bin" / "python"


def _install(place: Path, requirements: Path) -> None:
    print(f"installing {place.name} …", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    quiet = ("-q", "--disable-pip-version-check")
    pip = (str(place / "bin" / "python"), "-m", "pip", "install", *quiet, "-r", str(requirements))
    for command in ((sys.executable, "-m", "venv", str(place)), pip):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise NotInstalled(f"not installed within {PATIENCE:.0f} s") from error
        except subprocess.CalledProcessError as error:
            last = (error.stderr or error.stdout).strip().splitlines()[-1:]
            raise NotInstalled(f"pip: {' '.join(last)}") from error
