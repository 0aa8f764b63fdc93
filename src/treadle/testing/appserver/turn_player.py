"""Playing turns: the notifications and requests of a scripted turn, in Codex's order.

Owns what happens after a `turn/start`. Invariant: nothing of a turn is sent before the
result of the request that started it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, NoReturn

import msgspec

from .app_script import AppScript, AppStep, TurnScript
from .scripted_threads import ScriptedThread

__all__ = ["TurnPlayer", "end_process"]

_DONE = TurnScript(steps=(AppStep(text="Done."),))


class TurnPlayer:
    """Plays the turns of a script, one at a time on each thread."""

    def __init__(self, script: AppScript, send: Callable[[dict[str, Any]], None]) -> None:
        self._script, self._send = script, send
        self._turn_numbers, self._call_numbers, self._request_ids = count(1), count(1), count()
        self._scripts = iter(script.turns)
        self._requests: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._queued: list[Coroutine[Any, Any, None]] = []
        self._later: list[dict[str, Any]] = []
        self._running: set[asyncio.Task[None]] = set()

    def notify_later(self, method: str, params: dict[str, Any]) -> None:
        """Queue a notification for after the result of the current request."""
        self._later.append({"method": method, "params": params})

    def start_queued(self) -> None:
        """Send the queued notifications and start the queued turns: the result was sent."""
        for message in self._later:
            self._send(message)
        self._later.clear()
        for work in self._queued:
            task = asyncio.create_task(work)
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        self._queued.clear()

    def resolve_request(self, message: dict[str, Any]) -> None:
        """Take the client's reply to a request."""
        future = self._requests.pop(message.get("id", -1), None)
        if future is not None and not future.done():
            future.set_result(message)

    def queue_turn(self, thread: ScriptedThread, params: dict[str, Any]) -> dict[str, Any]:
        """Queue a turn, which starts after the result when the thread is free; return it."""
        turn = {"id": f"turn-{thread.id[-4:]}-{next(self._turn_numbers)}", "status": "inProgress"}
        script = next(self._scripts, _DONE)
        self._queued.append(self._run(thread, turn["id"], script, params))
        return {**turn, "items": [], "itemsView": "notLoaded"}

    def queue_compaction(self, thread: ScriptedThread) -> None:
        """Queue a native compaction, which is a turn."""
        turn = f"turn-{thread.id[-4:]}-{next(self._turn_numbers)}"
        self._queued.append(self._run(thread, turn, self._script.compaction, None))

    def steer(self, thread: ScriptedThread, parts: list[dict[str, Any]]) -> None:
        """Add user input to the running turn."""
        self.send_item(thread, thread.append(_user_message(parts)))
        thread.steered.set()

    def send_item(self, thread: ScriptedThread, item: dict[str, Any]) -> None:
        """Send a raw item, if raw events are on."""
        if thread.raw_events:
            where = {"threadId": thread.id, "turnId": thread.turn or "auto-compact-0"}
            self._notify("rawResponseItem/completed", {**where, "item": item})

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params, "emittedAtMs": 0})

    async def _run(
        self, thread: ScriptedThread, turn: str, script: TurnScript, params: dict[str, Any] | None
    ) -> None:
        async with thread.free:
            thread.turn, thread.running = turn, asyncio.current_task()
            thread.steered.clear()
            self._status(thread, "active")
            self._notify("turn/started", {"threadId": thread.id, "turn": _turn(turn, "inProgress")})
            try:
                if params is not None:
                    self._take_input(thread, params)
                for step in script.steps:
                    await self._play(thread, step)
                self._end(thread, "failed" if script.fail else "completed", script.fail)
            except asyncio.CancelledError:
                aborted = _text_message("user", "<turn_aborted>\nScripted.\n</turn_aborted>")
                self.send_item(thread, thread.append(aborted))
                self._end(thread, "interrupted")

    def _take_input(self, thread: ScriptedThread, params: dict[str, Any]) -> None:
        if not params.get("input"):
            return
        self.send_item(thread, thread.append(_user_message(params["input"])))
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
            await self._request_approval(thread, step.command)
        if step.notify:
            self._notify(step.notify, {**self._where(thread), **step.params})
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
        self._notify("item/started", {**where, "item": item, "startedAtMs": 0})
        self._notify("item/completed", {**where, "item": item, "completedAtMs": 0})

    def _reason(self, thread: ScriptedThread, text: str) -> None:
        summary = [{"type": "summary_text", "text": text}]
        sealed = {"summary": summary, "encrypted_content": f"sealed:{thread.turn}"}
        item = thread.append({"type": "reasoning", **sealed})
        self._show(thread, {"type": "reasoning", "id": item["id"], "summary": [text]})
        self.send_item(thread, item)

    def _say(self, thread: ScriptedThread, text: str) -> None:
        item = thread.append(_text_message("assistant", text))
        shown = {"type": "agentMessage", "id": item["id"], "text": text}
        where = self._where(thread)
        self._notify("item/started", {**where, "item": {**shown, "text": ""}, "startedAtMs": 0})
        self._notify("item/agentMessage/delta", {**where, "itemId": item["id"], "delta": text})
        self._notify("item/completed", {**where, "item": shown, "completedAtMs": 0})
        self.send_item(thread, item)

    async def _call(self, thread: ScriptedThread, step: AppStep) -> None:
        call = f"call-{thread.id[-4:]}-{next(self._call_numbers)}"
        arguments = msgspec.json.encode(step.arguments).decode()
        named = {"call_id": call, "name": step.tool, "arguments": arguments}
        self.send_item(thread, thread.append({"type": "function_call", **named}))
        shown: dict[str, Any] = {"type": "dynamicToolCall", "id": call, "tool": step.tool}
        shown |= {"namespace": step.namespace, "arguments": step.arguments}
        where = self._where(thread)
        started = {**shown, "status": "inProgress"}
        self._notify("item/started", {**where, "item": started, "startedAtMs": 0})
        call_params = {"callId": call, "namespace": step.namespace, "tool": step.tool}
        params = {**where, **call_params, "arguments": step.arguments}
        answer = await self._request("item/tool/call", params, next(self._request_ids))
        result = answer.get("result") or {"contentItems": [], "success": False}
        texts = [part.get("text", "") for part in result["contentItems"]]
        output = "".join(texts) if "result" in answer else "dynamic tool request failed"
        done = {**shown, "status": "completed" if result["success"] else "failed", **result}
        self._notify("item/completed", {**where, "item": done, "completedAtMs": 0})
        given = {"type": "function_call_output", "call_id": call, "output": output}
        self.send_item(thread, thread.append(given))

    async def _request_approval(self, thread: ScriptedThread, command: str) -> None:
        item = f"call-{thread.id[-4:]}-{next(self._call_numbers)}"
        params = {"kind": "command", "itemId": item, "command": command, "cwd": "/"}
        request = next(self._request_ids)
        answer = await self._request(
            "item/commandExecution/requestApproval", {**self._where(thread), **params}, request
        )
        # Codex sends this for approvals, not for calls.
        resolved = {"threadId": thread.id, "requestId": request}
        self._notify("serverRequest/resolved", resolved)
        decision = (answer.get("result") or {}).get("decision", "decline")
        accepted = decision in ("accept", "acceptForSession")
        shown = {"type": "commandExecution", "id": item, "command": command, "cwd": "/"}
        self._show(thread, {**shown, "status": "completed" if accepted else "declined"})
        if decision == "cancel":
            raise asyncio.CancelledError

    async def _request(self, method: str, params: dict[str, Any], request: int) -> dict[str, Any]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._requests[request] = future
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
        self._notify("thread/tokenUsage/updated", {**self._where(thread), "tokenUsage": usage})

    def _status(self, thread: ScriptedThread, state: str) -> None:
        status = {"type": state, "activeFlags": []}
        self._notify("thread/status/changed", {"threadId": thread.id, "status": status})

    def _end(self, thread: ScriptedThread, state: str, kind: str = "") -> None:
        error = {"message": f"scripted: {kind}", "codexErrorInfo": kind} if kind else None
        if error is not None:
            self._notify("error", {**self._where(thread), "error": error, "willRetry": False})
        turn = {**_turn(thread.turn, state), "error": error}
        thread.turns.append(turn)
        thread.write_line("turn", turn)
        ended, thread.turn, thread.running = thread.turn, "", None
        self._status(thread, "idle")
        self._notify("turn/completed", {"threadId": thread.id, "turn": {**turn, "id": ended}})


def _turn(turn: str, state: str) -> dict[str, Any]:
    return {"id": turn, "status": state, "items": [], "itemsView": "notLoaded", "error": None}


def _user_message(parts: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [{"type": "input_text", "text": part["text"]} for part in parts if "text" in part]
    return {"type": "message", "role": "user", "content": texts}


def _text_message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def end_process(status: int) -> NoReturn:
    """End the process at once: with a status, or by a signal if it is negative."""
    if status < 0:
        os.kill(os.getpid(), signal.Signals(-status))
        signal.pause()
    os._exit(status)
