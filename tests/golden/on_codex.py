"""Conversations on the real Codex app-server, and between the two harnesses."""

from __future__ import annotations

from typing import Any

from .bases import LONG
from .basics import waiting, weigh
from .drive import MODEL, ApprovalRequested, No, Once, Stage, Tokens, ToolStarted, call
from .drive import says as says_anywhere

SPEND = Tokens(input=2_000, cached=1_000, output=20)
"""Counted by nobody: Codex's own words are not ours to measure."""
TREADLE, CODEX = "treadle", "auto"


def says(text: str = "", *calls: Any, **how: Any) -> Any:
    """An answer whose cost is the same for every Codex."""
    return says_anywhere(text, *calls, usage=SPEND, **how)


def work(number: int) -> tuple[Any, Any]:
    """A turn with a thought, a call and an answer."""
    given = call("weigh", what=f"stone {number}")
    return says("", given, reasoning=f"Thought {number}."), says(f"Answer {number}.")


async def codex_words(stage: Stage) -> None:
    """Words on Codex, opened again in between."""
    on = await stage.codex(says("One.", reasoning="A thought."), says("Two."), says("Three."))
    stage.file("AGENTS.md", "Be brief.\n")
    async with stage.thread(MODEL, **on) as thread:
        await stage.turn(thread, "One?")
        await stage.turn(thread, "Two?")
    async with stage.thread(MODEL, thread.id, **on) as thread:
        await stage.turn(thread, "Three?")


async def codex_tools(stage: Stage) -> None:
    """Codex's own commands, and a tool of ours."""
    on = await stage.codex(
        says("", call("exec_command", cmd="echo rain", login=False), reasoning="A look."),
        says("", call("exec_command", cmd="echo snow; exit 3", login=False)),
        says("", call("weigh", what="a stone")),
        says("It rains."),
        says("On."),
    )
    async with stage.thread(MODEL, tools=(weigh,), **on) as thread:
        await stage.turn(thread, "How is the weather?")
        await stage.turn(thread, "And tomorrow?")


async def codex_text_projection(stage: Stage) -> None:
    """A past from here, told to Codex as text; a tool, and a rollback."""
    on = await stage.codex(*work(1), *work(2), says("Three."), says("Four."), projection="text")
    async with stage.thread(MODEL, tools=(weigh,), **on) as thread:
        thread.use(harness=TREADLE)
        await stage.turn(thread, "Question 1?")
        thread.use(harness=CODEX)
        await stage.turn(thread, "Question 2?")
        await stage.turn(thread, "Question 3?")
        await thread.rollback()
        await stage.turn(thread, "Question 3, otherwise?")


async def codex_compaction(stage: Stage) -> None:
    """Codex folds its thread by hand; the view follows, here and there."""
    on = await stage.codex(
        says(LONG), says("A summary."), says("Two."), says("Three."), says("Four.")
    )
    async with stage.thread(MODEL, **on) as thread:
        await stage.turn(thread, "One?")
        await stage.fold(thread)
        await stage.turn(thread, "Two?")
    async with stage.thread(MODEL, thread.id, **on) as thread:
        await stage.turn(thread, "Three?")
        thread.use(harness=TREADLE)
        await stage.turn(thread, "Four?")


async def codex_and_back(stage: Stage) -> None:
    """One conversation that goes from here to Codex, back, and there again."""
    on = await stage.codex(*work(1), *work(2), *work(3), *work(4))
    stage.file("AGENTS.md", "Be brief.\n")
    async with stage.thread(MODEL, tools=(weigh,), **on) as thread:
        for number, harness in enumerate((TREADLE, CODEX, TREADLE, CODEX), 1):
            thread.use(harness=harness)
            await stage.turn(thread, f"Question {number}?")


async def codex_forked_and_rolled_back(stage: Stage) -> None:
    """A thread on Codex goes back a turn, is forked and reset; Codex is shown the view."""
    on = await stage.codex(*(says(f"Answer {number}.") for number in range(1, 7)))
    async with stage.thread(MODEL, tools=(weigh,), **on) as thread:
        await stage.turn(thread, "One?")
        await stage.turn(thread, "Two?")
        await thread.rollback()
        await stage.turn(thread, "Two, otherwise?")
        fork = await thread.fork()
        await thread.reset()
        await stage.turn(thread, "Afresh?")
    async with stage.thread(MODEL, fork, tools=(weigh,), **on) as thread:
        await stage.turn(thread, "And you?")


async def codex_approvals(stage: Stage) -> None:
    """Commands of Codex that the user allows and refuses."""
    on = await stage.codex(
        says("", call("exec_command", cmd="touch made", login=False)),
        says("", call("exec_command", cmd="touch refused", login=False)),
        says("Done."),
    )
    decisions: list[Any] = [Once(), No("use a copy")]
    async with stage.thread(MODEL, sandbox="workspace-write", approval="untrusted", **on) as thread:

        def decide(event: Any) -> None:
            if isinstance(event, ApprovalRequested):
                thread.answer(event.id, decisions.pop(0))

        await stage.turn(thread, "Touch them.", at=decide)


async def codex_steering(stage: Stage) -> None:
    """A word to a turn on Codex while a tool of ours runs, and mail before the next."""
    on = await stage.codex(says("", call("wait")), says("Steered."), says("Read."))
    steered, wait = waiting()
    async with stage.thread(MODEL, tools=(wait,), **on) as thread:

        async def steer(event: Any) -> None:
            if isinstance(event, ToolStarted):
                await thread.steer("Hurry up.")
                steered.set()

        await stage.turn(thread, "Go.", at=steer)
        await stage.turn(thread, "And?")


async def codex_with_a_memory(stage: Stage) -> None:
    """The lossless engine folds a thread on Codex, and brings back what left the view."""
    needle = "The heron's colour is HERON_BLUE_77; keep it in src/birds/heron.py."
    on = await stage.codex(
        says("They spoke.\nExpand for details about: words", when="Summarise the source now"),
        *(says(LONG, when=f"Part {number}") for number in range(4)),
        says("Noted.", when="HERON_BLUE_77", times=0),
        says("Yes.", times=0),
    )
    stage.facts("context_window = 24000", model="gpt-5.5")
    async with stage.thread(MODEL, tools=(), engine="lossless", **on) as thread:
        await stage.turn(thread, needle)
        for number in range(4):
            await stage.turn(thread, f"Part {number}: {LONG}")
        await stage.fold(thread)
        await stage.turn(thread, "Which colour has the heron of HERON_BLUE_77?")
