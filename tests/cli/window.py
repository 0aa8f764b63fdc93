"""A window: a real pseudo-terminal, and the screen that a person sees in it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests.fork_server import Process

from .terminal import SCRIPT, Treadle

_CLOCKS = (
    (re.compile(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"), "*"),
    (re.compile(r"\b\d+(?:\.\d)? (s|seconds)\b"), r"N \1"),
    (re.compile(r"\b\d+%"), "N%"),
    (re.compile(r"(?<=resume )[0-9a-f]{12}"), "ID"),
    (re.compile(r"(?<=Treadle )\S+"), "V"),
)


class _Screen(pyte.Screen):
    """Answers the questions of programs about the cursor, as terminals do."""

    master = -1

    def write_process_input(self, data: str) -> None:
        os.write(self.master, data.encode())


class Window:
    """A terminal with a program in it, and somebody who reads the screen."""

    def __init__(
        self, master: int, process: Process | subprocess.Popen[bytes], columns: int, rows: int
    ) -> None:
        self.process, self.raw = process, b""
        self._master = master
        self._screen = _Screen(columns, rows)
        self._screen.master = master
        self._stream = pyte.ByteStream(self._screen)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    @property
    def shown(self) -> str:
        return "\n".join(self.lines).strip("\n")

    @property
    def text(self) -> str:
        """The screen, without what differs from run to run."""
        shown = self.shown
        for pattern, instead in _CLOCKS:
            shown = pattern.sub(instead, shown)
        return shown

    def until(self, *texts: str) -> str:
        """The screen as soon as all of these texts stand on it."""
        while not all(text in self.text for text in texts):
            assert self._read(), self.text
        return self.text

    def until_gone(self, text: str) -> str:
        while text in self.text:
            assert self._read(), self.text
        return self.text

    def end(self) -> int:
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def _start(
    argv: list[Path | str], env: dict[str, str], cwd: Path, slave: int
) -> Process | subprocess.Popen[bytes]:
    if argv[0] == SCRIPT:
        return Process(argv, env=env, cwd=cwd, terminal=slave)

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    return subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 - nothing is imported or locked in it
    )


@contextmanager
def window(
    treadle: Treadle,
    *args: str,
    columns: int = 80,
    rows: int = 30,
    environ: Mapping[str, str] | None = None,
    command: tuple[Path | str, ...] = (SCRIPT,),
) -> Iterator[Window]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {**treadle.env, "TERM": "xterm-256color", **(environ or {})}
    with _start([*command, *args], env, treadle.project, slave) as process:
        os.close(slave)
        try:
            yield Window(master, process, columns, rows)
        finally:
            process.kill()
            os.close(master)
