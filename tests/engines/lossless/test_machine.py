from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.context.reference import visible
from tests.context.scenes import answer, call, output, user
from tests.engines.scenes import notices
from treadle import Thread
from treadle.context.rebuild import rebuild_ledger
from treadle.context.view import load_view
from treadle.core.entries import Entry, Epoch, Reason
from treadle.core.errors import CannotCompact, IllegalCut
from treadle.engines.lossless.library import Library
from treadle.harness.events import Event, TurnCompleted

from .scenes import ANNOUNCED, Mood, Speaker, check, first_block, keeping, summaries, talk, words

T = TypeVar("T")

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "6"))

MOODS: list[Mood] = ["good", "good", "good", "failing", "refused", "garbage", "wordy", "empty"]


def _is_reset(entry: Entry) -> bool:
    control = entry.control if entry.kind == "epoch" else None
    return isinstance(control, Epoch) and control.reason == Reason.RESET


class Remembering(RuleBasedStateMachine):
    """A thread with the engine that anything may happen to."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.place = Path(self.directory.name)
        self.model = Speaker()
        self.said = 0
        self.block: list[bytes] = []

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(job)

    @initialize()
    def begin(self) -> None:
        self.open(None)
        self.say(mood="good")

    def open(self, thread: str | None) -> None:
        self.stack = AsyncExitStack()
        opening = keeping(self.place, self.model, thread)
        self.thread: Thread
        self.thread, self.engine = self.run(self.stack.enter_async_context(opening))
        self.before: list[str] = []

    @property
    def library(self) -> Library:
        return self.engine.library

    async def newest_reset(self) -> int:
        """The entry behind which everything must be in reach."""
        seen = visible(await self.thread.store.read(self.thread.id))
        resets = [entry.seq for entry in seen if _is_reset(entry)]
        return max(resets, default=0)

    def turn(self, text: str, mood: Mood, **how: Any) -> None:
        self.model.mood = mood
        self.said += 1
        shown = summaries(self.thread)
        said = f"{self.said} of src/part_{self.said}.py: {text}"
        heard = self.run(talk(self.thread, said, **how))
        self.ended_well(heard)
        self.run(self.kept_or_replaced(shown))
        if self.block:
            assert first_block(self.thread)[: len(self.block)] == self.block
        else:
            self.block = first_block(self.thread)

    def ended_well(self, heard: list[Event]) -> None:
        end = heard[-1]
        assert isinstance(end, TurnCompleted)
        assert (end.status, notices(heard)) == ("completed", [])

    async def kept_or_replaced(self, before: list[str]) -> None:
        """Older summaries are where they were; those that are gone have something over them."""
        now = summaries(self.thread)
        stayed = [name for name in before if name in now]
        assert [name for name in now if name in before] == stayed
        known = await self.library.nodes([*before, *now])
        for name in set(before) - set(now):
            gone = known.get(name)
            if gone is not None:
                over = [known[each] for each in now if name in known[each].children]
                again = [known[each] for each in now if known[each].key == gone.key]
                assert len([*over, *again]) == 1

    @rule(mood=st.sampled_from(MOODS), size=st.sampled_from([5, 60, 400]))
    def say(self, mood: Mood, size: int = 60) -> None:
        self.turn(words(self.said, size), mood)

    @rule(mood=st.sampled_from(MOODS), calls=st.integers(1, 4))
    def look(self, mood: Mood, calls: int) -> None:
        self.turn("look " * calls, mood)

    @rule()
    def hear_from_another_thread(self) -> None:
        self.turn(words(self.said, 40), "good", **ANNOUNCED)

    @rule(mood=st.sampled_from(MOODS), times=st.integers(2, 5))
    def go_on(self, mood: Mood, times: int) -> None:
        for _ in range(times):
            self.turn(words(self.said, 150) + " look", mood)

    @rule()
    def say_the_same_again(self) -> None:
        for _ in range(2):
            self.ended_well(self.run(talk(self.thread, "The same, please. " + words(1, 80))))

    @rule(mood=st.sampled_from(MOODS))
    def compact(self, mood: Mood) -> None:
        self.model.mood = mood
        shown = summaries(self.thread)
        try:
            self.run(self.thread.compact())
        except CannotCompact:
            return
        self.run(self.kept_or_replaced(shown))

    @rule()
    def start_afresh(self) -> None:
        self.turn("new_context", "good")
        self.turn(words(self.said), "good")

    @rule(pairs=st.integers(1, 12))
    def take_in_much_at_once(self, pairs: int) -> None:
        async def take_in() -> None:
            for _ in range(pairs):
                self.said += 1
                text = f"{self.said} from elsewhere {words(self.said, 100)}"
                await self.thread.log.append(user(text))
                await self.thread.log.append(call(self.said))
                await self.thread.log.append(output(self.said, words(self.said, 60)))
                await self.thread.log.append(answer(f"noted {self.said}"))

        self.run(take_in())

    @rule(lose=st.booleans())
    def restart(self, lose: bool) -> None:
        before = self.sent()
        name = self.thread.id
        self.run(self.stack.aclose())
        if lose:
            for file in self.place.glob("lossless.db*"):
                file.unlink()
        self.open(name)
        assert self.sent() == before

    def sent(self) -> bytes:
        """The request as it would be sent, if there is anything to send."""
        return self.thread.request().body if self.thread.view.head else b""

    @precondition(lambda self: self.thread.log.turn > 1)
    @rule(turns=st.integers(1, 4))
    def roll_back(self, turns: int) -> None:
        try:
            self.run(self.thread.rollback(turns))
        except IllegalCut:
            return
        self.block = []

    @rule(where=st.floats(0.3, 1))
    def fork(self, where: float) -> None:
        child = self.run(self.thread.fork(round(where * self.thread.view.upto)))
        self.run(self.stack.aclose())
        self.open(child)
        self.block = []

    @rule()
    def reset(self) -> None:
        self.run(self.thread.reset())
        self.block = []

    @invariant()
    def everything_is_in_reach_once(self) -> None:
        self.run(check(self.thread, self.library, self.run(self.newest_reset()) + 1))

    @invariant()
    def the_view_is_the_one_that_the_log_gives(self) -> None:
        loaded = self.run(load_view(self.thread.store, self.thread.id, self.thread.registry))
        assert loaded.rows == self.thread.view.rows

    def teardown(self) -> None:
        if hasattr(self, "thread"):
            self.run(self.every_request_is_proved())
            self.run(self.stack.aclose())
        self.runner.close()
        self.directory.cleanup()

    async def every_request_is_proved(self) -> None:
        thread = self.thread
        assert not [row for row in await thread.index.rows(thread.id) if row.unexplained]
        rebuilt = await rebuild_ledger(thread.store, thread.index, thread.id, thread.registry)
        assert rebuilt.differing == ()


test_whatever_happens_nothing_is_lost_or_shown_twice = Remembering.TestCase
test_whatever_happens_nothing_is_lost_or_shown_twice.settings = settings(
    max_examples=ROUNDS,
    stateful_step_count=18,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
