"""Shows that the contract matrix bites: breaks one policy decision after the other.

Each entry of `mutations.toml` changes one line in a copy of the source. The matrix is played
there, and must find out. Exits with 1 when a change goes unnoticed. Arguments choose the
changes whose file or policy holds one of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PLAY = "import sys; from treadle.cli.app import run; sys.exit(run())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One line, and what it becomes."""

    file: str
    """Below ``src/treadle``."""
    before: str
    """The line without what indents it; it stands there once."""
    after: str
    breaks: str
    """The policy that is broken, in a few words."""
    domain: str
    harness: str = "shared"
    """Where the rows are played that should notice."""

    def applied(self, text: str) -> str:
        """The text of the file with the change. Raises `ValueError` where it does not apply."""
        lines = text.splitlines(keepends=True)
        found = [index for index, line in enumerate(lines) if line.strip() == self.before]
        if len(found) != 1:
            raise ValueError(f"{self.file}: {self.before!r} stands there {len(found)} times")
        lines[found[0]] = lines[found[0]].replace(self.before, self.after)
        return "".join(lines)


def mutations() -> list[Mutation]:
    """What is broken, in the order of the file."""
    told = tomllib.loads((ROOT / "scripts" / "mutations.toml").read_text(encoding="utf-8"))
    return [Mutation(**each) for each in told["mutation"]]


NOTHING_RUNS = "*"


@dataclass(slots=True)
class Copy:
    """A copy of the source in which things are broken."""

    place: Path

    @classmethod
    def made(cls, scratch: Path) -> Copy:
        """A copy in `scratch`."""
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", scratch / "src", ignore=skipped)
        return cls(scratch / "src")

    def failures(self, domain: str, harness: str, *, keep: bool = False) -> set[str]:
        """The rows that fail; `NOTHING_RUNS` where the matrix does not even run."""
        # What is compiled while something is broken must not outlive it.
        kept = {} if keep else {"PYTHONDONTWRITEBYTECODE": "1"}
        chosen = ("--domain", domain, "--harness", harness)
        done = subprocess.run(  # noqa: S603 - our own code, with our own arguments
            [sys.executable, "-c", _PLAY, "contracts", "--json", *chosen],
            env={**os.environ, "PYTHONPATH": str(self.place), **kept},
            capture_output=True,
            check=False,
        )
        try:
            rows = json.loads(done.stdout)["rows"]
        except (json.JSONDecodeError, KeyError):
            return {NOTHING_RUNS}
        return {row["id"] for row in rows if row["status"] == "failed"}

    def noticed(self, mutation: Mutation, known: set[str]) -> set[str]:
        """The rows that fail with the change and did not without."""
        file = self.place / "treadle" / mutation.file
        sound = file.read_text(encoding="utf-8")
        file.write_text(mutation.applied(sound), encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
        try:
            return self.failures(mutation.domain, mutation.harness) - known
        finally:
            file.write_text(sound, encoding="utf-8")


def main(words: list[str]) -> int:
    """Break everything in turn; the exit code."""
    chosen = [
        each
        for each in mutations()
        if not words or any(word in f"{each.file} {each.breaks}" for word in words)
    ]
    missed = 0
    known: dict[tuple[str, str], set[str]] = {}
    with tempfile.TemporaryDirectory(prefix="treadle-mutate-") as scratch:
        copy = Copy.made(Path(scratch))
        for number, each in enumerate(chosen, start=1):
            place = (each.domain, each.harness)
            if place not in known:
                known[place] = copy.failures(*place, keep=True)
            rows = copy.noticed(each, known[place])
            missed += not _is_caught(rows)
            told = f"caught by {_some(rows)}" if _is_caught(rows) else "NOT CAUGHT"
            print(f"{number:>3}  {each.file:<24}  {each.breaks:<64}  {told}", flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


def _is_caught(rows: set[str]) -> bool:
    """Whether a row says so; a change that lets nothing run shows nothing of the rows."""
    return bool(rows - {NOTHING_RUNS})


def _some(rows: set[str]) -> str:
    first, *others = sorted(rows, key=lambda name: (len(name), name))
    return f"{first} and {len(others)} more" if others else first


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
