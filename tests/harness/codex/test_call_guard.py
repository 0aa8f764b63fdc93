from __future__ import annotations

import asyncio
import json

from msgspec import Raw

from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.events import NoticeRaised, ToolFinished, ToolStarted
from treadle.hooks import HookAnswer, Hooks
from treadle.hooks.payloads import AfterToolCall, BeforeToolCall, ToolResultReady
from treadle.testing.appserver import AppScript, AppStep, TurnScript
from treadle.testing.script import Answer, Call

from .scenes import Stage, hear, last, of, open_stage, request_items, use_scripted_server

CODE_MODE = "openai:gpt-6.1-sol"


def patch(name: str) -> str:
    return f"*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch"


def run(cmd: str, call_id: str, **more: object) -> Answer:
    return Answer(calls=(Call(name="exec_command", arguments={"cmd": cmd, **more}, id=call_id),))


class Guard:
    """Hooks that block what is forbidden, and note what they are told."""

    def __init__(self) -> None:
        self.hooks = Hooks()
        self.asked: list[BeforeToolCall] = []
        self.ended: list[AfterToolCall] = []
        self.hooks.on(BeforeToolCall, self.before)
        self.hooks.on(ToolResultReady, self.result)
        self.hooks.on(AfterToolCall, self.after)

    async def before(self, event: BeforeToolCall) -> HookAnswer | None:
        self.asked.append(event)
        if "forbidden" in event.arguments:
            return HookAnswer(block="that is forbidden")
        if "touch old.txt" in event.arguments:
            return HookAnswer(parameters={"cmd": Raw(b'"touch new.txt"')})
        if "odd" in event.arguments:
            return HookAnswer(parameters={"workdir": Raw(b'"/"')})
        return None

    async def result(self, event: ToolResultReady) -> HookAnswer | None:
        return HookAnswer(output="(withheld)") if "password" in event.output else None

    async def after(self, event: AfterToolCall) -> None:
        self.ended.append(event)


def outputs(stage: Stage) -> list[str]:
    return [str(item["output"]) for item in request_items(stage.requests[-1]) if "output" in item]


def files(stage: Stage) -> list[str]:
    return sorted(each.name for each in (stage.place / "project").iterdir())


async def test_hooks_decide_about_the_commands_and_patches_of_codex_itself(tmp_path):
    guard = Guard()
    answers = (
        run("touch forbidden.txt", "c1", workdir="/tmp"),
        Answer(calls=(Call(name="apply_patch", input=patch("forbidden.txt"), id="c2"),)),
        run(f"apply_patch <<'EOF'\n{patch('forbidden.txt')}\nEOF\n", "c3"),
        run("touch old.txt", "c4"),
        run("touch odd.txt", "c5"),
        run("echo the password", "c6"),
        Answer(calls=(Call(name="apply_patch", input=patch("fine.txt"), id="c7"),)),
        run("exit 3", "c8"),
    )
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(hooks=guard.hooks) as thread,
    ):
        events = await hear(thread, "go")
        (notice,) = of(events, NoticeRaised)
        assert "types into a running command" in notice.text
        assert files(stage) == ["fine.txt", "new.txt"]
        blocked = "Command blocked by PreToolUse hook: that is forbidden. "
        said = outputs(stage)
        assert [text.startswith(blocked) for text in said] == [True] * 3 + [False] * 5
        assert "'workdir'" in said[4]
        assert said[5] == "(withheld)"
        statuses = {each.call_id: (each.tool, each.status, each.output) for each in guard.ended}
        assert statuses["c1"] == ("exec_command", "blocked", "that is forbidden")
        assert statuses["c2"] == ("apply_patch", "blocked", "that is forbidden")
        assert statuses["c4"][:2] == ("exec_command", "ok")
        assert statuses["c6"] == ("exec_command", "ok", "(withheld)")
        assert statuses["c7"][:2] == ("apply_patch", "ok")
        assert statuses["c8"][:2] == ("exec_command", "error")
        first = guard.asked[0]
        assert (first.tool, first.call_id) == ("exec_command", "c1")
        assert json.loads(first.arguments) == {"cmd": "touch forbidden.txt", "workdir": "/tmp"}
        assert [each.call_id for each in of(events, ToolStarted)] == [f"c{n}" for n in range(1, 9)]
        failed = [each.call_id for each in of(events, ToolFinished) if not each.success]
        assert failed == ["c1", "c2", "c3", "c5", "c8"]


async def test_hooks_decide_about_the_calls_of_a_script_of_the_model(tmp_path):
    guard = Guard()
    script = (
        "await tools.exec_command({cmd:'touch fine.txt'});"
        "await tools.exec_command({cmd:'touch forbidden.txt'});"
    )
    answer = Answer(calls=(Call(name="exec", input=script, id="c1"),))
    async with (
        open_stage(tmp_path, answer) as stage,
        stage.thread(hooks=guard.hooks, model=CODE_MODE) as thread,
    ):
        await hear(thread, "go")
        assert files(stage) == ["fine.txt"]
        assert "that is forbidden" in outputs(stage)[0]
        assert [(each.tool, each.status) for each in guard.ended] == [
            ("exec_command", "ok"),
            ("exec_command", "blocked"),
        ]


async def test_hooks_judge_the_command_that_runs_though_its_id_was_used_before(tmp_path):
    answers = (run("touch fine.txt", "c1"), run("touch forbidden.txt", "c1"))
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(hooks=Guard().hooks) as thread,
    ):
        await hear(thread, "go")
        assert files(stage) == ["fine.txt"]


async def test_without_a_hook_for_its_tools_codex_gets_no_hooks(tmp_path):
    ended: list[str] = []
    hooks = Hooks()

    async def other(event: BeforeToolCall) -> None:
        raise AssertionError(event)

    async def after(event: AfterToolCall) -> None:
        ended.append(event.tool)

    hooks.on(BeforeToolCall, other, tools=("mail",))
    hooks.on(AfterToolCall, after)
    async with (
        open_stage(tmp_path, run("true", "c1")) as stage,
        stage.thread(hooks=hooks) as thread,
    ):
        await hear(thread, "go")
        assert ended == ["exec_command"]
        assert stage.harness.threads.hook_server.is_listening is False


async def test_a_turn_that_is_interrupted_while_a_hook_decides_runs_nothing(tmp_path):
    deciding = asyncio.Event()
    hooks = Hooks()

    async def decide(_: BeforeToolCall) -> None:
        deciding.set()
        await asyncio.Event().wait()

    hooks.on(BeforeToolCall, decide, tools=("exec_command",))
    async with (
        open_stage(tmp_path, run("touch late.txt", "c1")) as stage,
        stage.thread(hooks=hooks) as thread,
    ):
        turn = asyncio.create_task(hear(thread, "go"))
        await deciding.wait()
        thread.interrupt()
        assert last(await turn).status == "interrupted"
        assert files(stage) == []
        assert last(await hear(thread, "again")).status == "completed"
        assert files(stage) == []


UNASKED = AppStep(
    notify="item/started",
    params={
        "item": {"type": "commandExecution", "id": "c1", "command": "touch x", "cwd": "/"},
        "startedAtMs": 1,
    },
)


async def test_a_codex_that_does_not_ask_hooks_runs_no_turn_unless_the_user_allows_it(tmp_path):
    script = AppScript(turns=(TurnScript(steps=(UNASKED, AppStep(wait=True))),))
    async with open_stage(tmp_path / "refused") as stage:
        await use_scripted_server(stage, script)
        async with stage.thread(hooks=Guard().hooks) as thread:
            end = last(await hear(thread, "go"))
            assert end.status == "failed"
            assert end.error is not None
            assert "does not run the hooks" in end.error
            assert "unguarded = true" in end.error
    script = AppScript(turns=(TurnScript(steps=(UNASKED, AppStep(text="done"))),))
    async with open_stage(tmp_path / "allowed", options=CodexOptions(unguarded=True)) as stage:
        await use_scripted_server(stage, script)
        async with stage.thread(hooks=Guard().hooks) as thread:
            events = await hear(thread, "go")
            assert last(events).status == "completed"
            assert any("does not run the hooks" in each.text for each in of(events, NoticeRaised))


async def test_what_codex_types_into_a_command_against_a_hook_ends_command_and_turn(tmp_path):
    guard = Guard()
    typed = AppStep(
        notify="item/commandExecution/terminalInteraction",
        params={"itemId": "c1", "processId": "7", "stdin": "forbidden\n"},
    )
    script = AppScript(turns=(TurnScript(steps=(typed, AppStep(wait=True))),))
    async with open_stage(tmp_path) as stage:
        await use_scripted_server(stage, script)
        async with stage.thread(hooks=guard.hooks) as thread:
            end = last(await hear(thread, "go"))
            assert end.status == "failed"
            assert "typed into a running command" in (end.error or "")
            assert [(each.tool, each.status) for each in guard.ended] == [
                ("write_stdin", "blocked")
            ]
