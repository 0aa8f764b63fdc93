from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.fork_server import run
from treadle.cli.app import COMMANDS
from treadle.cli.repl import slash

from .conftest import work
from .terminal import SCRIPT

PAGE = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"[|&;<>$*?~`()]")
VARYING = re.compile(r"thr_[0-9a-f-]{36}|\b[0-9a-f]{12,64}\b|[\d,]*\d(?:-[\dT:-]+Z)?")


def examples() -> Iterator[tuple[str, str]]:
    """Each command on the page, and what the page says it prints."""
    for block in BLOCK.findall(PAGE):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def comparable(text: str) -> list[str]:
    """Lines without ids, times, sizes and the spaces that align them."""
    return [" ".join(VARYING.sub("N", line).split()) for line in text.splitlines()]


def test_the_page_shows_what_the_commands_print(treadle):
    asyncio.run(work(treadle))
    for command, said in examples():
        argv: list[str | Path] = ["bash", "-c", f"set -e; {command}"]
        if command.startswith("treadle ") and SHELL.search(command) is None:
            argv = [SCRIPT, *shlex.split(command)[1:]]
        done = run(argv, cwd=treadle.project, env=treadle.env)
        assert (done.returncode, done.stderr) == (0, b""), command
        shown, told = comparable(done.stdout.decode()), comparable(said)
        if told and told[-1].endswith("…"):
            told[-1] = told[-1].removesuffix("…")
            assert "\n".join(shown).startswith("\n".join(told)), command
        else:
            assert shown == told, command


def test_every_command_has_a_section():
    sections = re.findall(r"^## treadle (\w+)$", PAGE, re.MULTILINE)
    assert sorted(sections) == sorted(COMMANDS)


def test_every_command_of_the_chat_has_a_row():
    chat = PAGE.partition("## treadle chat\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`/.*?) \|", chat, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`/(\w+)", row)}
    assert named == slash.COMMANDS.keys()
