from __future__ import annotations

import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import IO, Self

from tests.fork_server import Process

PRELUDE = """
import asyncio, os, sys
from pathlib import Path
from treadle.core.errors import *
from treadle.store import *
from treadle.testing.contracts.drafts import *
directory, thread = Path(sys.argv[1]), sys.argv[2]
"""


class Child:
    """A Python process that runs `script` with the store's names at hand."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.process = Process([sys.executable, "-c", PRELUDE + script, *map(str, arguments)])
        self.output: IO[str] = TextIOWrapper(self.process.stdout, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__()

    def say(self) -> None:
        """Send an empty line."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(b"\n")

    def line(self) -> str:
        return self.output.readline().rstrip("\n")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def result(self) -> str:
        """All that the child printed, once it has ended well."""
        self.say()
        self.process.stdin.close()
        printed = self.output.read()
        assert self.process.wait() == 0
        return printed
