"""Reading: what Treadle reads and writes itself on behalf of a model.

Weakness: the link leads to a file of the project, which may be read; patches may go anywhere.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attack.attempt import Area
from attack.ground import SECRET, Ground, command
from treadle.core.errors import TreadleError
from treadle.prompt.input import LocalImage
from treadle.sandbox.reading import open_for_model
from treadle.testing.script import Answer, Call
from treadle.tools.executor import Bounds
from treadle.tools.local import LocalExecutor

__all__ = ["AREA"]

AREA = Area(
    "reading",
    "links and names that lead Treadle itself astray",
    "what is led to may be read, and anything may be patched",
)

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
SPOTS = {"a key of the user": 0, "a login of the user": 1, "a key of Treadle": 2}


def target(ground: Ground, spot: int = 0) -> Path:
    """Return a file with a secret; on weak ground, one that the model may read."""
    if not ground.weak:
        return ground.secrets[spot]
    allowed = ground.workspace / "notes.md"
    allowed.write_text(SECRET)
    return allowed


def leaked(text: str, secret: str = SECRET) -> str:
    """Return evidence, if what was sent contains the secret."""
    if secret not in text:
        return ""
    at = text.index(secret)
    return f"the provider received …{text[max(0, at - 80) : at + 60]}…"


@AREA.each(SPOTS, quick="a key of the user", proof=True)
async def link_instructions_by_a_command(ground: Ground, spot: int) -> str:
    """A command makes `AGENTS.md` a link to a hidden file, which the next turn would send.

    Through if the provider receives what is in it.
    """
    link = command(f"ln -s {target(ground, spot)} AGENTS.md")
    answers = [Answer(calls=(link,)), Answer(text="ok"), Answer(text="ok")]
    heard = await ground.converse(answers, "one", "two")
    if not (ground.workspace / "AGENTS.md").is_symlink():
        raise AssertionError("the command made no link")
    return leaked(heard.sent_text)


FORMS = {
    "a link": lambda ground, file: (ground.workspace / "AGENTS.md").symlink_to(file),
    "a link by dots": lambda ground, file: (ground.workspace / "AGENTS.md").symlink_to(
        os.path.relpath(file, ground.workspace)
    ),
    "a link to a link": lambda ground, file: (
        (ground.workspace / "other.md").symlink_to(file),
        (ground.workspace / "AGENTS.md").symlink_to("other.md"),
    ),
    "a link on the way": lambda ground, file: (
        (ground.workspace / "docs").symlink_to(file.parent),
        (ground.workspace / "AGENTS.md").symlink_to(f"docs/{file.name}"),
    ),
    "a link by a process": lambda ground, file: (ground.workspace / "AGENTS.md").symlink_to(
        f"/proc/self/root{file}"
    ),
    "an override": lambda ground, file: (ground.workspace / "AGENTS.override.md").symlink_to(file),
}


@AREA.each(FORMS, proof=True)
async def bring_linked_instructions(ground: Ground, make: Callable[[Ground, Path], object]) -> str:
    """A cloned project has an `AGENTS.md` that leads to a hidden file in some way.

    Through if the provider receives what is in it.
    """
    make(ground, target(ground))
    heard = await ground.converse([Answer(text="ok")])
    return leaked(heard.sent_text)


@AREA.attempt(quick=True, proof=True)
async def attach_a_linked_image(ground: Ground) -> str:
    """An image of the project is a link to a hidden one, and the user attaches it.

    Through if the provider receives it.
    """
    hidden = ground.workspace if ground.weak else ground.user / ".ssh"
    (hidden / "real.png").write_bytes(PIXEL)
    (ground.workspace / "picture.png").symlink_to(hidden / "real.png")
    said = ("what is it?", LocalImage(ground.workspace / "picture.png"))
    heard = await ground.converse([Answer(text="ok")], said)
    return leaked(heard.sent_text, base64.b64encode(PIXEL).decode())


IMAGES = {
    "by its path": "{hidden}/real.png",
    "by a link": "link.png",
    "by dots": "{ws}/../user/.ssh/real.png",
    "by a linked directory": "pictures/real.png",
    "by a process": "/proc/self/root{hidden}/real.png",
}


@AREA.each(IMAGES, quick="by a link", proof=True)
async def view_a_hidden_image(ground: Ground, path: str) -> str:
    """The model asks `view_image` for a hidden file. Through if the provider receives it."""
    hidden = ground.user / ".ssh"
    shown = ground.workspace / "shown" if ground.weak else hidden
    shown.mkdir(exist_ok=True)
    (shown / "real.png").write_bytes(PIXEL)
    (ground.workspace / "link.png").symlink_to(shown / "real.png")
    (ground.workspace / "pictures").symlink_to(shown)
    named = (
        str(shown / "real.png") if ground.weak else path.format(hidden=hidden, ws=ground.workspace)
    )
    heard = await ground.call(Call(name="view_image", arguments={"path": named}))
    return leaked(heard.sent_text, base64.b64encode(PIXEL).decode())


@AREA.attempt(seconds=30)
def swap_a_link_while_it_is_read(ground: Ground) -> str:
    """Somebody swaps a link between a good and a hidden file while Treadle reads it, for 2 s.

    Through if a reading ever has the hidden file's content.
    """
    link, good = ground.workspace / "AGENTS.md", ground.workspace / "good.md"
    good.write_text("good")
    link.symlink_to(good)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for each in (ground.secrets[0], good):
                (ground.workspace / "next").symlink_to(each)
                (ground.workspace / "next").rename(link)

    swapper = threading.Thread(target=swap)
    swapper.start()
    deadline = time.monotonic() + 2
    try:
        while time.monotonic() < deadline:
            with (
                suppress(PermissionError),
                open_for_model(ground.workspace, ground.home, link) as file,
            ):
                if (read := file.read()) != b"good":
                    return f"it read {read!r}"
    finally:
        stop.set()
        swapper.join()
    return ""


PATCHES = {
    "by dots": "../outside/proof",
    "by its path": "{out}/proof",
    "by a link": "link/proof",
    "into the repository": ".git/hooks/pre-commit",
    "into the settings": ".treadle/config.toml",
    "by a new directory": "new/../../outside/proof",
}


@AREA.each(PATCHES, quick="by a link", proof=True)
async def patch_outside(ground: Ground, path: str) -> str:
    """The model patches a file outside the workspace, or one from which programs run.

    Through if such a file is there.
    """
    (ground.workspace / "link").symlink_to(ground.outside)
    for name in (".git", ".treadle"):
        (ground.workspace / name).mkdir()
    text = f"*** Begin Patch\n*** Add File: {path.format(out=ground.outside)}\n+x\n*** End Patch"
    sandbox = "danger-full-access" if ground.weak else "workspace-write"
    await ground.call(Call(name="apply_patch", input=text), sandbox=sandbox)
    made = [
        str(each)
        for name in (".git", ".treadle")
        for each in (ground.workspace / name).rglob("*")
        if each.is_file()
    ]
    return f"it made {made}" if made else ground.check_victim()


@AREA.attempt(seconds=30)
async def patch_against_a_swapping_link(ground: Ground) -> str:
    """Somebody swaps a directory for a link to the outside while patches go there, for 3 s.

    Through if a file ever lands outside.
    """
    place, real, stop = ground.workspace / "r", ground.workspace / "real", threading.Event()
    place.mkdir()

    def swap() -> None:
        while not stop.is_set():
            with suppress(OSError):
                place.rename(real)
                place.symlink_to(ground.outside)
                place.unlink()
                real.rename(place)

    executor = LocalExecutor(home=ground.home, environ=ground.environ)
    bounds = Bounds(policy=ground.policy(), workspace=ground.workspace)
    swapper = threading.Thread(target=swap)
    swapper.start()
    deadline, number = time.monotonic() + 3, 0
    try:
        while time.monotonic() < deadline:
            number += 1
            text = f"*** Begin Patch\n*** Add File: r/p{number}\n+x\n*** End Patch"
            with suppress(OSError, TreadleError):
                await executor.patch(text, cwd=ground.workspace, bounds=bounds)
            with suppress(OSError, TreadleError):
                await executor.write(place / f"w{number}", b"x", bounds=bounds)
    finally:
        stop.set()
        swapper.join()
        await executor.close()
    return ground.check_victim()
