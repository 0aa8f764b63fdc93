"""Verification: the tests of a task, run in a box, and what they say.

Owns the files of `/logs/verifier`. Invariant: tests see the workspace and their own directory,
and write nowhere else; whatever they leave is data, and no link of theirs is followed.
"""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path

import msgspec

from ..core.files import read_bounded, replace_file
from ..core.typed import decode_json
from .results import Verdict
from .run_directory import AttemptPlace
from .task import Task
from .task_box import Boxes

__all__ = ["grade"]

_MOST_BYTES = 1 << 20


async def grade(boxes: Boxes, task: Task, place: AttemptPlace) -> Verdict:
    """Run the tests of a task in the workspace of an attempt; return what they say."""
    shutil.rmtree(place.verifier, ignore_errors=True)
    for name in ("verifier", "agent", "artifacts"):
        (place.verifier / name).mkdir(parents=True)
    box = boxes.box(
        place.workspace,
        task.image.workdir,
        env={**task.image.env, **task.verifier_env},
        network=task.network,
        mounts=((task.tests, "/tests", False), (place.verifier, "/logs", True)),
    )
    began = time.monotonic()
    ran = await box.run("bash", "/tests/test.sh", seconds=task.verifier_seconds)
    seconds = time.monotonic() - began
    replace_file(place.path / "tests.txt", ran.output)
    if ran.code is None:
        limit = f"the tests did not end in {task.verifier_seconds:g} seconds"
        return Verdict(error=limit, seconds=seconds)
    try:
        rewards = _read_rewards(place.verifier / "verifier")
    except ValueError as error:
        return Verdict(error=f"{error} (exit code {ran.code})", seconds=seconds)
    reward = rewards.get("reward", sum(rewards.values()) / len(rewards))
    return Verdict(reward=reward, rewards=rewards, seconds=seconds)


def _read_rewards(place: Path) -> dict[str, float]:
    """Return what the tests wrote. Raises `ValueError`."""
    plain, named = place / "reward.txt", place / "reward.json"
    if place.is_symlink() or plain.is_symlink() or named.is_symlink():
        raise ValueError("the reward is a link; write a file")
    try:
        if named.exists():
            rewards = decode_json(read_bounded(named, _MOST_BYTES), dict[str, float])
        else:
            rewards = {"reward": float(read_bounded(plain, _MOST_BYTES).decode().strip())}
    except FileNotFoundError:
        raise ValueError("the tests wrote neither reward.txt nor reward.json") from None
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise ValueError(f"the reward cannot be read: {error}") from error
    if not rewards or not all(map(math.isfinite, rewards.values())):
        raise ValueError("the reward is no number")
    return rewards
