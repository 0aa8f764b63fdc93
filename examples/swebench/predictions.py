"""Predictions for SWE-bench from a run of `treadle eval`: one line for each instance.

    python examples/swebench/predictions.py runs/first > predictions.jsonl
    python -m swebench.harness.run_evaluation --predictions_path predictions.jsonl …

What `git diff` says of an attempt is its prediction, byte for byte: binary files are in it as git
writes them, and what the attempt added but git ignores is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from treadle.evaluation.run_directory import RunDirectory

__all__ = ["predictions"]


def predictions(run: Path, *, attempt: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the prediction of every task of a run whose attempt is over."""
    directory = RunDirectory(run)
    plan = directory.plan()
    if plan is None:
        raise SystemExit(f"there is no run in {str(run)!r}; name the directory given to -o")
    for task in plan.tasks:
        place = directory.attempt(task.name, attempt)
        if place.result() is not None and place.patch.exists():
            yield {
                "instance_id": task.name,
                "model_name_or_path": f"treadle+{plan.model}",
                # A patch is bytes; what is no UTF-8 survives as in Python's own names of files.
                "model_patch": place.patch.read_bytes().decode(errors="surrogateescape"),
            }


def main() -> None:
    """Print the predictions of a run."""
    parser = argparse.ArgumentParser(description="Predictions for SWE-bench.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--attempt", type=int, default=1)
    asked = parser.parse_args()
    for each in predictions(asked.run, attempt=asked.attempt):
        sys.stdout.write(json.dumps(each) + "\n")


if __name__ == "__main__":
    main()
