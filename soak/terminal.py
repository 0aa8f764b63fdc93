"""Terminals: people who run `treadle exec` and close the window.

Owns a terminal for each command. Invariant: what the command printed is written down
before the terminal does anything else, so that what it acknowledged is known.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import random
import signal
import sys
import termios
from contextlib import suppress
from pathlib import Path

import msgspec

from soak.lives import MODELS, Opened, Surprised, Trouble
from soak.roles import Life, Stint
from treadle.core.ids import new_id
from treadle.harness.events import Event, TurnCompleted, TurnStarted
from treadle.testing.audit import AckRecorder

__all__ = ["Terminals"]

_MANNERS = {"listen": 50, "close the window": 25, "Ctrl-C": 15, "terminate": 10}
_ENDS = (0, 1, 130, 120, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM)
"""How `treadle exec` may end: Python says 120 where its last words find no terminal, and what
comes before it has begun ends it as it ends any program."""
_SECONDS = 300.0
_LINE = 1 << 22
_TURNS = 20
_CONFIG = """\
[providers.openai]
base_url = "{base_url}"
idle_timeout = 2.0
retries = 1
"""
_events = msgspec.json.Decoder(Event)


class Terminals:
    """Several people at once, each with a thread."""

    def __init__(self, stint: Stint, stop: asyncio.Event) -> None:
        self.stint, self.stop = stint, stop
        self.chance = random.Random(stint.seed)
        self.recorder = AckRecorder(lambda line: os.write(1, line))

    async def run(self) -> None:
        """Work until there is enough."""
        config = Path(self.stint.home, "config.toml")
        config.write_text(_CONFIG.format(base_url=self.stint.base_url))
        lives = self.stint.lives
        slots = range(self.stint.role.slots)
        await asyncio.gather(*(self._slot(each, lives.get(each)) for each in slots))

    async def _slot(self, number: int, life: Life | None) -> None:
        while not self.stop.is_set():
            if life is None or life.turns >= _TURNS:
                life = Life(
                    thread="",
                    engine=self.chance.choice(["linear", "lossless"]),
                    harness="treadle",
                    model=MODELS["openai"],
                )
            thread = await self._command(number, life)
            life = msgspec.structs.replace(life, thread=thread, turns=life.turns + 1)

    async def _command(self, slot: int, life: Life) -> str:
        """One command to its end, whatever that is; the thread that it was about."""
        (manner,) = self.chance.choices([*_MANNERS], [*_MANNERS.values()])
        text = f"Please do {new_id('input')} now."
        ours, theirs = pty.openpty()
        try:
            process = await self._start_process(life, text, theirs)
        finally:
            os.close(theirs)
        window = Window(ours, process, self.chance.randrange(1, 20), manner)
        watching = asyncio.create_task(window.drain())
        try:
            async with asyncio.timeout(_SECONDS):
                thread = await self._follow_events(slot, life, text, window)
                code = await process.wait()
        except TimeoutError:
            self.recorder.record(Surprised(f"`treadle exec` hung ({manner})"))
            os.kill(process.pid, signal.SIGKILL)
            return life.thread
        finally:
            window.close()
            await watching
        if code not in _ENDS:
            self.recorder.record(Surprised(f"`treadle exec` ended with {code} ({manner})"))
        return thread

    async def _start_process(self, life: Life, text: str, tty: int) -> asyncio.subprocess.Process:
        stint = self.stint
        words = ["exec", "--json", "--yolo", "--engine", life.engine, "--model", life.model]
        words += ["--resume", life.thread] if life.thread else []
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from treadle.cli import main; main()", *words, text),
            cwd=stint.project,
            stdin=tty,
            stdout=asyncio.subprocess.PIPE,
            stderr=tty,
            limit=_LINE,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "HOME": stint.project,
                "TREADLE_HOME": stint.home,
                "OPENAI_API_KEY": stint.keys["openai"],
            },
        )

    async def _follow_events(self, slot: int, life: Life, text: str, window: Window) -> str:
        assert window.process.stdout is not None
        thread = life.thread
        async for line in window.process.stdout:
            with suppress(msgspec.DecodeError):
                event = _events.decode(line)
                if isinstance(event, TurnStarted):
                    thread = event.thread
                    told = (thread, life.engine, life.harness, life.model)
                    self.recorder.record(Opened(slot, *told))
                    self.recorder.record_input(thread, event.turn, text)
                self.recorder.record_event(thread, event)
                if isinstance(event, TurnCompleted):
                    self.recorder.record(Trouble(f"terminal: {window.manner}"))
            window.note_line()
        return thread


class Window:
    """A terminal, and the moment at which somebody does something to it."""

    def __init__(
        self, descriptor: int, process: asyncio.subprocess.Process, patience: int, manner: str
    ) -> None:
        self.process, self.manner = process, manner
        self._descriptor: int | None = descriptor
        self._patience = patience

    def note_line(self) -> None:
        """One more line was printed."""
        self._patience -= 1
        if self._patience or self._descriptor is None:
            return
        match self.manner:
            case "close the window":
                self.close()
            case "Ctrl-C":
                os.write(self._descriptor, b"\x03")
            case "terminate":
                with suppress(ProcessLookupError):
                    os.kill(self.process.pid, signal.SIGTERM)

    def close(self) -> None:
        """Close the window: the kernel hangs up on whoever is in it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    async def drain(self) -> None:
        """Read what the command shows, so that it never waits for a reader."""
        os.set_blocking(self._descriptor or 0, False)
        while self._descriptor is not None:
            try:
                os.read(self._descriptor, 65536)
            except BlockingIOError:
                await asyncio.sleep(0.02)
            except OSError:  # nobody holds the other end any more
                return
