"""The scripted app-server: it reads requests, answers them, and plays its faults.

Owns the methods and the faults; `turn_player` plays the turns. Invariant: a line that
cannot be read is ignored, like in the real one, and every line is recorded before it is
handled.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from .app_script import AppFault, AppScript
from .scripted_threads import ScriptedThread, ScriptedThreads
from .turn_player import TurnPlayer, end_process

__all__ = ["ScriptedServer"]

_OVERLOADED = {"code": -32001, "message": "Server overloaded; retry later."}
_GARBAGE = (
    b"this is no JSON",
    b'[{"method":"batch"}]',
    b'{"id":987654,"result":{}}',
    b'{"method":"scripted/unheard","params":{"threadId":"none"}}',
    b'{"method":"turn/started","params":{"threadId":7}}',
    b"{}",
)

_Params: TypeAlias = dict[str, Any]
_Method: TypeAlias = Callable[[_Params], Awaitable[Any]]


class _RequestRefused(Exception):
    """A request that gets an error as its result."""


class ScriptedServer:
    """Serves one client over standard streams."""

    def __init__(self, script: AppScript, record: Path, directory: Path) -> None:
        self._script, self._record = script, record
        self._threads = ScriptedThreads(directory)
        self._player = TurnPlayer(script, self.send)
        self._counts: Counter[str] = Counter()
        self._methods: dict[str, _Method] = {
            "initialize": self._initialize,
            "thread/start": self._start,
            "thread/resume": self._resume,
            "thread/fork": self._fork,
            "thread/inject_items": self._inject,
            "thread/read": self._read,
            "thread/unsubscribe": self._unsubscribe,
            "thread/archive": self._archive,
            "thread/compact/start": self._compact,
            "turn/start": self._begin_turn,
            "turn/steer": self._steer,
            "turn/interrupt": self._interrupt,
        }

    def send(self, message: dict[str, Any]) -> None:
        """Write one line."""
        _write(msgspec.json.encode(message))

    async def handle_line(self, line: bytes) -> None:
        """Record and handle one line."""
        with self._record.open("ab") as file:
            file.write(line + b"\n")
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return
        if not isinstance(message, dict):
            return
        if "method" not in message:
            self._player.resolve_request(message)
        elif "id" in message:
            await self._handle_request(
                message["id"], message["method"], message.get("params") or {}
            )

    async def _handle_request(self, request: int | str, method: str, params: _Params) -> None:
        self._counts[method] += 1
        fault = self._fault(method)
        if fault is not None and self._misbehave(request, fault):
            return
        try:
            result = await self._result(method, params)
        except _RequestRefused as refusal:
            self.send({"id": request, "error": {"code": -32600, "message": str(refusal)}})
            return
        if fault is not None and fault.kind == "die" and fault.moment == "done":
            end_process(fault.status)
        self.send({"id": request, "result": result})
        if fault is not None and fault.kind == "die":
            end_process(fault.status)
        self._player.start_queued()

    def _fault(self, method: str) -> AppFault | None:
        for fault in self._script.faults:
            if fault.method == method and fault.nth in (0, self._counts[method]):
                return fault
        return None

    def _misbehave(self, request: int | str, fault: AppFault) -> bool:
        """Play a fault; return whether the request is answered with that."""
        match fault.kind:
            case "silence":
                return True
            case "overload":
                self.send({"id": request, "error": _OVERLOADED})
                return True
            case "refuse":
                self.send({"id": request, "error": {"code": -32600, "message": fault.message}})
                return True
            case "garbage":
                for line in _GARBAGE:
                    _write(line)
            case "die":
                if fault.moment == "before":
                    end_process(fault.status)
        return False

    async def _result(self, method: str, params: _Params) -> Any:
        known = self._methods.get(method)
        if known is None or method in self._script.lacks:
            raise _RequestRefused(f"Invalid request: unknown variant `{method}`, expected one of …")
        return await known(params)

    async def _initialize(self, params: _Params) -> Any:
        name = params["clientInfo"]["name"]
        return {"userAgent": f"{name}/{self._script.version} (scripted)", "codexHome": "/"}

    async def _start(self, params: _Params) -> Any:
        thread = self._threads.new(
            ephemeral=bool(params.get("ephemeral")),
            raw_events=bool(params.get("experimentalRawEvents")),
        )
        return self._open_result(thread, params)

    async def _resume(self, params: _Params) -> Any:
        thread = self._threads.load(params["threadId"])
        if thread is None:
            raise _RequestRefused(f"no rollout found for thread id {params['threadId']}")
        return self._open_result(thread, params)

    async def _fork(self, params: _Params) -> Any:
        parent = self._threads.load(params["threadId"])
        if parent is None:
            raise _RequestRefused(f"no rollout found for thread id {params['threadId']}")
        thread = self._threads.new(ephemeral=bool(params.get("ephemeral")))
        for item in parent.items:
            thread.append(dict(item))
        return self._open_result(thread, params)

    def _open_result(self, thread: ScriptedThread, params: _Params) -> Any:
        described = thread.payload(turns=not params.get("excludeTurns"))
        self._player.notify_later("thread/started", {"thread": described})
        return {"thread": described, "model": params.get("model") or "scripted", "cwd": "/"}

    async def _inject(self, params: _Params) -> Any:
        if not params["items"]:
            raise _RequestRefused("items must not be empty")
        thread = self._loaded_thread(params)
        for item in params["items"]:
            self._player.send_item(thread, thread.append(item))
        return {}

    async def _read(self, params: _Params) -> Any:
        thread = self._threads.load(params["threadId"])
        if thread is None:
            raise _RequestRefused(f"thread not loaded: {params['threadId']}")
        return {"thread": thread.payload(turns=bool(params.get("includeTurns")))}

    async def _unsubscribe(self, params: _Params) -> Any:
        known = self._threads.find(params["threadId"]) is not None
        return {"status": "unsubscribed" if known else "notLoaded"}

    async def _archive(self, params: _Params) -> Any:
        self._loaded_thread(params)
        self._threads.unload(params["threadId"])
        return {}

    async def _compact(self, params: _Params) -> Any:
        self._player.queue_compaction(self._loaded_thread(params))
        return {}

    async def _begin_turn(self, params: _Params) -> Any:
        return {"turn": self._player.queue_turn(self._loaded_thread(params), params)}

    async def _steer(self, params: _Params) -> Any:
        thread = self._loaded_thread(params)
        if thread.turn != params["expectedTurnId"]:
            raise _RequestRefused("no active turn to steer")
        self._player.steer(thread, params["input"])
        return {"turnId": thread.turn}

    async def _interrupt(self, params: _Params) -> Any:
        thread = self._loaded_thread(params)
        if thread.turn != params["turnId"] or thread.running is None:
            raise _RequestRefused("no active turn to interrupt")
        thread.running.cancel()
        await asyncio.gather(thread.running, return_exceptions=True)
        return {}

    def _loaded_thread(self, params: _Params) -> ScriptedThread:
        thread = self._threads.find(params["threadId"])
        if thread is None:
            raise _RequestRefused(f"thread not found: {params['threadId']}")
        return thread


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
