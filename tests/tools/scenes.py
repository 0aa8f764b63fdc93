from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treadle.core.errors import NotFound
from treadle.core.items import FunctionCall, text_of
from treadle.core.specs import spec_name
from treadle.sandbox.approvals import ApprovalPolicy, Approvals, Ask, Decision, No
from treadle.sandbox.policy import SandboxMode, SandboxPolicy
from treadle.tools.contract import (
    AskQuestions,
    Blobs,
    Progress,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
)
from treadle.tools.dispatch import call_of
from treadle.tools.executor import Bounds, ToolExecutor

CHUNK = re.compile(r"Chunk ID: [0-9a-f]{6}\n")
HANDLE = re.compile(r"sha256:[0-9a-f]{64}")
WALL = re.compile(r"Wall time: \d+\.\d+ seconds")
WORKSPACE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
GATED = "until [ -e go ]; do sleep 0.01; done"
"""What a command waits with until `Scene.open_gate`."""
DURATION = re.compile(r'"duration_seconds":\d+\.\d')


@dataclass
class MemoryBlobs:
    blobs: dict[str, bytes] = field(default_factory=dict)

    async def put(self, data: bytes) -> str:
        handle = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[handle] = data
        return handle

    async def get(self, handle: str) -> bytes:
        if handle not in self.blobs:
            raise NotFound("blob", handle)
        return self.blobs[handle]


@dataclass
class Host:
    """Answers approvals in order; what is not expected is refused."""

    answers: list[Decision] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    shown: list[Progress] = field(default_factory=list)

    async def ask(self, ask: Ask) -> Decision:
        self.asked.append(ask)
        return self.answers.pop(0) if self.answers else No("nobody expected this")


@dataclass
class Scene:
    executor: ToolExecutor
    cwd: Path
    home: Path
    host: Host = field(default_factory=Host)
    blobs: Blobs = field(default_factory=MemoryBlobs)
    approvals: Approvals | None = None
    policy: SandboxPolicy = WORKSPACE
    approval: ApprovalPolicy = "on-request"
    ask_questions: AskQuestions | None = None
    tools: tuple[Tool, ...] = ()

    def but(self, **changes: Any) -> Scene:
        return replace(self, **changes)

    def in_mode(self, mode: SandboxMode) -> Scene:
        return self.but(policy=SandboxPolicy(mode=mode, exclude_slash_tmp=True))

    def open_gate(self) -> None:
        """Let commands go on that are waiting at the gate."""
        (self.cwd / "go").touch()

    @property
    def bounds(self) -> Bounds:
        return Bounds(policy=self.policy, workspace=self.cwd)

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            thread="thr_1",
            cwd=self.cwd,
            policy=self.policy,
            approval=self.approval,
            approvals=self.approvals or Approvals(self.home),
            executor=self.executor,
            blobs=self.blobs,
            ask_approval=self.host.ask,
            show_progress=self.host.shown.append,
            ask_questions=self.ask_questions,
        )

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        return await self.raw(name, json.dumps(arguments))

    async def raw(self, name: str, arguments: str) -> ToolResult:
        tool = next(tool for tool in self.tools if spec_name(tool.spec) == name)
        return await tool.run(function_call(name, arguments), self.context)

    async def text(self, name: str, **arguments: Any) -> str:
        return model_text(await self.call(name, **arguments))


def function_call(name: str, arguments: str, call_id: str = "c1") -> ToolCall:
    return call_of(FunctionCall(name=name, arguments=arguments, call_id=call_id))


def model_text(result: ToolResult) -> str:
    """What the model reads, without what differs from run to run."""
    text = text_of(result.output)
    text = HANDLE.sub("sha256:···", text)
    text = CHUNK.sub("Chunk ID: ······\n", text)
    text = DURATION.sub('"duration_seconds":·', text)
    return WALL.sub("Wall time: · seconds", text)


def nap(seconds: int) -> str:
    """About so many seconds for `sleep`, as no other test process writes them."""
    return f"{seconds}.{os.getpid()}"


def marked_processes(mark: str) -> list[int]:
    """Processes whose environment or command line names `mark`."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            seen = Path(entry.path, "environ").read_bytes()
            seen += Path(entry.path, "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in seen:
            found.append(int(entry.name))
    return found


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")
