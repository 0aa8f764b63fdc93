"""`python -m fuzz [--seconds N] [TARGET …]`: run targets one after the other.

Owns the directories of a run. What is learned goes to `fuzz/corpus/`, which git does not
see; what broke a parser goes to the target's seeds, where a test replays it from then on.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from . import SEEDS, names, words_of

__all__ = ["main"]

CORPUS = Path(__file__).parent / "corpus"
MOST_MEGABYTES = 1024
"""A target that needs more has found input that costs memory it should not."""
LONGEST_SECONDS = 10
"""An input that takes longer hangs."""

_FIGURES = re.compile(r"^stat::((?:number_of_executed_units|peak_rss_mb): *\d+)$", re.MULTILINE)


def main() -> int:
    """Run the chosen targets; 1 if any found something."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(names()))
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.targets) - set(names())):
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(names())}")
    if importlib.util.find_spec("atheris") is None:
        print("Fuzzing needs atheris 3.0.0, which runs on Python 3.11: make fuzz PYTHON=python3.11")
        return 1
    found = [name for name in asked.targets or names() if not _survives(name, asked.seconds)]
    if found:
        print(f"findings in {', '.join(found)}; each lies in fuzz/seeds/<target>/crash-…")
    return 1 if found else 0


def _survives(name: str, seconds: int) -> bool:
    print(f"{name}: {seconds} s", end="", flush=True)
    learned, seeds = CORPUS / name, SEEDS / name
    for directory in (learned, seeds):
        directory.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-W", "ignore", "-m", "fuzz.drive", name),
        *(f"-max_total_time={seconds}", f"-timeout={LONGEST_SECONDS}"),
        *(f"-rss_limit_mb={MOST_MEGABYTES}", f"-artifact_prefix={seeds}/"),
        *(f"-dict={_dictionary(name)}", "-max_len=4096", "-verbosity=0", "-print_final_stats=1"),
        *(str(learned), str(seeds)),
    ]
    done = subprocess.run(command, check=False, capture_output=True)
    said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    print(f", {', '.join(_FIGURES.findall(said))}", flush=True)
    if done.returncode:
        print(said)
    return done.returncode == 0


def _dictionary(name: str) -> Path:
    path = CORPUS / f"{name}.dict"
    words = ("".join(f"\\x{byte:02x}" for byte in word) for word in words_of(name))
    path.write_text("".join(f'"{word}"\n' for word in words), encoding="ascii")
    return path


if __name__ == "__main__":
    sys.exit(main())
