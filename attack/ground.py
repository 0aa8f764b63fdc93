"""The ground: a user with secrets, a home of Treadle and a workspace, made for one attempt.

Owns the directories, the environment and the ways to drive Treadle there. Invariant: everything
lies below `top`, and the only network is the loopback interface. A weak ground has something
that an area leaves open on purpose, to show that its attempts can get through.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle import Rights, Thread
from treadle.harness.events import (
    ApprovalRequested,
    Event,
    ItemCompleted,
    NoticeRaised,
    TurnCompleted,
)
from treadle.sandbox.approvals import Ask, Decision, No
from treadle.sandbox.policy import SandboxMode, SandboxPolicy
from treadle.testing.script import Answer, Call, Script
from treadle.testing.scripted import ScriptedModel
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.local import LocalExecutor

__all__ = ["SECRET", "Ground", "Heard", "Ran", "command", "executable"]

SECRET = "SECRET-of-the-user-41f7"
"""Stands in every file and variable that a model must not read."""
SEARCH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_VICTIM = "untouched"


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a command."""

    code: int
    output: str


@dataclass(slots=True)
class Heard:
    """What a conversation came to."""

    thread: str = ""
    events: list[Event] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of all requests."""

    @property
    def ends(self) -> list[TurnCompleted]:
        """Return how its turns ended."""
        return [event for event in self.events if isinstance(event, TurnCompleted)]

    @property
    def outputs(self) -> list[str]:
        """Return the results of its calls, as the model reads them."""
        items = [json.loads(bytes(e.item)) for e in self.events if isinstance(e, ItemCompleted)]
        return [json.dumps(item["output"]) for item in items if "output" in item]

    @property
    def notices(self) -> list[str]:
        """Return what the user was told."""
        return [event.text for event in self.events if isinstance(event, NoticeRaised)]

    @property
    def sent_text(self) -> str:
        """Return everything that the provider received."""
        return json.dumps(self.sent, ensure_ascii=False)


@dataclass(slots=True)
class Ground:
    """Where an attempt takes place."""

    top: Path
    search: str = SEARCH
    """Where programs are found, `bwrap` among them."""
    python: str = "/usr/bin/python3"
    """A Python that commands can start, whoever runs them."""
    weak: bool = False

    @property
    def workspace(self) -> Path:
        """Return the project."""
        return self.top / "workspace"

    @property
    def home(self) -> Path:
        """Return Treadle's home."""
        return self.top / "home"

    @property
    def user(self) -> Path:
        """Return the user's home."""
        return self.top / "user"

    @property
    def outside(self) -> Path:
        """Return a directory that commands may read, and not write."""
        return self.top / "outside"

    @property
    def victim(self) -> Path:
        """Return a file that nobody may change."""
        return self.outside / "victim"

    @property
    def proof(self) -> Path:
        """Return a file that only exists when something ran where it must not."""
        return self.outside / "proof"

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Return files that no model may read."""
        return (self.user / ".ssh" / "id_rsa", self.user / ".npmrc", self.home / "auth.json")

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment that Treadle runs in."""
        return {
            "PATH": self.search,
            "HOME": str(self.user),
            "TMPDIR": str(self.top / "temporary"),
            "TREADLE_HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
            "WS": str(self.workspace),
            "OUT": str(self.outside),
            "PROOF": str(self.proof),
            "PYTHON": self.python,
        }

    def settle(self) -> None:
        """Make the directories, and what can be stolen or broken in them."""
        for name in ("workspace", "outside", "user", "temporary"):
            (self.top / name).mkdir()
        self.home.mkdir(mode=0o700)
        self.victim.write_text(_VICTIM)
        self.describe_model()
        for each in self.secrets:
            each.parent.mkdir(exist_ok=True)
            each.write_text(json.dumps({"nothing": SECRET}))
            each.chmod(0o600)

    def describe_model(self, *facts: str) -> None:
        """Say what the scripted model can do, as lines of the catalog."""
        lines = ("[models.script]", "images = true", "apply_patch = 'freeform'", *facts)
        (self.home / "models.toml").write_text("\n".join(lines))

    def policy(self, mode: SandboxMode = "workspace-write", **changes: Any) -> SandboxPolicy:
        """Return a policy; where the ground is weak, one that confines nothing."""
        chosen: SandboxMode = "danger-full-access" if self.weak else mode
        return SandboxPolicy(mode=chosen, exclude_slash_tmp=True, **changes)

    async def run(
        self, script: str, *arguments: str, policy: SandboxPolicy | None = None, **options: Any
    ) -> Ran:
        """Run a script as a command of a model: by bash, or by Python with a hash-bang of it."""
        executor = LocalExecutor(home=self.home, environ=self.environ, **options)
        interpreter = self.python if script.startswith("#!python") else "bash"
        argv = (interpreter, "-c", script, *(("sh", *arguments) if arguments else ()))
        bounds = Bounds(policy=policy or self.policy(), workspace=self.workspace)
        spec = ProcessSpec(argv=argv, cwd=self.workspace, bounds=bounds, thread="thr_attack")
        try:
            process = await executor.start(spec)
            output = b"".join([data async for data in process.output()])
            return Ran(await process.wait(), output.decode(errors="replace"))
        finally:
            await executor.close()

    @asynccontextmanager
    async def open(
        self, model: Any, thread: str | None = None, **options: Any
    ) -> AsyncIterator[Thread]:
        """Open a thread in the workspace; options are flat."""
        given = {"sandbox": "workspace-write", "approval": "never"} | options
        async with Thread.open(
            thread, **open_keywords(model=model, home=self.home, cwd=self.workspace, **given)
        ) as opened:
            yield opened

    async def converse(
        self,
        answers: Sequence[Answer],
        *said: Any,
        decide: Callable[[Ask], Decision] | None = None,
        thread: str | None = None,
        **options: Any,
    ) -> Heard:
        """Have a scripted model give `answers` to what is said, in one turn for each."""
        model = ScriptedModel(Script(answers=tuple(answers)))
        heard = Heard()
        try:
            async with self.open(model, thread, **options) as opened:
                heard.thread = opened.id
                for words in said or ("go",):
                    parts = words if isinstance(words, tuple) else (words,)
                    await listen(opened, heard, *parts, decide=decide)
        finally:
            heard.sent = [json.loads(request.body) for request in model.requests]
            await model.close()
        return heard

    async def call(self, *calls: Call, **options: Any) -> Heard:
        """Have a scripted model make some calls, one after the other."""
        answers = [*(Answer(calls=(each,)) for each in calls), Answer(text="done")]
        return await self.converse(answers, "go", **options)

    def check_victim(self) -> str:
        """Return what was done outside, if anything."""
        if not self.victim.exists():
            return "the file outside is gone"
        text = self.victim.read_text(errors="replace")
        others = sorted(each.name for each in self.outside.iterdir() if each != self.victim)
        if text != _VICTIM:
            return f"the file outside says {text!r}"
        return f"there is {others} outside" if others else ""

    def rights(self, **changes: Any) -> Rights:
        """Return rights of a thread."""
        return Rights(**({"sandbox": "workspace-write", "approval": "never"} | changes))


async def listen(
    thread: Thread,
    heard: Heard,
    *said: Any,
    decide: Callable[[Ask], Decision] | None = None,
    **options: Any,
) -> None:
    """Run a turn and remember what happens; nobody approves what `decide` does not."""
    async for event in thread.run(*said, **options):
        heard.events.append(event)
        if isinstance(event, ApprovalRequested):
            heard.asked.append(event.call)
            thread.answer(event.id, decide(event.call) if decide else No("nobody is here"))


def command(script: str, **arguments: Any) -> Call:
    """Return a call of a model that runs a command."""
    return Call(name="exec_command", arguments={"cmd": script, "login": False, **arguments})


def executable(file: Path, script: str) -> Path:
    """Write a program."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file
