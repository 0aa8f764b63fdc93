from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from tests.fork_server import run

from .terminal import SCRIPT, Treadle
from .test_cli_page import BLOCK, SHELL, comparable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "getting-started.md"
START = re.compile(r"^\$ ", re.MULTILINE)
CHUNK = re.compile(r"(?<=Chunk ID: )[0-9a-f]+")


def test_the_tutorial_shows_what_its_commands_print(treadle: Treadle):
    shutil.copytree(ROOT / "examples" / "tutorial", treadle.project, dirs_exist_ok=True)
    blocks = BLOCK.findall(CHUNK.sub("N", PAGE.read_text(encoding="utf-8")))
    examples = [each for block in blocks for each in START.split(block)[1:]]
    assert len(examples) == 11
    for example in examples:
        command, _, said = example.partition("\n")
        argv: list[str | Path] = ["bash", "-c", command]
        if command.startswith("treadle ") and SHELL.search(command) is None:
            argv = [SCRIPT, *shlex.split(command)[1:]]
        done = run(argv, cwd=treadle.project, env=treadle.env)
        assert done.returncode == 0, (command, done.stderr.decode())
        shown = CHUNK.sub("N", done.stdout.decode())
        assert comparable(shown) == comparable(said), command
