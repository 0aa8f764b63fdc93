"""A process that runs the turns of a thread and kills itself at a point it was given.

    python -m tests.engines.crash_child PLACE POINT TURN MODE

Owns the points: ``before`` or ``after`` one of the boundaries of a turn, met for the first
time in turn TURN or later. A thread that is there already is gone on with at that turn; in a
new one all turns are run, and ``bilberry`` is interrupted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path

from tests.engines.notebook import Notebook
from treadle import Rights, Thread
from treadle.engines.contract import MaintenanceMode
from treadle.harness.events import StepStarted, TextDelta
from treadle.models.contract import ModelEvent, ModelRequest
from treadle.store.contract import Change, ChangeResult, Lease
from treadle.store.sqlite import SqliteStore
from treadle.testing.script import Answer, Call, Script
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool

__all__ = ["BOUNDARIES", "TURNS", "DyingStore", "Fate", "look", "model", "run"]

TURNS = ("apricot", "bilberry", "cherry", "damson", "elder")
"""What is said in the turns of a thread; each is also the turn's id."""

BOUNDARIES = (
    "admit",
    "open",
    "assemble",
    "delta",
    "call",
    "result",
    "end",
    "commit",
    "settle",
    "maintain",
)

SCRIPT = Script(
    answers=(
        Answer(when="elder", text="On elder.", times=0),
        Answer(when="damson", text="On damson.", times=0),
        Answer(when="Outcome unknown", text="On cherry, somehow.", times=0),
        Answer(when="a duck", text="On cherry.", times=0),
        Answer(when="cherry", text="Let me look.", calls=(Call(name="look"),), times=0),
        Answer(when="bilberry", text="On bilberry.", delay=60.0, times=0),
        Answer(when="apricot", text="On apricot.", times=0),
    )
)


@tool(parallel=True)
async def look() -> str:
    """See what is there."""
    return "a duck"


class Fate:
    """Ends this process at one point."""

    def __init__(self, point: str = "") -> None:
        self.point, self.armed = point, False

    def __call__(self, point: str) -> None:
        if self.armed and point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


class DyingStore(SqliteStore):
    """A store beside whose transactions the process can die."""

    fate: Fate

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        """Write, unless this is where it ends."""
        met = list(boundaries(change))
        for boundary in met:
            self.fate(f"before {boundary}")
        committed = await super().commit(lease, change)
        for boundary in met:
            self.fate(f"after {boundary}")
        return committed


def boundaries(change: Change) -> Iterator[str]:
    """The boundaries of a turn that a transaction is."""
    bodies = [draft.body for draft in change.entries if draft.kind == "item"]
    staged = [bytes(row.body) for row in change.outbox]
    if change.admit is not None:
        yield "admit"
    if any(b'"role":"user"' in body and b"<" not in body for body in bodies):
        yield "open"
    if any(b'"type":"function_call"' in body for body in bodies):
        yield "call"
    if any(b"function_call_output" in body for body in (*bodies, *staged)):
        yield "result"
    if change.end is not None and change.end.state == "completed":
        yield "end"
    if any(row.state == "ready" for row in change.outbox):
        yield "ready"
    if (change.settle or change.done) and not bodies:
        yield "settle"


class DyingModel(ScriptedModel):
    """A model whose answer the process may not live to read."""

    fate: Fate

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Answer from the script."""
        async for batch in super().stream(request):
            self.fate("before delta")
            yield batch


def model() -> ScriptedModel:
    """A model that knows what to say in every turn."""
    return ScriptedModel(SCRIPT)


async def run(thread: Thread, said: str, fate: Fate | None = None) -> None:
    """One turn, to its end or to that of the process; turn ``bilberry`` is interrupted."""
    async for event in thread.run(said, turn_id=said):
        if isinstance(event, TextDelta) and fate is not None:
            fate("after delta")
        if isinstance(event, StepStarted) and said == "bilberry":
            thread.interrupt()


async def main(place: Path, point: str, turn: str, mode: MaintenanceMode) -> None:
    """Run turns until the process ends."""
    fate = Fate(point)
    store = await DyingStore.open(place / "home")
    assert isinstance(store, DyingStore)
    store.fate = fate
    answering = DyingModel(SCRIPT)
    answering.fate = fate
    engine = Notebook(place / "notebook.db", fate, mode)
    found = await store.threads()
    async with Thread.open(
        found[0].id if found else None,
        model=answering,
        home=place / "home",
        cwd=place,
        tools=(look,),
        rights=Rights(sandbox="danger-full-access", approval="never"),
        store=store,
        engine=engine,
    ) as thread:
        for said in TURNS[TURNS.index(turn) :] if found else TURNS:
            fate.armed |= said == turn
            await run(thread, said, fate)


if __name__ == "__main__":
    given: MaintenanceMode = "background" if sys.argv[4] == "background" else "foreground"
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], given))
