"""Lives: what the threads of a worker go through.

Owns how hosts behave: they listen, leave in the middle, interrupt, steer, compact, fork,
switch harnesses and ask again. Invariant: whatever is heard is written down before
anything else is done.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import traceback
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from soak.acting import acting
from soak.roles import Life, Stint
from treadle import Rights, Routing, Thread
from treadle.core.errors import CannotCompact, CompletionFailed, TreadleError
from treadle.core.ids import new_id
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.contract import Harness
from treadle.harness.events import ToolStarted, TurnCompleted, TurnStarted
from treadle.harness.loop import LoopHarness
from treadle.models.catalog import Catalog
from treadle.models.contract import ModelError
from treadle.models.providers import ProviderConfig
from treadle.models.retry import Backoff
from treadle.testing.audit import AckRecorder
from treadle.tools.builtin_tools import builtin_tools
from treadle.tools.contract import Tool

__all__ = ["MODELS", "Opened", "Surprised", "Trouble", "Worker"]

MODELS = {
    "openai": "openai:gpt-5.5",
    "local": "local:soak",
    "anthropic": "anthropic:claude-sonnet-4-5",
}
_APIS: dict[str, Any] = {"openai": "responses", "local": "chat", "anthropic": "messages"}
_TURNS = 30
"""After so many turns a slot begins another thread, so that memory can be steady."""
_SECONDS = 300.0
"""No turn may take longer: then it hangs."""
_SWITCHES = 0.2
"""How often a thread of Codex's is gone on with by Treadle's own loop."""
_RECKLESS = 0.04
"""How often a reckless worker kills itself at such a moment."""
_MUCH = "so that there is much to read, " * 200
_MANNERS = {
    "listen": 60,
    "leave": 10,
    "interrupt": 8,
    "cancel": 5,
    "steer": 7,
    "compact": 4,
    "again": 4,
    "fork": 2,
}


class Opened(Struct, frozen=True, tag="opened"):
    """A slot goes on with this thread."""

    slot: int
    thread: str
    engine: str
    harness: str
    model: str


class Trouble(Struct, frozen=True, tag="trouble"):
    """Something failed as it may: the log could not be written, the harness was gone."""

    kind: str
    what: str = ""


class Surprised(Struct, frozen=True, tag="surprised"):
    """Something happened that must not."""

    what: str


class Worker:
    """Runs the slots of one stint."""

    def __init__(self, stint: Stint, stop: asyncio.Event) -> None:
        self.stint, self.stop = stint, stop
        self.chance = random.Random(stint.seed)
        self.recorder = AckRecorder(lambda line: os.write(1, line))
        self.home, self.project = Path(stint.home), Path(stint.project)
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.project)}
        self.providers = {
            name: ProviderConfig(
                api=_APIS[name],
                base_url=stint.base_url,
                key=key,
                retries=1,
                idle_timeout=2.0,
            )
            for name, key in stint.keys.items()
        }
        self.lives = dict(stint.lives)
        self._codex: CodexHarness | None = None

    async def run(self) -> None:
        """Live all lives."""
        try:
            if self.stint.settle:
                await self._settle()
            else:
                slots = range(self.stint.role.slots)
                await asyncio.gather(*(self._slot(slot) for slot in slots))
        finally:
            if self._codex is not None:
                await self._codex.close()

    async def _slot(self, slot: int) -> None:
        while not self.stop.is_set():
            if slot not in self.lives or self.lives[slot].turns >= _TURNS:
                self.lives[slot] = self._new()
            try:
                await self._stretch(slot)
            except TreadleError as error:
                self.recorder.record(Trouble(type(error).__name__, str(error)))
                await asyncio.sleep(0.2)
            except Exception:  # noqa: BLE001 - whatever it is, the auditor must hear of it
                self.recorder.record(Surprised(traceback.format_exc()))
                await asyncio.sleep(0.2)

    def _new(self) -> Life:
        provider = "openai"
        if self.stint.role.harness == "treadle":
            provider = self.chance.choice([*self.stint.keys])
        return Life(
            thread="",
            engine=self.chance.choice(["linear", "lossless"]),
            harness=self.stint.role.harness,
            model=MODELS[provider],
        )

    async def _stretch(self, slot: int) -> None:
        """Open a thread, run some turns, close it."""
        if self.stint.role.harness == "codex":
            # Now and then the loop takes a conversation over, and gives it back.
            other = self.chance.random() < _SWITCHES
            self._change(slot, harness="treadle" if other else "codex")
        life = self.lives[slot]
        async with self._open_thread(life) as thread:
            self._change(slot, thread=thread.id)
            self.recorder.record(Opened(slot, thread.id, life.engine, life.harness, life.model))
            for _ in range(self.chance.randrange(1, 7)):
                if self.stop.is_set():
                    break
                await self._turn(thread, slot)

    def _change(self, slot: int, **changes: Any) -> None:
        self.lives[slot] = structs.replace(self.lives[slot], **changes)

    def _open_thread(self, life: Life) -> AbstractAsyncContextManager[Thread]:
        return Thread.open(
            life.thread or None,
            model=life.model,
            home=self.home,
            cwd=self.project,
            rights=Rights(
                sandbox="danger-full-access" if self.chance.random() < 0.7 else "workspace-write",
                approval="never",
            ),
            tools=self._tools(life),
            harness=self._harness(life.harness),
            routing=Routing(environ=self.environ, providers=self.providers),
            engine=life.engine,
        )

    def _harness(self, name: str) -> Harness:
        if name == "treadle":
            return LoopHarness(backoff=Backoff(retries=3, base=0.05))
        if self._codex is None:
            self._codex = CodexHarness(
                home=self.home, environ=self.environ, providers=self.providers
            )
        return self._codex

    def _tools(self, life: Life) -> tuple[Tool, ...]:
        own = acting(self.project / "effects" / "acts.txt")
        if life.harness == "codex":
            return own
        known = Catalog.load(self.home / "models.toml").with_providers(self.providers)
        return (*own, *builtin_tools(known.profile(life.model))[:2])

    async def _turn(self, thread: Thread, slot: int) -> None:
        """One turn in some manner: a new one, or one whose end nobody heard."""
        (manner,) = self.chance.choices([*_MANNERS], [*_MANNERS.values()])
        life = self.lives[slot]
        new = (new_id("turn"), f"Please do {new_id('input')} now.{self._filling()}")
        turn, text = life.asked if life.asked and self.chance.random() < 0.5 else new
        left = life.asked if turn == new[0] else None
        self._change(slot, asked=(turn, text), turns=life.turns + 1)
        self.recorder.record_input(thread.id, turn, text)
        ended = await self._run_turn(thread, turn, text, manner)
        if manner == "compact":
            await self._compact(thread)
        if ended is None:
            return
        self._change(slot, asked=None)
        if left is not None and self.chance.random() < 0.5:
            # Another turn was admitted since: nobody may go on with this one.
            await self._run_turn(thread, *left, "listen")
        if manner == "again":
            await self._run_turn(thread, turn, text, "listen")
        if manner == "fork":
            child = await thread.fork()
            self.recorder.record(Opened(-1, child, life.engine, life.harness, life.model))

    def _filling(self) -> str:
        """Return words that fill a view."""
        return f" {_MUCH}" if self.stint.role.reckless and self.chance.random() < 0.5 else ""

    def _kill_self(self, event: object) -> None:
        """End this process, if it is a reckless one and the moment is bad."""
        bad = isinstance(event, TurnStarted | ToolStarted) and not self.stint.settle
        if bad and self.stint.role.reckless and self.chance.random() < _RECKLESS:
            os.kill(os.getpid(), signal.SIGKILL)

    async def _compact(self, thread: Thread) -> None:
        try:
            await thread.compact()
        except (CannotCompact, CompletionFailed, ModelError) as error:
            self.recorder.record(Trouble(type(error).__name__, str(error)))

    async def _run_turn(
        self, thread: Thread, turn: str, text: str, manner: str
    ) -> TurnCompleted | None:
        """How the turn ended; None where nobody stayed to hear."""
        listening = asyncio.create_task(self._follow_turn(thread, turn, text, manner))
        try:
            done, _ = await asyncio.wait([listening], timeout=_SECONDS)
        except asyncio.CancelledError:
            listening.cancel()
            await asyncio.wait([listening])
            raise
        if not done:
            self.recorder.record(Surprised(f"a turn of {thread.id} hung ({manner})"))
            listening.cancel()
            await asyncio.wait([listening])
        return None if listening.cancelled() else listening.result()

    async def _follow_turn(
        self, thread: Thread, turn: str, text: str, manner: str
    ) -> TurnCompleted | None:
        patience = self.chance.randrange(1, 25)
        count = 0
        async with aclosing(thread.run(text, turn_id=turn)) as events:
            async for event in events:
                self.recorder.record_event(thread.id, event)
                if isinstance(event, TurnCompleted):
                    return event
                self._kill_self(event)
                count += 1
                if count == patience and manner == "leave":
                    return None
                if count == patience:
                    await self._disturb(thread, manner)
        return None

    async def _disturb(self, thread: Thread, manner: str) -> None:
        match manner:
            case "interrupt":
                thread.interrupt()
            case "steer":
                await thread.steer(f"And mind {new_id('hint')}.")
            case "cancel" if (task := asyncio.current_task()) is not None:
                task.cancel()
            case _:
                pass

    async def _settle(self) -> None:
        """Let every thread recover."""
        at_once = asyncio.Semaphore(4)

        async def settle(life: Life) -> None:
            async with at_once:
                await self._recover_thread(life)

        await asyncio.gather(*(settle(life) for life in self.stint.lives.values()))

    async def _recover_thread(self, life: Life) -> None:
        turn, text = new_id("turn"), f"Please do {new_id('input')} at last."
        try:
            async with self._open_thread(life) as thread:
                self.recorder.record_input(thread.id, turn, text)
                ended = await self._run_turn(thread, turn, text, "listen")
                await thread.wait_for_engine(5)
        except Exception:  # noqa: BLE001 - whatever it is, the auditor must hear of it
            self.recorder.record(
                Surprised(f"{life.thread} did not go on: {traceback.format_exc()}")
            )
            return
        if ended is None or ended.status != "completed":
            self.recorder.record(Surprised(f"{life.thread} did not go on: {ended}"))
