"""Conversations with engines that fold by themselves and remember."""

from __future__ import annotations

from typing import Any

from .drive import Stage, call, retrieval, says, summaries, tool

NEEDLE = "The heron's colour is HERON_BLUE_77; keep it in src/birds/heron.py."
FILLER = "Noted. " + "The water is cold and nobody moves. " * 12
ASKED = "Summarise the source now"
"""Stands in every request for a summary."""
WINDOW = "context_window = 7000\ninstructions = 'general'"


def words(number: int, count: int = 120) -> str:
    """Text that tells nothing, and is the same for the same number."""
    return " ".join(f"w{(number * 7919 + at * 104729) % 997}" for at in range(count))


TOLD = "They went on about many words, as they were asked to.\nExpand for details about: words"
"""A summary that a model writes."""


@tool(parallel=True)
async def glance(number: int) -> str:
    """Looks at something."""
    return f"exit code 0: saw {number} in src/seen_{number}.py. {words(number, 80)}"


def talking(stage: Stage, *answers: Any) -> Any:
    """A model that does as the conversation wants, sums up, and else talks."""
    return stage.model(says(TOLD, when=ASKED, times=0), *answers, says(FILLER, times=0))


async def lossless_folds(stage: Stage) -> None:
    """Many turns in a small window: summaries are prepared, published and condensed."""
    stage.facts(WINDOW)
    model = stage.model(
        says(TOLD, when=ASKED, times=0),
        says("", call("glance", number=1), when="look", times=0),
        says("Looked.", when="exit code", times=0),
        says(words(5), times=0),
    )
    config = {"leaf_fan_in": 3, "fan_in": 2}
    async with stage.thread(
        model, tools=(glance,), engine="lossless", engine_config=config
    ) as thread:
        for number in range(14):
            if number == 8:
                stage.file("AGENTS.md", "Be brief.\n")
            how = "look at" if number % 5 == 4 else "tell of"
            await stage.turn(thread, f"{how} {number}: {words(number, 80)}")


async def lossless_recall(stage: Stage) -> None:
    """A fold by hand, and every tool that looks behind it."""
    async with stage.thread(talking(stage), tools=(), engine="lossless") as thread:
        for text in (NEEDLE, "And the zebra?", "And the otter?", "What else?"):
            await stage.turn(thread, text)
        await stage.fold(thread)
        (node, *_) = summaries(thread)
    model = talking(
        stage,
        says("", call("recall_search", query="heron colour"), when="Search."),
        says("", call("recall_search", query="HERON_[A-Z]+", mode="regex"), when="Rx"),
        says("", call("recall_describe", id=node), when="Describe."),
        says("", call("recall_expand", id=node), when="Expand."),
        says("", call("recall_expand", id="4-6", max_tokens=200), when="Range."),
        says("", call("recall_describe", id="sum_absent"), when="Absent."),
        says("", call("note_write", name="plan", text="paint the heron"), when="Note."),
        says("", call("note_list"), when="List."),
        says("", call("new_context", reason="that is done"), when="Leave."),
    )
    asked = ("Search.", "Rx", "Describe.", "Expand.", "Range.", "Absent.", "Note.", "List.")
    async with stage.thread(model, thread.id, tools=(), engine="lossless") as thread:
        for text in (*asked, "Leave.", "Where are we?"):
            await stage.turn(thread, text)


async def lossless_questions(stage: Stage) -> None:
    """A question about more of the past than is shown, answered by a helper."""
    async with stage.thread(talking(stage), tools=(), engine="lossless") as thread:
        for text in (NEEDLE, "And the zebra?", "And the otter?"):
            await stage.turn(thread, text)
        await stage.fold(thread)
    model = talking(
        stage,
        says(f"It is blue [{thread.id}:4].", when="<records>"),
        says("", call("recall_ask", question="Which colour?", query="heron colour"), when="Ask."),
    )
    async with stage.thread(model, thread.id, tools=(), engine="lossless") as thread:
        await stage.turn(thread, "Ask.")


async def lossless_remembers_by_itself(stage: Stage) -> None:
    """What left the view comes back when it is asked for, and leaves again with the next fold."""
    stage.facts(WINDOW)
    async with stage.thread(talking(stage), tools=(), engine="lossless") as thread:
        await stage.turn(thread, NEEDLE)
        for number in range(6):
            await stage.turn(thread, f"Go on with {number}: {words(number)}")
        await stage.fold(thread)
        await stage.turn(thread, "What is HERON_BLUE_77, and what colour has the heron?")
        await stage.turn(thread, "Thanks.")
        await stage.fold(thread)
        await stage.turn(thread, "Bye.")


async def lossless_without_summaries(stage: Stage) -> None:
    """No summary can be had: extracts stand for what left the view."""
    stage.facts(WINDOW)
    model = stage.model(says("", when=ASKED, times=0), says(words(5), times=0))
    async with stage.thread(model, tools=(), engine="lossless") as thread:
        for number in range(8):
            await stage.turn(thread, f"tell of src/n_{number}.py: {words(number, 160)}")


async def lossless_forked_and_rolled_back(stage: Stage) -> None:
    """A folded thread goes back two turns, is forked, and both go on."""
    stage.facts(WINDOW)
    async with stage.thread(talking(stage), tools=(), engine="lossless") as thread:
        for number in range(8):
            await stage.turn(thread, f"Go on with {number}: {words(number)}")
        await stage.fold(thread)
        await stage.turn(thread, "And now?")
        fork = await thread.fork()
        await thread.rollback(2)
        await stage.turn(thread, "Otherwise.")
    async with stage.thread(talking(stage), fork, tools=(), engine="lossless") as thread:
        await stage.turn(thread, "And you?")
        await thread.reset()
        await stage.turn(thread, "Afresh?")


async def another_engine(stage: Stage) -> None:
    """The retrieval example: folds, brings back what was folded, and has a tool."""
    long = "It sleeps standing." + " So do horses, if they must." * 100
    model = stage.model(
        says("", call("recall", query="zebra"), when="Look"),
        says(long, when="sleep?", times=0),
        says("They spoke of sleep.", times=0),
    )
    async with stage.thread(model, tools=(), **retrieval()) as thread:
        await stage.turn(thread, "How does a zebra sleep?")
        await stage.fold(thread)
        await stage.turn(thread, "And herons?")
        await stage.turn(thread, "Was that about the zebra true?")
        await stage.turn(thread, "Look it up.")
        await thread.rollback()
        await stage.turn(thread, "Good.")
    async with stage.thread(model, thread.id, tools=(), **retrieval()) as thread:
        await stage.turn(thread, "And the zebra?")
