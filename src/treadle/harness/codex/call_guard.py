"""The guard of a turn: the calls of Codex's own tools meet the hooks of Treadle.

Owns one `CodexCall` for each call that a hook wants to see. To `CallRun` it is a tool, whose run
lasts from Codex's question to the end that Codex reports: so the hooks around it, their order and
their failures are those of every other call. Invariant: a watched call that has started without
a question is a breach, which ends the turn.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    decode_item,
    text_of,
)
from ...core.specs import FunctionTool, ToolSpec, parameters
from ...core.typed import decode_json
from ...core.wire import UNREADABLE
from ...tools.call import CallRun
from ...tools.contract import ToolCall, ToolContext, ToolResult
from ...tools.dispatch import call_of
from ..contract import TurnRun
from ..event_stream import SHOWN_OUTPUT
from ..events import ToolFinished, ToolStarted
from .hook_config import CODEX_TOOLS, TYPING, WatchedTools
from .hook_server import HookEvent, deny

__all__ = ["CallGuard", "CodexCall"]

_OF_SCRIPT = "exec-"
"""The beginning of the ids of calls that a script of the model makes; the log has none of them."""
_ITEM_SECONDS = 2.0
"""How long the item of a call may come after Codex's question about it."""
_END_SECONDS = 5.0
"""How long the end of a call may come after its result."""
_PATCH = re.compile(r"\*\*\* Begin Patch.*\*\*\* End Patch", re.DOTALL)
_SERVER_TOOL = re.compile(r"mcp__(.+?)__(.+)")
_EMPTY = "(no output)"


@dataclass(slots=True, eq=False)
class CodexCall:
    """One call of a tool of Codex's own."""

    call: ToolCall
    allowed: asyncio.Future[dict[str, Any] | None] = field(init=False)
    """Set when hooks let it run: with the input in place of its own, if they changed it."""
    ended: asyncio.Future[ToolResult] = field(init=False)
    task: asyncio.Task[ToolResult] = field(init=False)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.allowed, self.ended = loop.create_future(), loop.create_future()

    @property
    def spec(self) -> ToolSpec:
        """Return a specification that no model gets: Codex has its own."""
        return FunctionTool(name=self.call.name, description="", parameters=parameters({}))

    @property
    def parallel(self) -> bool:
        """Return True: Codex decides what runs beside it."""
        return True

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Let Codex run the call, and wait for its end."""
        del context
        try:
            changed = _changed_input(self.call, call)
        except ValueError as error:
            return ToolResult(f"{call.name} was not run: {error}", success=False)
        self.allowed.set_result(changed)
        return await self.ended

    def start(self, context: ToolContext, run: TurnRun) -> None:
        """Begin to ask the hooks."""
        work = CallRun(self, self.call, context, run.hooks, began=time.monotonic()).run()
        self.task = asyncio.create_task(work, name=f"hooks around {self.call.name}")

    async def wait_for_decision(self) -> None:
        """Wait until hooks let it run, or have kept it from that."""
        waiting: set[asyncio.Future[Any]] = {self.allowed, self.task}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    def finish(self, result: ToolResult) -> None:
        """Note how it ended; the first report counts."""
        if not self.ended.done():
            self.ended.set_result(result)


@dataclass(slots=True)
class CallGuard:
    """Asks the hooks of a thread about the calls of Codex's own tools in one turn."""

    run: TurnRun
    watched: WatchedTools
    breach: str = ""
    """Why the turn cannot go on; empty while every watched call was asked about."""
    _calls: dict[str, CodexCall] = field(default_factory=dict)
    _items: dict[str, asyncio.Future[ToolCall]] = field(default_factory=dict)
    """The calls in the model's answers, by id."""

    async def ask(self, event: HookEvent) -> dict[str, Any]:
        """Return whether the call of `event` may run."""
        call = await self._call_of(event)
        if (reason := await self._ask_about_patch(call)) is not None:
            return deny(reason)
        made = self._begin(call)
        await made.wait_for_decision()
        if made.allowed.done():
            return _allow(made.allowed.result())
        if made.task.cancelled():
            return deny("the turn has ended")
        self._report_denied(call, made.task.result())
        return deny(text_of(made.task.result().output) or "a hook blocked it")

    async def replace_output(self, event: HookEvent) -> dict[str, Any]:
        """Return the output that hooks put in place of the one in `event`, if they did."""
        made = self._calls.get(event.tool_use_id)
        if made is None:
            made = self._begin(await self._call_of(event))
        try:
            async with asyncio.timeout(_END_SECONDS):
                await asyncio.shield(made.ended)
        except TimeoutError:
            made.finish(ToolResult(_response_text(event.tool_response)))
        result = await asyncio.shield(made.task)
        if result.output == made.ended.result().output:
            return {}
        return {"decision": "block", "reason": text_of(result.output) or _EMPTY}

    def check_asked(self, *, asks_hooks: bool) -> None:
        """Note a breach if Codex has begun to work without running the hook that shows it asks."""
        if self.watched.before and not asks_hooks:
            self.breach = self.breach or (
                "this Codex does not run the hooks that guard its own commands and patches"
            )

    def disarm(self) -> None:
        """Let everything run that was not asked about."""
        self.breach = ""
        self.watched = replace(self.watched, before=(), typing=False)

    def note_item(self, item: Item) -> None:
        """Note a call in an answer of the model, with all its arguments."""
        if self.watched.is_asked and isinstance(item, FunctionCall | CustomToolCall):
            call = call_of(item)
            given = self._item(call.call_id)
            if not given.done():
                given.set_result(call)

    def note_output(self, raw: Raw) -> None:
        """Note the output of a call: one whose command goes on has ended for the model."""
        if not self._calls:
            return
        item = decode_item(raw)
        if isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            self.finish(item.call_id or "", text_of(item.output), success=True)

    def start(self, call_id: str, name: str, arguments: str) -> None:
        """Note that Codex has started a call."""
        if call_id in self._calls:
            return
        if _is_watched(name, self.watched.before):
            self.breach = self.breach or (
                f"Codex ran {name!r} without asking the hook that guards it"
            )
        elif name in self.watched.reported or _is_watched(name, self.watched.result):
            self._begin(_new_call(call_id, name, arguments))

    def finish(self, call_id: str, output: str, *, success: bool) -> None:
        """Note that a call has ended."""
        if (made := self._calls.get(call_id)) is not None:
            made.finish(ToolResult(output, success=success))

    async def check_typing(self, command_id: str, process_id: str, text: str) -> None:
        """Ask the hooks about text that Codex has typed into a command; a block is a breach."""
        if not text or not (self.watched.typing or TYPING in self.watched.reported):
            return
        arguments = msgspec.json.encode({"session_id": process_id, "chars": text}).decode()
        made = self._begin(_new_call(f"{command_id}-typed", TYPING, arguments))
        made.finish(ToolResult(""))
        result = await made.task
        if result.status == "blocked":
            self.breach = (
                f"a hook blocked what Codex typed into a running command: {text_of(result.output)}"
            )

    async def close(self) -> None:
        """End the questions that are open, and wait for the hooks after calls that have ended."""
        for made in self._calls.values():
            if not made.ended.done():
                made.task.cancel()
        await asyncio.gather(*(made.task for made in self._calls.values()), return_exceptions=True)

    def _begin(self, call: ToolCall) -> CodexCall:
        earlier = self._calls.get(call.call_id)
        if earlier is not None and not earlier.ended.done():
            earlier.task.cancel()
        made = self._calls[call.call_id] = CodexCall(call)
        made.start(self.run.context(self.run.log.step), self.run)
        return made

    def _item(self, call_id: str) -> asyncio.Future[ToolCall]:
        if call_id not in self._items:
            self._items[call_id] = asyncio.get_running_loop().create_future()
        return self._items[call_id]

    async def _call_of(self, event: HookEvent) -> ToolCall:
        """Return the call that Codex asks about, with the model's own arguments if it knows them.

        Codex tells a hook the command only. What it tells is what it runs: an item of the model
        with the same id and another command, which a provider may send, is not believed.
        """
        name = CODEX_TOOLS.get(event.tool_name, event.tool_name)
        told = _new_call(event.tool_use_id, name, _told_arguments(name, event.tool_input))
        if event.tool_use_id.startswith(_OF_SCRIPT):
            return told
        try:
            async with asyncio.timeout(_ITEM_SECONDS):
                call = await asyncio.shield(self._item(event.tool_use_id))
        except TimeoutError:
            return told
        return call if _means(call, told) else told

    async def _ask_about_patch(self, call: ToolCall) -> str | None:
        """Ask about the patch in a command line that Codex takes for a patch; return a block."""
        if call.name != CODEX_TOOLS["Bash"] or "apply_patch" not in self.watched.before:
            return None
        patch = _PATCH.search(_arguments(call).get("cmd", ""))
        if patch is None:
            return None
        made = CodexCall(_new_call(call.call_id, "apply_patch", patch[0]))
        made.start(self.run.context(self.run.log.step), self.run)
        await made.wait_for_decision()
        if made.allowed.done():
            made.task.cancel()
            if made.allowed.result() is None:
                return None
            return "a hook changed the patch; send it with the apply_patch tool"
        self._report_denied(made.call, made.task.result())
        return text_of(made.task.result().output)

    def _report_denied(self, call: ToolCall, result: ToolResult) -> None:
        """Tell the host of a call that did not run; Codex reports none of it."""
        self.run.emit(ToolStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
        self.run.emit(
            ToolFinished(
                call_id=call.call_id,
                name=call.name,
                success=False,
                seconds=0.0,
                output=text_of(result.output)[:SHOWN_OUTPUT],
            )
        )


def _allow(changed: dict[str, Any] | None) -> dict[str, Any]:
    """Return the answer that lets a call run; approvals are still asked for."""
    if changed is None:
        return {}
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": changed,
        }
    }


def _new_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """Return a call that the log does not have as an item."""
    if name == "apply_patch":
        return call_of(CustomToolCall(call_id=call_id, name=name, input=arguments))
    server = _SERVER_TOOL.fullmatch(name)
    namespace, tool = server.groups() if server else (None, name)
    if server is None and "." in name:
        namespace, _, tool = name.partition(".")
    return call_of(
        FunctionCall(call_id=call_id, name=tool, namespace=namespace, arguments=arguments)
    )


def _told_arguments(name: str, told: Raw) -> str:
    """Return the arguments of a call from what Codex tells its hook."""
    text = bytes(told).decode()
    if name not in ("exec_command", "apply_patch"):
        return text
    command = decode_json(text.encode(), dict[str, Any]).get("command", "")
    return command if name == "apply_patch" else msgspec.json.encode({"cmd": command}).decode()


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        return decode_json(call.arguments.encode(), dict[str, Any])
    except UNREADABLE:
        return {}


def _means(call: ToolCall, told: ToolCall) -> bool:
    """Say whether an item of the model is the call that Codex tells of."""
    if (call.name, call.namespace) != (told.name, told.namespace):
        return False
    if call.name == "exec_command":
        return _arguments(call).get("cmd") == _arguments(told).get("cmd")
    return call.arguments == told.arguments


def _changed_input(own: ToolCall, wanted: ToolCall) -> dict[str, Any] | None:
    """Return the input that Codex must use in place of its own; None if nothing has changed.

    Raises `ValueError` for a change that Codex cannot make.
    """
    if own.arguments == wanted.arguments:
        return None
    if own.name == "apply_patch":
        return {"command": wanted.arguments}
    before, after = _arguments(own), _arguments(wanted)
    if own.name != "exec_command":
        return after
    changed = sorted(name for name in after if after[name] != before.get(name))
    if changed and changed != ["cmd"]:
        raise ValueError(
            f"a hook changed {changed!r}, and Codex lets a hook change the command only"
        )
    return {"command": after["cmd"]} if changed else None


def _response_text(response: Raw) -> str:
    decoded = msgspec.json.decode(response)
    return decoded if isinstance(decoded, str) else bytes(response).decode()


def _is_watched(name: str, watched: tuple[str, ...]) -> bool:
    """Say whether a tool of ours or of a server is among the names of Codex's hooks."""
    servers = "." in name and any(each.startswith("mcp__") for each in watched)
    return servers or any(CODEX_TOOLS.get(each) == name for each in watched)
