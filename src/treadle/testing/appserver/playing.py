"""Playing turns: the notifications and asks of a scripted turn, in Codex's order.

Owns what runs behind a `turn/start`. Invariant: nothing of a turn is told before the
request that began it has been answered.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, NoReturn

import msgspec

from .script import AppScript, AppStep, TurnScript
from .threads import ScriptedThread

__all__ = ["TurnPlayer", "end_process"]

_DONE = TurnScript(steps=(AppStep(text="Done."),))


class TurnPlayer:
    """Plays the turns of a script one after the other on each thread."""

    def __init__(self, script: AppScript, send: Callable[[dict[str, Any]], None]) -> None:
        self._script, self._send = script, send
        self._turns, self._calls, self._asks = count(1), count(1), count()
        self._played = iter(script.turns)
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._waiting: list[Coroutine[Any, Any, None]] = []
        self._later: list[dict[str, Any]] = []
        self._running: set[asyncio.Task[None]] = set()

    def later(self, method: str, params: dict[str, Any]) -> None:
        """Tell something behind the answer to the current request."""
        self._later.append({"method": method, "params": params})

    def begin_waiting(self) -> None:
        """The answer is out: tell and begin what waited for it."""
        for message in self._later:
            self._send(message)
        self._later.clear()
        for work in self._waiting:
            task = asyncio.create_task(work)
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        self._waiting.clear()

    def resolve_request(self, message: dict[str, Any]) -> None:
        """The client answered an ask."""
        future = self._open.pop(message.get("id", -1), None)
        if future is not None and not future.done():
            future.set_result(message)

    def queue_turn(self, thread: ScriptedThread, params: dict[str, Any]) -> dict[str, Any]:
        """A turn that begins when the request is answered and the thread is free."""
        turn = {"id": f"turn-{thread.id[-4:]}-{next(self._turns)}", "status": "inProgress"}
        script = next(self._played, _DONE)
        self._waiting.append(self._run(thread, turn["id"], script, params))
        return {**turn, "items": [], "itemsView": "notLoaded"}

    def queue_compaction(self, thread: ScriptedThread) -> None:
        """A native compaction, told as a turn."""
        turn = f"turn-{thread.id[-4:]}-{next(self._turns)}"
        self._waiting.append(self._run(thread, turn, self._script.compaction, None))

    def steer(self, thread: ScriptedThread, said: list[dict[str, Any]]) -> None:
        """Add what the user said to the running turn."""
        self.tell_item(thread, thread.append(_user_message(said)))
        thread.steered.set()

    def tell_item(self, thread: ScriptedThread, item: dict[str, Any]) -> None:
        """Tell a raw item, where raw events are on."""
        if thread.raw_events:
            where = {"threadId": thread.id, "turnId": thread.turn or "auto-compact-0"}
            self._tell("rawResponseItem/completed", {**where, "item": item})

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params, "emittedAtMs": 0})

    async def _run(
        self, thread: ScriptedThread, turn: str, script: TurnScript, params: dict[str, Any] | None
    ) -> None:
        async with thread.free:
            thread.turn, thread.running = turn, asyncio.current_task()
            thread.steered.clear()
            self._status(thread, "active")
            self._tell("turn/started", {"threadId": thread.id, "turn": _turn(turn, "inProgress")})
            try:
                if params is not None:
                    self._take_input(thread, params)
                for step in script.steps:
                    await self._play(thread, step)
                self._end(thread, "failed" if script.fail else "completed", script.fail)
            except asyncio.CancelledError:
                aborted = _text_message("user", "<turn_aborted>\nScripted.\n</turn_aborted>")
                self.tell_item(thread, thread.append(aborted))
                self._end(thread, "interrupted")

    def _take_input(self, thread: ScriptedThread, params: dict[str, Any]) -> None:
        if not params.get("input"):
            return
        self.tell_item(thread, thread.append(_user_message(params["input"])))
        item = {"type": "userMessage", "clientId": params.get("clientUserMessageId")}
        self._show(thread, {**item, "id": f"user-{thread.turn}", "content": params["input"]})

    async def _play(self, thread: ScriptedThread, step: AppStep) -> None:
        if step.reasoning:
            self._reason(thread, step.reasoning)
        if step.text:
            self._say(thread, step.text)
        if step.tool:
            await self._call(thread, step)
        if step.command:
            await self._ask_approval(thread, step.command)
        if step.notify:
            self._tell(step.notify, {**self._where(thread), **step.params})
        if step.compact:
            self._compact(thread)
        if step.wait:
            await thread.steered.wait()
            thread.steered.clear()
        if step.die is not None:
            end_process(step.die)
        self._count(thread, step.tokens)

    def _where(self, thread: ScriptedThread) -> dict[str, Any]:
        return {"threadId": thread.id, "turnId": thread.turn}

    def _show(self, thread: ScriptedThread, item: dict[str, Any]) -> None:
        where = self._where(thread)
        self._tell("item/started", {**where, "item": item, "startedAtMs": 0})
        self._tell("item/completed", {**where, "item": item, "completedAtMs": 0})

    def _reason(self, thread: ScriptedThread, text: str) -> None:
        summary = [{"type": "summary_text", "text": text}]
        sealed = {"summary": summary, "encrypted_content": f"sealed:{thread.turn}"}
        item = thread.append({"type": "reasoning", **sealed})
        self._show(thread, {"type": "reasoning", "id": item["id"], "summary": [text]})
        self.tell_item(thread, item)

    def _say(self, thread: ScriptedThread, text: str) -> None:
        item = thread.append(_text_message("assistant", text))
        shown = {"type": "agentMessage", "id": item["id"], "text": text}
        where = self._where(thread)
        self._tell("item/started", {**where, "item": {**shown, "text": ""}, "startedAtMs": 0})
        self._tell("item/agentMessage/delta", {**where, "itemId": item["id"], "delta": text})
        self._tell("item/completed", {**where, "item": shown, "completedAtMs": 0})
        self.tell_item(thread, item)

    async def _call(self, thread: ScriptedThread, step: AppStep) -> None:
        call = f"call-{thread.id[-4:]}-{next(self._calls)}"
        arguments = msgspec.json.encode(step.arguments).decode()
        named = {"call_id": call, "name": step.tool, "arguments": arguments}
        self.tell_item(thread, thread.append({"type": "function_call", **named}))
        shown: dict[str, Any] = {"type": "dynamicToolCall", "id": call, "tool": step.tool}
        shown |= {"namespace": step.namespace, "arguments": step.arguments}
        where = self._where(thread)
        begun = {**shown, "status": "inProgress"}
        self._tell("item/started", {**where, "item": begun, "startedAtMs": 0})
        asked = {"callId": call, "namespace": step.namespace, "tool": step.tool}
        params = {**where, **asked, "arguments": step.arguments}
        answer = await self._ask("item/tool/call", params, next(self._asks))
        result = answer.get("result") or {"contentItems": [], "success": False}
        texts = [part.get("text", "") for part in result["contentItems"]]
        output = "".join(texts) if "result" in answer else "dynamic tool request failed"
        done = {**shown, "status": "completed" if result["success"] else "failed", **result}
        self._tell("item/completed", {**where, "item": done, "completedAtMs": 0})
        given = {"type": "function_call_output", "call_id": call, "output": output}
        self.tell_item(thread, thread.append(given))

    async def _ask_approval(self, thread: ScriptedThread, command: str) -> None:
        item = f"call-{thread.id[-4:]}-{next(self._calls)}"
        asked = {"kind": "command", "itemId": item, "command": command, "cwd": "/"}
        request = next(self._asks)
        answer = await self._ask(
            "item/commandExecution/requestApproval", {**self._where(thread), **asked}, request
        )
        # Codex tells this of approvals, not of calls.
        resolved = {"threadId": thread.id, "requestId": request}
        self._tell("serverRequest/resolved", resolved)
        decision = (answer.get("result") or {}).get("decision", "decline")
        accepted = decision in ("accept", "acceptForSession")
        shown = {"type": "commandExecution", "id": item, "command": command, "cwd": "/"}
        self._show(thread, {**shown, "status": "completed" if accepted else "declined"})
        if decision == "cancel":
            raise asyncio.CancelledError

    async def _ask(self, method: str, params: dict[str, Any], request: int) -> dict[str, Any]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[request] = future
        self._send({"method": method, "id": request, "params": params})
        return await future

    def _compact(self, thread: ScriptedThread) -> None:
        users = [item for item in thread.items if item.get("role") == "user"]
        thread.replace([*users, _text_message("user", "A summary of the script.")])
        self._show(thread, {"type": "contextCompaction", "id": f"compaction-{thread.turn}"})

    def _count(self, thread: ScriptedThread, tokens: int) -> None:
        used = {"totalTokens": tokens, "inputTokens": tokens - 1, "outputTokens": 1}
        used |= {"cachedInputTokens": 0, "reasoningOutputTokens": 0}
        usage = {"total": used, "last": used, "modelContextWindow": 258_400}
        self._tell("thread/tokenUsage/updated", {**self._where(thread), "tokenUsage": usage})

    def _status(self, thread: ScriptedThread, state: str) -> None:
        status = {"type": state, "activeFlags": []}
        self._tell("thread/status/changed", {"threadId": thread.id, "status": status})

    def _end(self, thread: ScriptedThread, state: str, kind: str = "") -> None:
        error = {"message": f"scripted: {kind}", "codexErrorInfo": kind} if kind else None
        if error is not None:
            self._tell("error", {**self._where(thread), "error": error, "willRetry": False})
        turn = {**_turn(thread.turn, state), "error": error}
        thread.turns.append(turn)
        thread.note("turn", turn)
        ended, thread.turn, thread.running = thread.turn, "", None
        self._status(thread, "idle")
        self._tell("turn/completed", {"threadId": thread.id, "turn": {**turn, "id": ended}})


def _turn(turn: str, state: str) -> dict[str, Any]:
    return {"id": turn, "status": state, "items": [], "itemsView": "notLoaded", "error": None}


def _user_message(said: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [{"type": "input_text", "text": part["text"]} for part in said if "text" in part]
    return {"type": "message", "role": "user", "content": texts}


def _text_message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def end_process(status: int) -> NoReturn:
    """End at once, without a farewell: with a status, or by a signal if it is negative."""
    if status < 0:
        os.kill(os.getpid(), signal.Signals(-status))
        signal.pause()
    os._exit(status)
