from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.workspace.rewind import FileRewinds

from .scenes import tree
from .test_kills import THREAD, bounds, recorder

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"])
Act: TypeAlias = tuple[str, str, str]
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "link", "remove", "mkdir", "chmod"]),
        NAMES,
        st.sampled_from("xyz"),
    ),
    max_size=5,
)
"""Contents of one size, so that only time, inode and content tell them apart."""


def act(root: Path, done: Act) -> None:
    """Do one thing, if the directory and what is there allow it."""
    what, name, text = done
    place = root / name
    if any(parent.is_symlink() for parent in place.parents) or not place.parent.is_dir():
        return
    if what in ("write", "link", "mkdir") and (place.is_symlink() or place.is_dir()):
        return
    if what == "write":
        place.write_text(text)
    elif what == "link" and not place.exists():
        place.symlink_to(text)
    elif what == "mkdir" and not place.exists():
        place.mkdir()
    elif what == "chmod" and place.is_file() and not place.is_symlink():
        place.chmod(0o700 if text == "x" else 0o640)
    elif what == "remove" and place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif what == "remove":
        place.unlink(missing_ok=True)


async def play(place: Path, turns: list[tuple[list[Act], list[Act]]]) -> list[dict[str, object]]:
    """Let turns work, and somebody else after each; return the trees before each turn."""
    project = place / "project"
    before = []
    for number, (ours, theirs) in enumerate(turns, start=1):
        before.append(tree(project))
        recording = recorder(place, number)
        recording.begin_turn()
        await recording.before_command(bounds(place))
        for each in ours:
            act(project, each)
        recording.end_turn()
        await recording.settle()
        for each in theirs:
            act(project, each)
    return before


def touched(acts: list[Act]) -> set[str]:
    return {name for _, name, _ in acts}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(start=ACTS, turns=st.lists(ACTS, min_size=1, max_size=3), back=st.integers(1, 3))
def test_a_rewind_is_exact_where_nobody_else_works(start, turns, back):
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name in ("home", "project"):
            (place / name).mkdir()
        for each in start:
            act(place / "project", each)
        before = asyncio.run(play(place, [(acts, []) for acts in turns]))
        after = tree(place / "project")
        first = max(len(turns) - back, 0) + 1
        rewinds = FileRewinds(place / "home", THREAD)
        plan = rewinds.plan([(THREAD, first, 99)])
        assert plan.risky == ()
        _, done = rewinds.restore(plan.actions, 99)
        assert done.left == ()
        assert tree(place / "project") == before[first - 1]
        past = rewinds.newest()
        assert past is not None
        rewinds.restore(rewinds.plan_undo(past).actions, 99)
        assert tree(place / "project") == after


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(start=ACTS, turns=st.lists(st.tuples(ACTS, ACTS), min_size=1, max_size=3))
def test_what_somebody_else_did_stays_unless_it_was_named(start, turns):
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name in ("home", "project"):
            (place / name).mkdir()
        for each in start:
            act(place / "project", each)
        asyncio.run(play(place, turns))
        after = tree(place / "project")
        rewinds = FileRewinds(place / "home", THREAD)
        plan = rewinds.plan([(THREAD, 1, 99)])
        named = {each.path for each in plan.changes}
        rewinds.restore([each for each in plan.actions if not each.risky], 99)
        now = tree(place / "project")
        ours = {name for acts, _ in turns for name in touched(acts)}
        theirs = {name for _, acts in turns for name in touched(acts)}
        for path in {*after, *now}:
            if after.get(path) != now.get(path) or (path in after) != (path in now):
                assert path in named
                assert any(path == name or path.startswith(f"{name}/") for name in ours)
        for path in theirs - ours:
            if not any(path.startswith(f"{name}/") or name.startswith(f"{path}/") for name in ours):
                assert after.get(path) == now.get(path)
