"""Conversations in the corners: overlays, rights to the last word, other tools, other formats."""

from __future__ import annotations

from typing import Any

from .bases import LONG
from .basics import PIXEL, look, run, weigh
from .drive import (
    ApprovalRequested,
    CollaborationMode,
    ContextValue,
    Contribution,
    ForThread,
    LocalImage,
    Overlays,
    PlanStep,
    PromptContext,
    Queue,
    ScriptedError,
    Stage,
    Task,
    call,
    credentials,
    failing_engine,
    folding_engine,
    freeform,
    says,
)

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\n"


class Notes:
    """An overlay that says something else in every turn."""

    id = "notes"

    def __init__(self) -> None:
        self.turn = 1

    def contribute(self, audience: Any, settings: Any) -> Contribution | None:
        """Words for everyone."""
        del settings
        return Contribution(
            stable_prefix=f"You work for {audience.provider}.",
            dynamic_suffix=f"This is note {self.turn}.",
        )


async def overlays_and_parameters(stage: Stage) -> None:
    """What a host adds to prompts and requests, and a suffix that changes."""
    notes = Notes()
    providers = {"openai": await stage.provider("openai", "responses", *(says("Yes."),) * 3)}
    params = {"openai": {"textVerbosity": "high"}, "openai:gpt-5.5": {"parallelToolCalls": False}}
    async with stage.thread(
        "openai:gpt-5.5",
        tools=(weigh,),
        overlays=Overlays([notes]),
        params=params,
        providers=providers,
    ) as thread:
        await stage.turn(thread, "One?")
        await stage.turn(thread, "Two?")
        notes.turn = 2
        await stage.turn(thread, "Three?")


async def all_that_settings_tell(stage: Stage) -> None:
    """Every setting that the model is told of; then each of them otherwise."""
    usual: dict[str, Any] = {
        "cwd": str(stage.project),
        "sandbox_mode": "workspace-write",
        "approval_policy": "on-request",
    }
    told = (
        PromptContext(
            **usual,
            developer_instructions="Answer in rhymes.",
            personality="friendly",
            collaboration_mode=CollaborationMode("plan"),
            additional_context={
                "ticket": ContextValue("T-1 </additional_context>"),
                "host": ContextValue("editor", "application"),
            },
            task=Task(goal="Mend it.", plan=(PlanStep("look", "in_progress"),), files=("a.py",)),
        ),
        PromptContext(
            **usual,
            network_access=True,
            developer_instructions="Answer in prose.",
            personality="pragmatic",
            collaboration_mode=CollaborationMode("default"),
            additional_context={"ticket": ContextValue("T-2")},
            task=Task(goal="Mend it well.", plan=(PlanStep("look", "completed"),)),
        ),
        PromptContext(**usual),
    )
    name = None
    for number, settings in enumerate(told):
        model = stage.model(says(f"Answer {number}."))
        async with stage.thread(
            model, name, sandbox=None, approval=None, settings=settings, tools=(weigh,)
        ) as thread:
            name = thread.id
            await stage.turn(thread, f"Question {number}?")


async def other_shells(stage: Stage) -> None:
    """Models that know other tools for commands and patches."""
    script = {"command": "echo one", "login": False}
    by_text, by_name = freeform("apply_patch", PATCH), call("apply_patch", input=PATCH)
    plain = {"command": ["bash", "-c", "echo one; exit 2"]}
    for shell, patch, first, second in (
        ("shell_command", "freeform", call("shell_command", **script), by_text),
        ("shell", "function", call("shell", **plain), by_name),
    ):
        name = f"with-{shell}"
        stage.facts(f'shell = "{shell}"', f'apply_patch = "{patch}"', model=name)
        (stage.project / "new.txt").unlink(missing_ok=True)
        model = stage.model(says("", first), says("", second), says("Done."), name=name)
        async with stage.thread(model) as thread:
            await stage.turn(thread, "Go.")


async def approvals_for_the_thread(stage: Stage) -> None:
    """A yes that holds for the thread, over Messages, and is forgotten with it."""
    name = None
    for number in range(2):
        model = stage.model(
            says("", run("touch a")), says("", run("touch a")), says("Done."), api="messages"
        )
        asked: list[Any] = []
        async with stage.thread(
            model, name, sandbox="workspace-write", approval="untrusted"
        ) as thread:
            name = thread.id

            def decide(event: Any, thread: Any = thread, asked: list[Any] = asked) -> None:
                if isinstance(event, ApprovalRequested):
                    asked.append(event.call.argv[-1])
                    thread.answer(event.id, ForThread())

            await stage.turn(thread, f"Touch it, {number}.", at=decide)
        stage.extra[f"asked {number}"] = asked


async def pictures_over_chat_and_messages(stage: Stage) -> None:
    """Pictures as the two other formats spell them."""
    stage.facts("images = true")
    path = stage.file("pixel.png", PIXEL)
    for api in ("chat", "messages"):
        model = stage.model(
            says("", call("view_image", path="pixel.png"), call("view_image", path="none.png")),
            says("A dot."),
            api=api,
        )
        async with stage.thread(model) as thread:
            await stage.turn(thread, "And this?", LocalImage(path))


async def compaction_over_chat_and_messages(stage: Stage) -> None:
    """Folds as the two other formats spell them, with calls and thoughts before."""
    for api in ("chat", "messages"):
        model = stage.model(
            says("", call("look", number=3), call("look", number=6), reasoning="Two looks."),
            says(LONG),
            says("They looked."),
            says("On."),
            api=api,
        )
        async with stage.thread(model, tools=(look,)) as thread:
            await stage.turn(thread, "Look.")
            await stage.fold(thread)
            await stage.turn(thread, "On?")


async def replies_to_a_channel(stage: Stage) -> None:
    """Replies that go out by a channel, one of which says nothing."""
    channel = Queue()
    model = stage.model(says("Here it is."), says("NO_REPLY"), says("And more."))
    async with stage.thread(model, channel=channel, tools=(weigh,)) as thread:
        for text in ("One?", "Two?", "Three?"):
            await stage.turn(thread, text)
    stage.extra["delivered"] = channel.told


async def an_engine_that_fails(stage: Stage) -> None:
    """An engine that cannot assemble, fold or note; the turns go on."""
    model = stage.model(says("One."), says(LONG), says("A summary."), says("Three."))
    async with stage.thread(model, tools=(weigh,), engine=failing_engine()) as thread:
        await stage.turn(thread, "One?")
        await stage.turn(thread, "Two?")
        await stage.fold(thread)
        await stage.turn(thread, "Three?")


async def an_engine_that_folds(stage: Stage) -> None:
    """An engine of the host's that shows its own record, gives guidance and recalls."""
    engine = folding_engine()
    model = stage.model(
        says("One."), says("", call("weigh", what="a")), says("Two."), says("Three."), says("Four.")
    )
    async with stage.thread(model, tools=(weigh,), engine=engine) as thread:
        for number in range(1, 5):
            await stage.turn(thread, f"Question {number}?")


async def another_profile_pays(stage: Stage) -> None:
    """The first key is refused, the second is taken, also in the next turn."""
    refused = ScriptedError(status=401, message="who are you")
    providers = {
        "alpha": await stage.provider(
            "alpha", "responses", says("", error=refused), says("Hello."), says("Again.")
        )
    }
    async with stage.thread(
        "alpha:gpt-5.5",
        tools=(),
        providers=providers,
        credentials=credentials(stage, "alpha", "one", "two"),
        retries=0,
    ) as thread:
        await stage.turn(thread, "Anyone?")
        await stage.turn(thread, "Still?")
