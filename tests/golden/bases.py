"""Conversations about what the model sees of a long past: folds, rollbacks, forks, switches."""

from __future__ import annotations

from typing import Any

from .basics import BUSY, look, run, weigh
from .drive import ScriptedError, Stage, Tokens, call, says, tool

TOO_LONG = ScriptedError(status=400, code="context_length_exceeded", message="too long")
LONG = "many words " * 200
FULL = Tokens(input=9_500, cached=0)


@tool
async def read(words: int = 200) -> str:
    """Reads."""
    return "seen " * words


async def compaction_by_hand(stage: Stage) -> None:
    """A fold by hand, a turn, a second fold, and on."""
    model = stage.model(
        says("", call("read")),
        says(LONG),
        says("We read."),
        says("Yes."),
        says("", call("read", words=10)),
        says("Again."),
        says("We read twice."),
        says("On."),
    )
    stage.file("AGENTS.md", "Be brief.\n")
    async with stage.thread(model, tools=(read,)) as thread:
        await stage.turn(thread, "Read.")
        await stage.fold(thread)
        await stage.turn(thread, "Did you?")
        stage.file("AGENTS.md", "Be kind.\n")
        await stage.turn(thread, "Again?")
        await stage.fold(thread)
        await stage.turn(thread, "Go on.")


async def compaction_before_a_turn(stage: Stage) -> None:
    """A full view is folded before the next turn."""
    stage.facts("auto_compact_token_limit = 9000")
    model = stage.model(says(LONG, usage=FULL), says("A summary."), says("Fresh."), says("More."))
    async with stage.thread(model) as thread:
        for text in ("One.", "Two.", "Three."):
            await stage.turn(thread, text)


async def compaction_inside_a_turn(stage: Stage) -> None:
    """A view that fills up inside a turn is folded, and the newest step stays."""
    stage.facts("auto_compact_token_limit = 9000")
    model = stage.model(
        says("", call("read", words=400)),
        says("", call("read", words=10), usage=FULL),
        says("Read once."),
        says("Done."),
        says("On."),
    )
    async with stage.thread(model, tools=(read,)) as thread:
        await stage.turn(thread, "Read twice.")
        await stage.turn(thread, "Go on.")


async def compaction_on_overflow(stage: Stage) -> None:
    """The provider says that it is too much; the view is folded and the step goes on."""
    model = stage.model(
        says(LONG), says("", error=TOO_LONG), says("A summary."), says("Done."), says("On.")
    )
    async with stage.thread(model) as thread:
        for text in ("One.", "Two.", "Three."):
            await stage.turn(thread, text)


async def compaction_that_fails(stage: Stage) -> None:
    """A summary that does not come, and the turn that goes on without it."""
    stage.facts("auto_compact_token_limit = 9000")
    model = stage.model(
        says(LONG, usage=FULL),
        says("", error=BUSY, times=3),
        says("Without."),
        says("A summary."),
        says("With."),
    )
    async with stage.thread(model) as thread:
        for text in ("One.", "Two.", "Three."):
            await stage.turn(thread, text)


async def compaction_by_the_provider(stage: Stage) -> None:
    """The provider folds: by its endpoint, and by a trigger."""
    for how in ("endpoint", "trigger"):
        model = stage.model(says(LONG), says("On."), says("More."), remote_compaction=how)
        async with stage.thread(model) as thread:
            await stage.turn(thread, "One.")
            await stage.fold(thread)
            await stage.turn(thread, "Two.")
            await stage.turn(thread, "Three.")


async def rolled_back(stage: Stage) -> None:
    """One turn back, on, two back, and on."""
    model = stage.model(
        says("", call("weigh", what="a")), *(says(f"Answer {number}.") for number in range(5))
    )
    async with stage.thread(model, tools=(weigh,)) as thread:
        await stage.turn(thread, "One.")
        await stage.turn(thread, "Two.")
        await thread.rollback()
        await stage.turn(thread, "Two, otherwise.")
        await stage.turn(thread, "Three.")
        await thread.rollback(2)
        await stage.turn(thread, "Two, at last.")


async def reverted(stage: Stage) -> None:
    """Back to an entry inside a turn, and on."""
    model = stage.model(
        says("", call("weigh", what="a")),
        says("", call("weigh", what="b")),
        *(says(f"Answer {number}.") for number in range(3)),
    )
    async with stage.thread(model, tools=(weigh,)) as thread:
        await stage.turn(thread, "One.")
        await stage.turn(thread, "Two.")
        stage.extra["reverted to"] = await thread.revert(9)
        await stage.turn(thread, "Otherwise.")


async def rolled_back_behind_a_fold(stage: Stage) -> None:
    """A fold that is rolled back is gone, and the view is the one before."""
    model = stage.model(
        says(LONG), says("Two."), says("A summary."), says("Three."), says("Otherwise.")
    )
    async with stage.thread(model) as thread:
        await stage.turn(thread, "One?")
        await stage.turn(thread, "Two?")
        await stage.fold(thread)
        await stage.turn(thread, "Three?")
        await thread.rollback(2)
        await stage.turn(thread, "Two, otherwise?")


async def forked(stage: Stage) -> None:
    """A fork at the end and one inside a step; all three go on."""
    model = stage.model(
        says("", call("weigh", what="a")),
        says("", call("weigh", what="b")),
        says("Answer."),
        says("The first goes on."),
    )
    async with stage.thread(model, tools=(weigh,)) as thread:
        await stage.turn(thread, "One.")
        whole = await thread.fork(title="Whole")
        inside = await thread.fork(9, title="Inside")
        await stage.turn(thread, "On.")
    for name in (whole, inside):
        model = stage.model(says("", call("weigh", what="c")), says("The fork goes on."))
        async with stage.thread(model, name, tools=(weigh,)) as thread:
            await stage.turn(thread, "And you?")


async def forked_inside_a_step(stage: Stage) -> None:
    """A tool that forks its own thread while its step is under way."""
    forks: list[str] = []

    @tool
    async def split() -> str:
        """Fork the thread."""
        forks.append(await holder[0].fork())
        return "split"

    holder: list[Any] = []
    model = stage.model(says("", call("split")), says("Done."))
    async with stage.thread(model, tools=(split,)) as thread:
        holder.append(thread)
        await stage.turn(thread, "Split.")
    model = stage.model(says("I am the other."))
    async with stage.thread(model, forks[0], tools=(split,)) as thread:
        await stage.turn(thread, "Who are you?")


async def reset(stage: Stage) -> None:
    """An empty view after two turns, and a fold later."""
    model = stage.model(says("One."), says("Two."), says(LONG), says("A summary."), says("On."))
    async with stage.thread(model) as thread:
        await stage.turn(thread, "One?")
        await stage.turn(thread, "Two?")
        await thread.reset()
        await stage.turn(thread, "Who are you?")
        await stage.fold(thread)
        await stage.turn(thread, "On?")


async def switched_between_wire_formats(stage: Stage) -> None:
    """One conversation with models of all three formats, thoughts and calls included."""

    def work(number: int) -> tuple[Any, Any]:
        given = call("weigh", what=f"stone {number}")
        return says("", given, reasoning=f"Thought {number}."), says(f"Answer {number}.")

    providers = {
        "alpha": await stage.provider("alpha", "responses", *work(1), *work(4)),
        "beta": await stage.provider("beta", "chat", *work(2), *work(5)),
        "gamma": await stage.provider("gamma", "messages", *work(3), *work(6)),
    }
    names = ("alpha:gpt-5.5", "beta:qwen3-coder", "gamma:claude-opus-5")
    async with stage.thread(names[0], tools=(weigh,), providers=providers) as thread:
        for number in range(6):
            thread.use(names[number % 3])
            await stage.turn(thread, f"Question {number + 1}?")


async def switched_with_built_in_tools(stage: Stage) -> None:
    """Models that get different built-in tools, and instructions of their own."""
    providers = {
        "alpha": await stage.provider("alpha", "responses", says("", run("echo 1")), says("1")),
        "beta": await stage.provider("beta", "chat", says("2")),
        "gamma": await stage.provider("gamma", "messages", says("", run("echo 3")), says("3")),
    }
    async with stage.thread("alpha:gpt-5.5", providers=providers) as thread:
        for name in ("alpha:gpt-5.5", "beta:qwen3-coder", "gamma:claude-opus-5"):
            thread.use(name)
            await stage.turn(thread, "And?")


async def fallen_back(stage: Stage) -> None:
    """The first model fails, another answers; the first is back for the next turn."""
    providers = {
        "alpha": await stage.provider("alpha", "responses", says("", error=BUSY), says("Back.")),
        "beta": await stage.provider("beta", "chat", says("Here instead.")),
    }
    async with stage.thread(
        "alpha:gpt-5.5",
        tools=(look,),
        providers=providers,
        fallbacks=("beta:qwen3-coder",),
        retries=0,
    ) as thread:
        await stage.turn(thread, "Anyone?")
        await stage.turn(thread, "Again?")
