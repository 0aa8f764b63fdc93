from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fork_server import Process

from .conftest import work
from .terminal import SCRIPT, Treadle, until_it_waits

_SILENCE = 60.0
"""Seconds after which a command that says nothing has failed, with what it has said."""


class Screen:
    """A command that believes it talks to a person."""

    def __init__(self, process: Process, master: int) -> None:
        self.process, self.master, self.seen = process, master, b""

    def until(self, text: bytes) -> None:
        while text not in self.seen:
            assert self._read(), self.seen

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def end(self) -> tuple[int, str]:
        while self._read():
            pass
        return self.process.wait(), self.seen.decode().replace("\r\n", "\n")

    def _read(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], _SILENCE)
        assert ready, f"nothing came for {_SILENCE:.0f} s; so far: {self.seen[-2000:]!r}"
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += data
        return bool(data)


@contextmanager
def screen(treadle: Treadle, *args: str, columns: int = 160) -> Iterator[Screen]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {**treadle.env, "TERM": "xterm-256color"}
    command: list[Path | str] = [SCRIPT, *args]
    with Process(command, env=env, cwd=treadle.project, terminal=slave) as process:
        os.close(slave)
        try:
            yield Screen(process, master)
        finally:
            process.kill()
            os.close(master)


def shown(treadle: Treadle, *args: str, columns: int = 160) -> str:
    with screen(treadle, *args, columns=columns) as terminal:
        code, text = terminal.end()
    assert code == 0, text
    return text


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text)


def test_a_terminal_gets_a_styled_table_that_fits(treadle):
    treadle("new", "words " * 30)
    text = shown(treadle, "threads", columns=120)
    assert "\x1b[1m" in text
    assert max(map(len, without_colour(text).splitlines())) <= 120


def test_markup_in_stored_text_is_no_markup(treadle):
    treadle("new", "--title", "[red]x[/red] \x1b[31m")
    assert "[red]x[/red] \\x1b[31m" in without_colour(shown(treadle, "threads"))


def test_progress_leaves_only_the_result(treadle):
    asyncio.run(work(treadle))
    text = shown(treadle, "cache", "last", "--rebuild")
    assert "every byte is the same" in text
    assert "\x1b[?25h" in text


def test_texts_of_prompts_are_made_safe_on_a_terminal(treadle):
    directory = treadle.home / "prompts/codex"
    directory.mkdir(parents=True)
    (directory / "compact.md").write_text("sum \x1b[2J up")
    assert shown(treadle, "prompts", "show", "compact") == "sum \\x1b[2J up\n"
    assert treadle("prompts", "show", "compact").out == b"sum \x1b[2J up"


def test_deleting_asks_first(treadle):
    thread = treadle("new", "--title", "a \x1b[31mtitle").text.strip()
    with screen(treadle, "delete", "last") as terminal:
        terminal.until(b"[y/N]: ")
        terminal.type(b"n\n")
        code, text = terminal.end()
    assert code == 0
    assert f"Delete {thread} (a \\x1b[31mtitle), 0 turns, 0 entries, last written " in text
    assert text.endswith("kept\n")
    with screen(treadle, "delete", "last") as terminal:
        terminal.until(b"[y/N]: ")
        terminal.type(b"y\n")
        code, text = terminal.end()
    assert (code, text.splitlines()[-1]) == (0, f"deleted {thread}")
    assert treadle("threads", "--json").json == []


def test_one_ctrl_c_at_the_question_keeps_the_thread(treadle):
    treadle("new", "--title", "precious")
    with screen(treadle, "delete", "last") as terminal:
        terminal.until(b"[y/N]: ")
        until_it_waits(terminal.process)
        terminal.process.send_signal(signal.SIGINT)
        code, text = terminal.end()
    assert code == 130
    assert "treadle: interrupted" in text
    assert "Traceback" not in text
    assert len(treadle("threads", "--json").json) == 1
