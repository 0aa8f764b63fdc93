"""Tasks from instances of SWE-bench, for `treadle eval`.

    python examples/swebench/make_tasks.py instances.jsonl --repositories clones -o tasks

An instance is a line with `instance_id`, `repo`, `base_commit` and `problem_statement`, as the
data set has them; `clones/OWNER__NAME` is a clone of its repository. The files of the base commit
become those of the task. Its tests only say that there is a patch: SWE-bench itself grades.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["make_task"]

SETTINGS = """schema_version = "1.4"

[metadata]
instance_id = {name}

[agent]
timeout_sec = 3600
"""
INSTRUCTION = """Please solve this issue in the repository in the current directory.

{problem}

Change no tests. You are done when the issue is solved.
"""
TEST = """#!/bin/bash
# What the patch is worth, SWE-bench says; here it only has to be there.
if [ -z "$(git status --porcelain)" ]; then echo 0; else echo 1; fi > /logs/verifier/reward.txt
"""
DOCKERFILE = """FROM python:3.13
WORKDIR /testbed
COPY . .
RUN git init -q . && git add -A && \\
    git -c user.name=base -c user.email=base@localhost commit -qm base
"""


def make_task(instance: dict[str, Any], clone: Path, place: Path) -> Path:
    """Write the task of an instance; return its directory."""
    name = str(instance["instance_id"])
    task = place / name
    files = {
        "task.toml": SETTINGS.format(name=json.dumps(name)),
        "instruction.md": INSTRUCTION.format(problem=instance["problem_statement"]),
        "tests/test.sh": TEST,
        "environment/Dockerfile": DOCKERFILE,
    }
    for path, text in files.items():
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        (task / path).write_text(text)
    archive = ("git", "-C", str(clone), "archive", str(instance["base_commit"]))
    packed = subprocess.run(archive, check=True, capture_output=True).stdout
    unpack = ("tar", "-x", "-C", str(task / "environment"))
    subprocess.run(unpack, check=True, input=packed)
    return task


def main() -> None:
    """Write the tasks of a file of instances."""
    parser = argparse.ArgumentParser(description="Tasks from instances of SWE-bench.")
    parser.add_argument("instances", type=Path)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    for line in asked.instances.read_text().splitlines():
        instance = json.loads(line)
        clone = asked.repositories / str(instance["repo"]).replace("/", "__")
        print(make_task(instance, clone, asked.output))


if __name__ == "__main__":
    main()
