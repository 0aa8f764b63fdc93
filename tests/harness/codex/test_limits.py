"""Limits on Codex: its turn is interrupted between two steps, or when the time is over."""

from __future__ import annotations

from pathlib import Path

from tests.harness.scenes import log, unpaired_calls
from treadle import Limits
from treadle.harness.events import HarnessReported, LimitReached, ToolFinished
from treadle.testing.script import Answer, Break, Call, Tokens

from .scenes import hear, last, of, open_stage, request_items, roles_and_texts

SLEEP = Call(
    name="exec_command",
    arguments={"cmd": "sleep 1000", "login": False, "yield_time_ms": 30_000},
)


def _steps(first: str, *echoes: str) -> list[Answer]:
    """Answer `first` and what is echoed with calls; a request that is under way hears nothing."""
    answers = []
    for said, echo in zip((first, *echoes), echoes, strict=False):
        call = Call(name="exec_command", arguments={"cmd": f"echo {echo}", "login": False})
        answers.append(Answer(when=said, calls=(call,), usage=Tokens(input=900, output=100)))
    return [*answers, Answer(when=echoes[-1], text="late", stall=Break(events=1))]


async def test_codex_ends_at_a_limit_keeps_its_work_and_goes_on_afterwards(tmp_path: Path):
    fine = Answer(when="go on", text="fine", times=0)
    script = (fine, *_steps("look", "one", "two"), *_steps("watch", "three", "four"))
    async with open_stage(tmp_path, *script) as stage, stage.thread() as thread:
        events = await hear(thread, "look", limits=Limits(steps=2))
        reached = LimitReached(limit="steps", most=2, spent=2)
        assert (last(events).status, last(events).limit) == ("interrupted", reached)
        assert of(events, LimitReached) == [reached]
        assert [each.success for each in of(events, ToolFinished)] == [True, True]
        assert [line[:6] for line in await log(thread)] == ["user: "] + ["call e", "output"] * 2
        assert await unpaired_calls(thread) == []
        turn = await thread.store.turn(thread.id, 1)
        assert (turn.state, b'"limit":"steps"' in bytes(turn.outcome or b"")) == ("aborted", True)

        further = await hear(thread, "go on")
        assert (last(further).text, last(further).limit) == ("fine", None)
        (report,) = of(further, HarnessReported)
        assert report.what == "thread.reused"
        told = roles_and_texts(request_items(stage.requests[-1]))
        assert len([text for _, text in told if "<turn_aborted>" in text]) == 1

        end = last(await hear(thread, "watch", limits=Limits(tokens=1_500)))
        assert end.limit == LimitReached(limit="tokens", most=1_500, spent=2_000)


async def test_codex_is_interrupted_when_the_time_is_over(tmp_path: Path):
    silent = Answer(when="think", text="I begin to think", stall=Break(events=4))
    working = Answer(when="work", calls=(SLEEP,))
    fine = Answer(when="go on", text="fine", times=0)
    async with open_stage(tmp_path, fine, silent, working) as stage, stage.thread() as thread:
        assert last(await hear(thread, "go on")).text == "fine"  # so that it is warm
        for said in ("think", "work"):
            end = last(await hear(thread, said, limits=Limits(seconds=0.5)))
            assert end.limit is not None
            assert (end.status, end.limit.limit) == ("interrupted", "time")
            assert await unpaired_calls(thread) == []
            assert last(await hear(thread, "go on")).text == "fine"
