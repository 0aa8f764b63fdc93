"""Rewinding: what is copied before commands run, and where it is put back.

Weakness: commands are confined nowhere, so that what they try outside succeeds by itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress

from attack.attempt import Area
from attack.ground import SECRET, Ground, command, listen
from attack.ground import Heard as Conversation
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel

__all__ = ["AREA"]

AREA = Area(
    "rewinding", "files that are put back, and where they lead", "commands are confined nowhere"
)

SWAPS = {
    "a directory is a link by now": "echo new > d/victim; rm -r d; ln -s $OUT d",
    "a file is a link by now": "rm victim; ln -s $OUT/victim victim",
    "a directory above is a link by now": "echo new > a/d/victim; rm -r a; ln -s $OUT/.. a",
    "a link is new": "ln -s $OUT new; ln -s $OUT/victim new-victim",
    "a link leads to a link": "rm -r d; ln -s $OUT hop; ln -s hop d",
    "a file is a directory by now": "rm victim; mkdir victim; ln -s $OUT/victim victim/victim",
}


def settle(ground: Ground) -> None:
    """Make the files of the project that the model will change."""
    for place in (".", "d", "a/d", "a/outside"):
        (ground.workspace / place).mkdir(parents=True, exist_ok=True)
        (ground.workspace / place / "victim").write_text("old")


async def rewind(
    ground: Ground, scripts: Sequence[str], *, undo: bool = False, turns: int = 1
) -> Conversation:
    """Run a command in each turn, and take the last turns back."""
    answers = [
        answer for each in scripts for answer in (Answer(calls=(command(each),)), Answer(text="ok"))
    ]
    model, heard = ScriptedModel(answers), Conversation()
    sandbox = "danger-full-access" if ground.weak else "workspace-write"
    try:
        async with ground.open(model, sandbox=sandbox) as thread:
            for number in range(len(scripts)):
                await listen(thread, heard, f"turn {number}")
            plan = await thread.rewinds.plan(turns)
            assert plan.files.changes, "no file is put back"
            await thread.rewinds.apply(plan, overwrite=True)
            if undo:
                await thread.rewinds.apply(await thread.rewinds.plan_undo(), overwrite=True)
    finally:
        await model.close()
    return heard


@AREA.each(SWAPS, quick="a directory is a link by now", proof=True)
async def put_a_file_back_through_a_link(ground: Ground, script: str) -> str:
    """A command changes a file and puts a link to the outside in its way; the turn is taken back.

    Through if something outside is changed, made or removed.
    """
    settle(ground)
    await rewind(ground, [f"touch $PROOF; {script}"])
    return ground.check_victim()


@AREA.each(SWAPS)
async def undo_a_rewind_through_a_link(ground: Ground, script: str) -> str:
    """The same, and then the rewind itself is undone. Through if something outside changed."""
    settle(ground)
    await rewind(ground, [script], undo=True)
    return ground.check_victim()


HIDDEN = {
    "a file that is a link": ("rm victim; ln -s $KEY victim", "rm victim"),
    "a directory that is a link": ("rm -r d; ln -s $KEYS d", "rm d; mkdir d; touch d/victim"),
    "a link in a new directory": ("mkdir n; ln -s $KEYS n/k; ln -s $KEY n/f", "rm -r n"),
}


@AREA.each(HIDDEN)
async def have_a_hidden_file_copied(ground: Ground, scripts: tuple[str, str]) -> str:
    """Commands make links to hidden files, which a rewind would copy and put back as files.

    Through if what is in them turns up in the project or among the copies.
    """
    settle(ground)
    key = ground.secrets[0]
    named = [each.replace("$KEYS", str(key.parent)).replace("$KEY", str(key)) for each in scripts]
    await rewind(ground, named)
    return _find_secret(ground)


def _find_secret(ground: Ground) -> str:
    places = [ground.workspace, ground.home]
    files = [each for place in places for each in place.rglob("*") if not each.is_symlink()]
    found = [
        str(each)
        for each in files
        if each.is_file() and each not in ground.secrets and SECRET.encode() in each.read_bytes()
    ]
    return f"the secret is in {found}" if found else ""


@AREA.attempt(seconds=60)
async def swap_a_directory_while_files_are_put_back(ground: Ground) -> str:
    """Somebody swaps a directory for a link to the outside while a rewind writes there.

    Through if anything outside is changed, made or removed.
    """
    settle(ground)
    place, real, stop = ground.workspace / "d", ground.workspace / "real", threading.Event()
    for number in range(300):
        (place / f"f{number}").write_text("old")

    def swap() -> None:
        while not stop.is_set():
            with suppress(OSError):
                place.rename(real)
                place.symlink_to(ground.outside)
                place.unlink()
                real.rename(place)

    answers = [Answer(calls=(command("for f in d/*; do echo new > $f; done"),)), Answer(text="ok")]
    model, heard = ScriptedModel(answers), Conversation()
    swapper = threading.Thread(target=swap)
    try:
        async with ground.open(model) as thread:
            await listen(thread, heard, "go")
            plan = await thread.rewinds.plan()
            swapper.start()
            with suppress(OSError):
                await thread.rewinds.apply(plan, overwrite=True)
    finally:
        stop.set()
        await asyncio.to_thread(_join, swapper)
        await model.close()
    return ground.check_victim()


def _join(thread: threading.Thread) -> None:
    if thread.ident is not None:
        thread.join()
