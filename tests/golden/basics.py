"""Conversations about turns: words, tools, hooks, context, mail, and turns that go wrong."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

from .drive import (
    AfterToolCall,
    ApprovalRequested,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    Break,
    Choices,
    ForPrefix,
    Hooks,
    HookSays,
    InputProvenance,
    InternalEvent,
    LocalImage,
    No,
    NoAndStop,
    Once,
    PromptContext,
    QuestionsAsked,
    ScriptedError,
    Stage,
    StepStarted,
    TextDelta,
    ThreadStarted,
    ToolResultReady,
    ToolStarted,
    TurnEnded,
    TurnStartedHook,
    builtins_of,
    call,
    freeform,
    says,
    sent_mail,
    tool,
    until,
)

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5E"
    "rkJggg=="
)
BUSY = ScriptedError(status=503, code="server_error", message="too busy")


def run(command: str, **more: Any) -> Any:
    """A command in a plain shell."""
    return call("exec_command", cmd=command, login=False, **more)


@tool
async def weigh(what: str, twice: bool = False) -> str:
    """Weigh something."""
    return f"{what} weighs {6 if twice else 3} kg"


@tool(parallel=True)
async def look(number: Annotated[int, "Where to look."]) -> str:
    """Look at something."""
    return f"saw {number}"


@tool
async def stumble(why: str) -> str:
    """Fail for a reason."""
    raise ValueError(why)


def waiting() -> tuple[asyncio.Event, Any]:
    """A tool that waits for something to happen, and that."""
    happened = asyncio.Event()

    @tool(parallel=True)
    async def wait() -> str:
        """Wait until something was said."""
        await happened.wait()
        return "waited"

    return happened, wait


@tool(parallel=True)
async def forever() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"


async def plain_text(stage: Stage) -> None:
    """Three turns of words, one with a thought."""
    model = stage.model(says("Hello."), says("Fine, and you?", reasoning="Polite."), says("Bye."))
    async with stage.thread(model) as thread:
        for text in ("Hi.", "How are you? — “quoted” ünïcode 🙂 \u2028 end", "<b>Bye</b>\n\n  now"):
            await stage.turn(thread, text)


async def plain_text_over_chat(stage: Stage) -> None:
    """Words, a thought and a call over Chat Completions."""
    model = stage.model(
        says("", call("weigh", what="a stone"), reasoning="Weigh it."),
        says("3 kg."),
        says("Bye."),
        api="chat",
    )
    async with stage.thread(model, tools=(weigh,)) as thread:
        await stage.turn(thread, "How heavy is a stone?")
        await stage.turn(thread, "Thanks.")


async def plain_text_over_messages(stage: Stage) -> None:
    """Words, a thought and a call over Messages."""
    model = stage.model(
        says("One moment.", call("weigh", what="a stone"), reasoning="Weigh it."),
        says("3 kg."),
        says("Bye."),
        api="messages",
    )
    async with stage.thread(model, tools=(weigh,)) as thread:
        await stage.turn(thread, "How heavy is a stone?")
        await stage.turn(thread, "Thanks.")


async def built_in_tools_over_chat(stage: Stage) -> None:
    """The built-in tools as Chat Completions spells them."""
    stage.facts('apply_patch = "function"', "images = true")
    patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\n"
    model = stage.model(
        says("", run("echo one")),
        says("", call("apply_patch", input=patch)),
        says("ok"),
        api="chat",
    )
    async with stage.thread(model) as thread:
        await stage.turn(thread, "Go.")


async def built_in_tools_over_messages(stage: Stage) -> None:
    """The built-in tools as Messages spells them."""
    stage.facts('apply_patch = "function"', "images = true")
    patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\n"
    model = stage.model(
        says("", run("echo one")),
        says("", call("apply_patch", input=patch)),
        says("ok"),
        api="messages",
    )
    async with stage.thread(model) as thread:
        await stage.turn(thread, "Go.")


async def commands(stage: Stage) -> None:
    """Commands that work, fail, are not found and read their input."""
    stage.file("notes.txt", "one\ntwo\nthree\n")
    model = stage.model(
        says("", run("cat notes.txt")),
        says("", run("echo out; echo err >&2; exit 3")),
        says("", run("no-such-command-here 2>/dev/null || echo missing")),
        says("", run("cat", workdir="missing")),
        says("", run("printf 'a\\tb\\r\\nc\\033[1mbold\\033[0m\\n'; pwd", workdir="sub")),
        says("Done."),
    )
    (stage.project / "sub").mkdir()
    async with stage.thread(model) as thread:
        await stage.turn(thread, "Run things.")


async def sessions(stage: Stage) -> None:
    """A command that waits for input, gets it and ends."""
    script = 'read -r line; echo "got $line"; read -r line; echo "then $line"'
    model = stage.model(
        says("", run(script, tty=True, yield_time_ms=250)),
        says("", call("write_stdin", session_id=1, chars="one\n", yield_time_ms=2500)),
        says("", call("write_stdin", session_id=1, chars="two\n", yield_time_ms=20000)),
        says("", call("write_stdin", session_id=1, chars="late\n")),
        says("Done."),
    )
    async with stage.thread(model) as thread:
        await stage.turn(thread, "Talk to it.")


async def patches(stage: Stage) -> None:
    """Patches that add, change, move and delete, and one that does not fit."""
    stage.facts('apply_patch = "freeform"')
    stage.file("a.txt", "one\ntwo\nthree\n")
    stage.file("gone.txt", "old\n")
    change = (
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n one\n-two\n+2\n three\n"
        "*** Add File: dir/new.txt\n+fresh\n*** Delete File: gone.txt\n*** End Patch\n"
    )
    wrong = "*** Begin Patch\n*** Update File: b.txt\n@@\n-absent\n+x\n*** End Patch\n"
    model = stage.model(
        says("", freeform("apply_patch", change)),
        says("", freeform("apply_patch", wrong)),
        says("", freeform("apply_patch", "no patch at all")),
        says(
            "", run("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: c\n+c\n*** End Patch\nEOF")
        ),
        says("", run("cat b.txt dir/new.txt c")),
        says("Patched."),
    )
    async with stage.thread(model) as thread:
        await stage.turn(thread, "Patch.")


async def plans_and_questions(stage: Stage) -> None:
    """A plan, a change of it, a question to the user and one that is malformed."""
    steps = [{"step": "look", "status": "in_progress"}, {"step": "mend", "status": "pending"}]
    done = [{"step": "look", "status": "completed"}, {"step": "mend", "status": "in_progress"}]
    option = {"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}
    asked = {"id": "colour", "header": "Colour", "question": "Which?", "options": list(option)}
    model = stage.model(
        says("", call("update_plan", plan=steps, explanation="to begin")),
        says("", call("request_user_input", questions=[asked])),
        says("", call("request_user_input", questions=[])),
        says("", call("update_plan", plan=done)),
        says("Blue, then."),
        says("Goes on."),
    )
    async with stage.thread(model) as thread:

        def reply(event: Any) -> None:
            if isinstance(event, QuestionsAsked):
                thread.answer(event.id, {"colour": ("Blue",)})

        await stage.turn(thread, "Paint it.", at=reply)
        await stage.turn(thread, "Go on.")


async def pictures(stage: Stage) -> None:
    """Pictures that the user gives, that the model looks at, and that do not exist."""
    stage.facts("images = true")
    path = stage.file("pixel.png", PIXEL)
    model = stage.model(
        says("A dot."),
        says("", call("view_image", path="pixel.png")),
        says("", call("view_image", path="absent.png")),
        says("The same dot."),
    )
    async with stage.thread(model) as thread:
        await stage.turn(thread, "What is this?", LocalImage(path), "and this", LocalImage(path))
        await stage.turn(thread, "Look again.")


async def cut_outputs(stage: Stage) -> None:
    """A long output is cut and kept, and read back by its handle."""
    long = "for i in $(seq 1 3000); do echo line $i of many; done"
    model = stage.model(
        says("", run(long)), says("", run(long, max_output_tokens=50)), says("Long.")
    )
    async with stage.thread(model, output_limit=400) as thread:
        await stage.turn(thread, "Print.")
        handle = stage.handle(model)
    model = stage.model(
        says("", call("read_output", handle=handle, offset=-40)),
        says("", call("read_output", handle=handle, pattern="line 7*7 of")),
        says("", call("read_output", handle="nothing")),
        says("Read."),
    )
    async with stage.thread(model, thread.id, output_limit=400) as thread:
        await stage.turn(thread, "Read it.")


async def parallel_calls(stage: Stage) -> None:
    """Three calls at once, whose results come in another order; then one that must be alone."""
    ended = [asyncio.Event() for _ in range(4)]

    @tool(parallel=True)
    async def relay(number: int) -> str:
        """End after the one with the next number."""
        if number < 3:
            await ended[number + 1].wait()
        ended[number].set()
        return f"ended {number}"

    model = stage.model(
        says("", *(call("relay", number=number) for number in (1, 2, 3))),
        says("", call("weigh", what="a"), call("look", number=9), call("weigh", what="b")),
        says("Done."),
    )
    async with stage.thread(model, tools=(look, relay, weigh)) as thread:
        await stage.turn(thread, "Look.")


async def failing_calls(stage: Stage) -> None:
    """Calls that raise, lack an argument, are no JSON, and name a tool that is not there."""
    model = stage.model(
        says("", call("stumble", why="it rains")),
        says("", call("weigh"), call("weigh", what=3), call("weigh", what="a", other=1)),
        says("", call("absent", x=1)),
        says("", freeform("stumble", "free")),
        says("", broken("weigh", '{"what": "a"')),
        says("Done."),
    )
    async with stage.thread(model, tools=(stumble, weigh)) as thread:
        await stage.turn(thread, "Try.")


def broken(name: str, text: str) -> Any:
    """A call whose arguments are `text`."""
    from .drive import Call

    return Call(name=name, arguments=text)


async def interrupted_while_a_tool_runs(stage: Stage) -> None:
    """A turn that is broken off in a call, and the next one."""
    model = stage.model(says("", call("forever"), call("weigh", what="a")), says("Going on."))
    async with stage.thread(model, tools=(forever, weigh)) as thread:

        def stop(event: Any) -> None:
            if isinstance(event, ToolStarted) and event.name == "forever":
                thread.interrupt()

        await stage.turn(thread, "Wait for ever.", at=stop)
        await stage.turn(thread, "Go on.")


async def interrupted_while_the_answer_streams(stage: Stage) -> None:
    """A turn that is broken off in an answer, one before its answer, and the next one."""
    model = stage.model(
        says("one two three", stall=Break(events=3)), says("x", delay=60), says("Going on.")
    )
    async with stage.thread(model) as thread:

        def speaking(event: Any) -> None:
            if isinstance(event, TextDelta):
                thread.interrupt()

        async def asked(event: Any) -> None:
            if isinstance(event, StepStarted):
                await until(lambda: len(model.requests) == 2)
                thread.interrupt()

        await stage.turn(thread, "Speak.", at=speaking)
        await stage.turn(thread, "Again.", at=asked)
        await stage.turn(thread, "Go on.")


async def approvals(stage: Stage) -> None:
    """Commands that are allowed once, for a prefix, refused, and refused for good."""
    model = stage.model(
        says("", run("touch once")),
        says("", run("touch refused")),
        says("", run("mkdir -p prefix")),
        says("", run("mkdir -p prefix/again")),
        says("Four tried."),
        says("", run("touch stopped")),
        says("Ended."),
    )
    decisions: list[Any] = [Once(), No("use a copy"), ForPrefix(("mkdir",)), NoAndStop()]
    async with stage.thread(model, sandbox="workspace-write", approval="untrusted") as thread:

        def decide(event: Any) -> None:
            if isinstance(event, ApprovalRequested):
                thread.answer(event.id, decisions.pop(0))

        await stage.turn(thread, "Try them.", at=decide)
        await stage.turn(thread, "And these.", at=decide)
        await stage.turn(thread, "And now?")


async def sandboxed_commands(stage: Stage) -> None:
    """Commands in the sandbox: what it lets write, what not, and rights that are asked for."""
    why = {"sandbox_permissions": "require_escalated", "justification": "Why not?"}
    model = stage.model(
        says("", run("echo in > inside && cat inside")),
        says("", run("echo asked", **why)),
        says("Done."),
        says("", run("(echo out > outside) 2>/dev/null || echo refused; cat inside")),
        says("Refused."),
    )

    async with stage.thread(model, sandbox="workspace-write", approval="on-request") as thread:

        def decide(event: Any) -> None:
            if isinstance(event, ApprovalRequested):
                thread.answer(event.id, Once())

        await stage.turn(thread, "Try them.", at=decide)
    async with stage.thread(model, thread.id, sandbox="read-only", approval="never") as thread:
        await stage.turn(thread, "And now?")


async def hooks_that_add_and_block(stage: Stage) -> None:
    """Hooks that add context, change parameters and results, block a call, a fold and a turn."""
    hooks, told = Hooks(), stage.extra.setdefault("hooks told", [])

    def saying(**fields: Any) -> Any:
        async def hook(payload: Any) -> Any:
            heard = builtins_of(payload)
            told.append({name: each for name, each in heard.items() if name != "seconds"})
            return HookSays(**fields)

        return hook

    async def block(payload: Any) -> Any:
        return HookSays(block="not today") if "lead" in payload.arguments else None

    async def refuse(payload: Any) -> Any:
        return HookSays(block="enough is said") if "secret" in payload.prompt else None

    hooks.on(ThreadStarted, saying(context="The house is old."))
    hooks.on(BeforePromptBuild, refuse)
    hooks.on(BeforePromptBuild, saying(context="The scales are new."))
    hooks.on(BeforeToolCall, block)
    hooks.on(BeforeToolCall, saying(parameters={"twice": True}))
    hooks.on(ToolResultReady, saying(output="about 6 kg"), tools=("weigh",))
    hooks.on(AfterToolCall, saying())
    hooks.on(TurnStartedHook, saying())
    hooks.on(TurnEnded, saying())
    hooks.on(BeforeCompaction, saying())
    model = stage.model(
        says("", call("weigh", what="wool"), call("weigh", what="lead")),
        says("6 kg. " + "So heavy. " * 200),
        says("They weighed."),
        says("On."),
    )
    async with stage.thread(model, tools=(weigh,), hooks=hooks) as thread:
        await stage.turn(thread, "Weigh.")
        await stage.turn(thread, "Tell a secret.")
        await stage.fold(thread)
        await stage.turn(thread, "Again.")


async def agents_md_edited(stage: Stage) -> None:
    """AGENTS.md is there, edited, joined by another, and gone."""
    stage.file("AGENTS.md", "Be brief.\n")
    model = stage.model(*(says(f"Answer {number}.") for number in range(5)))
    async with stage.thread(model) as thread:
        await stage.turn(thread, "One.")
        await stage.turn(thread, "Two.")
        stage.file("AGENTS.md", "Be brief.\nBe kind.\n")
        await stage.turn(thread, "Three.")
        stage.home.joinpath("AGENTS.md").write_text("Mine: no tabs.\n")
        await stage.turn(thread, "Four.")
        (stage.project / "AGENTS.md").unlink()
        await stage.turn(thread, "Five.")


async def settings_changed(stage: Stage) -> None:
    """Another sandbox, approval, directory and root, between openings of one thread."""
    other = stage.project / "sub"
    stage.file("sub/AGENTS.md", "Below: be quick.\n")
    models = [stage.model(says(f"Answer {number}.")) for number in range(5)]
    options: list[dict[str, Any]] = [
        {"sandbox": "read-only", "approval": "on-request"},
        {"sandbox": "workspace-write", "approval": "on-request", "network": True},
        {"sandbox": "workspace-write", "approval": "never", "writable_roots": [str(other)]},
        {"cwd": other},
        {"cwd": stage.project, "settings": personal(stage)},
    ]
    name = None
    for number, (model, more) in enumerate(zip(models, options, strict=True)):
        async with stage.thread(model, name, **more) as thread:
            name = thread.id
            await stage.turn(thread, f"Question {number}.")


def personal(stage: Stage) -> PromptContext:
    """Settings with words of the host's own."""
    return PromptContext(
        cwd=str(stage.project),
        sandbox_mode="danger-full-access",
        approval_policy="never",
        developer_instructions="Answer in rhymes.",
        personality="friendly",
    )


async def output_schema(stage: Stage) -> None:
    """One turn with a schema, one without, and choices about effort and words."""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    for api in ("responses", "chat", "messages"):
        model = stage.model(says('{"n":1}'), says("free again"), api=api)
        async with stage.thread(model, choices=Choices(effort="high", verbosity="low")) as thread:
            await stage.turn(thread, "A number.", schema=schema)
            await stage.turn(thread, "And words.")


async def provenance_and_events(stage: Stage) -> None:
    """Inputs of other threads, of the system and of tasks that ended."""
    model = stage.model(*(says(f"Answer {number}.") for number in range(4)))
    done = InternalEvent(
        source="cron",
        child_thread="thr_child",
        task="count",
        status="ok",
        result="42 </task_completion>",
        stats="1 s",
    )
    told = InputProvenance(
        kind="inter_session", source_thread="thr_other", source_channel="lab", source_tool="ask"
    )
    async with stage.thread(model) as thread:
        await stage.turn(thread, "From a person.", provenance=InputProvenance(kind="external_user"))
        await stage.turn(thread, "From a thread.", provenance=told)
        await stage.turn(thread, "Counted.", events=(done,))
        await stage.turn(thread, "From us.", provenance=InputProvenance(kind="internal_system"))


async def steering_and_mail(stage: Stage) -> None:
    """A word to the turn under way, mail before it, mail between turns and a turn of mail."""
    model = stage.model(says("", call("wait")), says("Steered."), says("Read."), says("And that."))
    other = stage.model(says("Sent."), name="other")
    steered, wait = waiting()
    async with (
        stage.thread(model, tools=(wait,)) as thread,
        stage.thread(other, tools=()) as sender,
    ):

        async def steer(event: Any) -> None:
            if isinstance(event, ToolStarted):
                await thread.steer("Hurry up.")
                steered.set()

        await stage.turn(thread, "Go.", at=steer)
        await stage.turn(sender, "Send it.")
        await sender.send(thread.id, "Are you there?", channel="lab", key="first")
        await sender.send(thread.id, "Are you there?", channel="lab", key="first")
        await stage.turn(thread)
        await sent_mail(thread, "one", "two")
        await stage.turn(thread, "Three.")


async def retried_after_a_broken_stream(stage: Stage) -> None:
    """Answers that fail, break off and come whole at last."""
    model = stage.model(
        says("", error=BUSY),
        says("never heard whole", cut=Break(events=2)),
        says("Whole.", call("weigh", what="a"), cut=Break(events=4)),
        says("", call("weigh", what="b")),
        says("Done."),
    )
    async with stage.thread(model, tools=(weigh,), retries=4) as thread:
        await stage.turn(thread, "Try.")


async def failed_turn_and_unanswered_input(stage: Stage) -> None:
    """A turn that gets no answer, and how the next one tells of it."""
    model = stage.model(says("", error=BUSY, times=3), says("Back."), says("On."))
    async with stage.thread(model, retries=2) as thread:
        await stage.turn(thread, "Anyone?")
        await stage.turn(thread, "And now?")
        await stage.turn(thread, "Good.")


async def answers_cut_by_a_limit(stage: Stage) -> None:
    """An answer that stops at its limit, and one that a filter stopped."""
    model = stage.model(says("Half an", stop="length"), says("No", stop="filter"), says("Whole."))
    async with stage.thread(model) as thread:
        await stage.turn(thread, "Long?")
        await stage.turn(thread, "Bad?")
        await stage.turn(thread, "Fine?")


async def opened_again(stage: Stage) -> None:
    """A thread that is opened three times, the last time with other tools."""
    name = None
    for number, tools in enumerate(((weigh,), (weigh,), (weigh, look))):
        model = stage.model(says("", call("weigh", what=str(number))), says(f"Answer {number}."))
        async with stage.thread(model, name, tools=tools, title="Weighing") as thread:
            name = thread.id
            await stage.turn(thread, f"Question {number}.")


async def the_same_turn_twice(stage: Stage) -> None:
    """A turn that is asked for twice by its name runs once."""
    model = stage.model(says("Once."), says("More."))
    async with stage.thread(model) as thread:
        await stage.turn(thread, "Do it.", turn_id="turn_mine")
        await stage.turn(thread, "Do it.", turn_id="turn_mine")
        await stage.turn(thread, "Go on.")
