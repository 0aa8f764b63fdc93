"""Harnesses that break the contract, one way each."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace

from treadle.core.usage import TokenUsage
from treadle.engines.contract import Capability
from treadle.harness.contract import Outcome, Traits, TurnRun
from treadle.harness.events import ItemCompleted, NoticeRaised, TurnCompleted
from treadle.harness.loop import LoopHarness
from treadle.prompt.input import user_message


class Boastful(LoopHarness):
    """Claims a fragment that nobody knows."""

    traits: Traits = Traits(fragments=frozenset({"weather"}))


class Careless(LoopHarness):
    """Calls a failure a success."""

    async def run(self, run: TurnRun) -> Outcome:
        outcome = await super().run(run)
        return msgspec.structs.replace(outcome, status="completed", error=None)


class Confused(LoopHarness):
    """Gives the newest answer to whoever waits."""

    newest = ""

    async def run(self, run: TurnRun) -> Outcome:
        outcome = await super().run(run)
        Confused.newest = outcome.text
        await asyncio.sleep(0.1)
        return msgspec.structs.replace(outcome, text=Confused.newest)


class Counting(LoopHarness):
    """Takes what was not counted for nothing."""

    async def run(self, run: TurnRun) -> Outcome:
        outcome = await super().run(run)
        known = TokenUsage(cached_input_tokens=0, reasoning_output_tokens=0)
        return msgspec.structs.replace(outcome, usage=outcome.usage + known)


class Loud(LoopHarness):
    """Announces the end of the turn itself."""

    async def run(self, run: TurnRun) -> Outcome:
        outcome = await super().run(run)
        assert run.turn is not None
        run.emit(TurnCompleted(turn=run.turn.id, status=outcome.status, text=outcome.text))
        return outcome


class Modest(LoopHarness):
    """Says that it cannot do what engines need, and is not asked to."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset()


class Silent(LoopHarness):
    """Tells nobody of items."""

    async def run(self, run: TurnRun) -> Outcome:
        tell = run.emit
        dropped = NoticeRaised(level="info", text="an item was made")
        return await super().run(
            replace(run, emit=lambda e: tell(dropped if isinstance(e, ItemCompleted) else e))
        )


class Stubborn(LoopHarness):
    """Does not let itself be interrupted."""

    async def run(self, run: TurnRun) -> Outcome:
        try:
            return await super().run(run)
        except asyncio.CancelledError:
            return Outcome(status="completed", text="never mind")


class Wordy(LoopHarness):
    """Tells the model where it is, although it was told."""

    async def run(self, run: TurnRun) -> Outcome:
        where = "<environment_context>here</environment_context>"
        await run.log.append(user_message(where))
        return await super().run(run)


KINDS = (Boastful, Careless, Confused, Counting, Loud, Silent, Stubborn, Wordy)
