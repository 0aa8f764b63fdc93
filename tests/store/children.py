from __future__ import annotations

import subprocess
import sys
from typing import IO, Self

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
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def line(self) -> str:
        return self.output.readline().rstrip("\n")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def result(self) -> str:
        """All that the child printed, once it has ended well."""
        printed, _ = self.process.communicate("\n")
        assert self.process.returncode == 0
        return printed
