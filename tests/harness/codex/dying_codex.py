"""A Codex that dies once, at a moment it was given; or that kills who started it.

    python dying_codex.py CODEX MARK VICTIM MOMENT ARGUMENT …

Stands between Treadle and the real binary and passes lines on. At the moment it leaves MARK
and kills VICTIM, ``codex`` or ``treadle``. Where MARK is there already, and for anything but
an app-server, the real binary is run instead.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

__all__ = ["MOMENTS", "write_dying_codex"]

Message = dict[str, Any]


class Moment(NamedTuple):
    """A message, and whether it is still passed on."""

    is_it: Callable[[Message, dict[Any, str]], bool]
    """Given the message and the methods of what Treadle has asked, by id."""
    passed: bool


def _asks(method: str) -> Callable[[Message, dict[Any, str]], bool]:
    return lambda message, _: message.get("method") == method


def _answers(method: str) -> Callable[[Message, dict[Any, str]], bool]:
    return lambda message, asked: (
        "method" not in message and asked.get(message.get("id")) == method and "result" in message
    )


def _item(method: str, kind: str) -> Callable[[Message, dict[Any, str]], bool]:
    return lambda message, _: (
        message.get("method") == method and message["params"]["item"]["type"] == kind
    )


def _tool_result(message: Message, _: dict[Any, str]) -> bool:
    return "contentItems" in (message.get("result") or {})


MOMENTS = {
    "thread/start is not answered": Moment(_asks("thread/start"), False),
    "thread/start was answered": Moment(_answers("thread/start"), True),
    "items are being injected": Moment(_asks("thread/inject_items"), True),
    "items were injected": Moment(_answers("thread/inject_items"), True),
    "turn/start was answered": Moment(_answers("turn/start"), True),
    "an answer streams": Moment(_asks("item/agentMessage/delta"), True),
    "a call was made": Moment(_item("rawResponseItem/completed", "function_call"), True),
    "a result is not heard": Moment(_tool_result, False),
    "a command of Codex's runs": Moment(_item("item/started", "commandExecution"), True),
    "all is said": Moment(_asks("turn/completed"), False),
    "a turn is over": Moment(_asks("turn/completed"), True),
}


def write_dying_codex(place: Path, codex: Path, victim: str, moment: str) -> Path:
    """A binary in `place` that is Codex, and dies or kills at `moment`."""
    script = place / "dying-codex"
    words = [sys.executable, "-S", "-E", __file__, codex, place / "died", victim, moment]
    line = shlex.join(map(str, words))
    script.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
    script.chmod(0o755)
    return script


class Between:
    """Passes lines on in both directions, until the moment has come."""

    def __init__(self, codex: str, mark: Path, victim: str, moment: Moment) -> None:
        self.mark, self.victim, self.moment = mark, victim, moment
        self.asked: dict[Any, str] = {}
        self.child = subprocess.Popen(
            [codex, *sys.argv[5:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.meeting = threading.Lock()

    def run(self) -> int:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        threading.Thread(
            target=self.carry, args=(sys.stdin.buffer, self.child.stdin), daemon=True
        ).start()
        self.carry(self.child.stdout, sys.stdout.buffer)
        return self.child.wait()

    def carry(self, source: IO[bytes], target: IO[bytes]) -> None:
        for line in source:
            message = json.loads(line)
            if source is not self.child.stdout and "method" in message:
                self.asked[message.get("id")] = message["method"]
            with self.meeting:
                if self.moment.is_it(message, self.asked):
                    self.end(line, target)
                self.send(line, target)
        target.close()

    def send(self, line: bytes, target: IO[bytes]) -> None:
        target.write(line)
        target.flush()

    def end(self, line: bytes, target: IO[bytes]) -> None:
        self.mark.touch()
        if self.victim == "treadle":
            os.kill(os.getppid(), signal.SIGKILL)
            self.child.stdin.close()  # type: ignore[union-attr]
            os._exit(self.child.wait())
        if self.moment.passed:
            self.send(line, target)
        self.child.kill()
        self.child.wait()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    codex, mark, victim, moment = sys.argv[1:5]
    if "app-server" not in sys.argv[5:] or Path(mark).exists() or moment not in MOMENTS:
        os.execv(codex, [codex, *sys.argv[5:]])
    sys.exit(Between(codex, Path(mark), victim, MOMENTS[moment]).run())
