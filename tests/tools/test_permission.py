from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from treadle.sandbox.approvals import (
    ApprovalPolicy,
    Approvals,
    Ask,
    Decision,
    ForPrefix,
    ForThread,
    No,
    NoAndStop,
    Once,
)
from treadle.sandbox.policy import SandboxMode
from treadle.tools.contract import ToolResult
from treadle.tools.local.local_executor import LocalExecutor

from .scenes import Scene, model_text

ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I?"}


@pytest.fixture
def own(scene: Scene, tmp_path: Path) -> Scene:
    home = tmp_path / "home"
    home.mkdir()
    return scene.but(home=home)


@dataclass(frozen=True)
class Case:
    approval: ApprovalPolicy
    mode: SandboxMode
    command: str
    escalated: bool = False
    answer: Decision | None = None
    """None: nobody must be asked."""
    runs: bool = True
    outside: bool = False

    def __str__(self) -> str:
        parts = (self.approval, self.mode, self.command, "escalated" if self.escalated else "")
        return " ".join((*parts, type(self.answer).__name__))


WRITE = "touch ../outside || true"
CASES = [
    Case("never", "workspace-write", WRITE),
    Case("never", "workspace-write", "rm -f file", runs=False),
    Case("never", "workspace-write", WRITE, escalated=True, runs=False),
    Case("never", "danger-full-access", WRITE, outside=True),
    Case("on-request", "workspace-write", WRITE),
    Case("on-request", "workspace-write", WRITE, escalated=True, answer=Once(), outside=True),
    Case("on-request", "workspace-write", WRITE, escalated=True, answer=No(), runs=False),
    Case("on-request", "workspace-write", WRITE, escalated=True, answer=NoAndStop(), runs=False),
    Case("on-request", "workspace-write", "rm -f file", answer=Once()),
    Case("on-request", "danger-full-access", WRITE, outside=True),
    Case("untrusted", "workspace-write", "cat file"),
    Case("untrusted", "workspace-write", WRITE, answer=Once()),
    Case("untrusted", "workspace-write", WRITE, answer=No("not now"), runs=False),
    Case("untrusted", "workspace-write", WRITE, escalated=True, answer=Once(), outside=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_who_is_asked_and_where_a_command_runs(own: Scene, case: Case):
    (own.cwd / "file").touch()
    scene = own.in_mode(case.mode).but(approval=case.approval)
    scene.host.answers = [case.answer] if case.answer else []
    result = await scene.call(
        "exec_command", cmd=f"{case.command}", **(ESCALATED if case.escalated else {})
    )
    assert len(scene.host.asked) == (case.answer is not None)
    assert [ask.outside for ask in scene.host.asked] == [case.escalated] * len(scene.host.asked)
    assert ("Process exited with code 0" in model_text(result)) == case.runs
    assert (own.cwd.parent / "outside").exists() == case.outside
    assert result.stop == (case.answer == NoAndStop())


async def test_a_question_carries_the_justification(own: Scene):
    own.host.answers = [Once()]
    await own.call("exec_command", cmd="touch made", **ESCALATED, prefix_rule=["touch"])
    argv = ("bash", "-lc", "touch made")
    assert own.host.asked == [
        Ask(
            argv=argv,
            cwd=str(own.cwd),
            reason="the model says: May I?",
            outside=True,
        )
    ]


async def test_a_refusal_tells_the_model_why(own: Scene):
    own.host.answers = [No("use the cache instead")]
    assert await own.call("exec_command", cmd="make", **ESCALATED) == ToolResult(
        "exec_command failed: rejected by user: use the cache instead", success=False
    )


async def test_a_yes_for_the_thread_holds_for_the_same_command(own: Scene):
    approvals = Approvals(own.home)
    scene = own.but(approval="untrusted", approvals=approvals)
    scene.host.answers = [ForThread()]
    for _ in range(2):
        assert (await scene.call("exec_command", cmd="touch made")).success
    assert len(scene.host.asked) == 1
    await scene.call("exec_command", cmd="touch other")
    assert len(scene.host.asked) == 2


async def test_a_prefix_is_remembered_for_good(own: Scene):
    scene = own.but(approval="untrusted")
    scene.host.answers = [ForPrefix(("touch", "made"))]
    for _ in range(2):
        assert (await scene.call("exec_command", cmd="touch made")).success
    assert len(scene.host.asked) == 1
    rules = json.loads((own.home / "rules.json").read_text())
    assert rules["prefixes"] == [
        {"prefix": ["touch", "made"], "outside": False, "directory": str(own.cwd)}
    ]


async def test_a_prefix_that_is_too_broad_counts_once(own: Scene):
    scene = own.but(approval="untrusted")
    scene.host.answers = [ForPrefix(("bash",))]
    assert (await scene.call("exec_command", cmd="touch made")).success
    assert not (own.home / "rules.json").exists()
    await scene.call("exec_command", cmd="touch made")
    assert len(scene.host.asked) == 2


async def test_what_the_sandbox_stopped_goes_back_to_the_model_on_request(own: Scene):
    text = await own.text("exec_command", cmd="touch ../outside")
    assert "Process exited with code 1" in text
    assert "Read-only file system" in text
    assert own.host.asked == []


async def test_what_the_sandbox_stopped_may_be_let_out_when_untrusted(own: Scene):
    scene = own.but(approval="untrusted")
    scene.host.answers = [Once(), Once()]
    text = await scene.text("exec_command", cmd="touch ../outside")
    assert "Process exited with code 0" in text
    assert [ask.outside for ask in scene.host.asked] == [False, True]
    assert (own.cwd.parent / "outside").exists()


@pytest.mark.parametrize("answer", [No(), NoAndStop()])
async def test_what_is_not_let_out_keeps_its_own_result(own: Scene, answer: Decision):
    scene = own.but(approval="untrusted")
    scene.host.answers = [Once(), answer]
    result = await scene.call("exec_command", cmd="touch ../outside")
    assert "Read-only file system" in model_text(result)
    assert result.stop == (answer == NoAndStop())
    assert not (own.cwd.parent / "outside").exists()


def patch(path: str) -> str:
    return f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"


@dataclass(frozen=True)
class PatchCase:
    approval: ApprovalPolicy
    path: str
    answers: tuple[Decision, ...] = ()
    said: str = ""
    """What a refusal says; empty when the patch is applied."""


OUTSIDE = "patch rejected: it writes outside the writable roots"
PATCHES = [
    PatchCase("never", "in.txt"),
    PatchCase("never", "../out.txt", said=OUTSIDE),
    PatchCase("on-request", "in.txt"),
    PatchCase("on-request", "../out.txt", (Once(),)),
    PatchCase("on-request", "../out.txt", (No(),), "patch rejected by user"),
    PatchCase("on-request", "../out.txt", (NoAndStop(),), "patch rejected by user"),
    PatchCase("untrusted", "in.txt", (Once(),)),
    PatchCase("untrusted", "in.txt", (No("no"),), "patch rejected by user: no"),
    PatchCase("untrusted", "../out.txt", (Once(), Once())),
    PatchCase("untrusted", "../out.txt", (Once(), No()), "patch rejected by user"),
]


@pytest.mark.parametrize("case", PATCHES, ids=str)
async def test_who_is_asked_before_a_patch(own: Scene, case: PatchCase):
    scene = own.but(approval=case.approval)
    scene.host.answers = list(case.answers)
    result = await scene.raw("apply_patch", patch(case.path))
    assert len(scene.host.asked) == len(case.answers)
    assert (own.cwd / case.path).exists() == result.success == (not case.said)
    assert result.stop == (NoAndStop() in case.answers)
    assert model_text(result) == (
        case.said
        or "Exit code: 0\nWall time: · seconds\nOutput:\n"
        f"Success. Updated the following files:\nA {case.path}\n"
    )


def executable(file: Path, text: str) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


async def test_a_program_that_is_called_bash_is_asked_about(own: Scene):
    evil = executable(own.cwd / "evil" / "bash", "touch made")
    scene = own.but(approval="untrusted")
    for shell in (evil, "evil/bash", "./evil/bash"):
        await scene.call("exec_command", cmd="ls", shell=shell)
    assert len(scene.host.asked) == 3
    assert not (own.cwd / "made").exists()
    assert "made" not in await scene.text("exec_command", cmd="ls")
    assert len(scene.host.asked) == 3


async def test_a_program_that_is_called_bash_has_no_part_in_a_rule(own: Scene):
    evil = executable(own.cwd / "evil" / "bash", "touch ../outside")
    own.host.answers = [ForPrefix(("docker", "pull"))]
    asked_for = {"cmd": "docker pull x", "prefix_rule": ["docker", "pull"]}
    await own.call("exec_command", **asked_for, **ESCALATED)
    assert (own.home / "rules.json").exists()
    await own.call("exec_command", cmd="docker pull x", shell=evil)
    await own.call("exec_command", cmd="docker pull x", shell=evil, **ESCALATED)
    assert len(own.host.asked) == 2
    assert not (own.cwd.parent / "outside").exists()


async def test_a_program_on_the_search_path_that_commands_can_write_only_looks_like_ls(
    own: Scene,
):
    executable(own.cwd / "bin" / "ls", "touch made")
    executable(own.cwd / "bin" / "bash", "touch made")
    environ = {**os.environ, "PATH": f"{own.cwd}/bin:/usr/bin:/bin"}
    executor = LocalExecutor(home=own.home, environ=environ)
    scene = own.but(approval="untrusted", executor=executor)
    await scene.call("exec_command", cmd="ls", login=False)
    assert len(scene.host.asked) == 1
    assert "Process exited with code 0" in await scene.text("exec_command", cmd="pwd", login=False)
    assert not (own.cwd / "made").exists()
    await executor.close()


async def test_a_rule_for_git_does_not_reach_a_repository_that_commands_made(own: Scene):
    def git(*arguments: str, cwd: Path = own.cwd) -> None:
        subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True)

    git("init", "-q")
    git("remote", "add", "origin", "ssh://127.0.0.1:1/x")
    own.host.answers = [ForPrefix(("git", "fetch"))]
    asked_for = {"cmd": "git fetch", "prefix_rule": ["git", "fetch"], "login": False}
    await own.call("exec_command", **asked_for, **ESCALATED)
    assert own.host.asked[0].prefix == ("git", "fetch")
    nested = own.cwd / "nested"
    nested.mkdir()
    git("init", "-q", cwd=nested)
    git("remote", "add", "origin", "ssh://x/y", cwd=nested)
    git("config", "core.sshCommand", f"touch {own.cwd.parent / 'outside'};", cwd=nested)
    await own.call("exec_command", cmd="git fetch", workdir="nested", login=False)
    await own.call("exec_command", cmd="git fetch", workdir="nested", login=False, **ESCALATED)
    await own.call("exec_command", cmd="git fetch nested", login=False, **ESCALATED)
    assert not (own.cwd.parent / "outside").exists()
    assert len(own.host.asked) == 3
