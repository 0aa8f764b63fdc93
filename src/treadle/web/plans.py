"""The plan of a turn, as the log tells it.

Owns which policies leave a trace: the route, the harness, tools, parameters and repairs stand
in the head of the turn's requests; what was tried and why it ended, in the turn itself.
Invariant: nothing is decided here, no settings are read and no vault is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..core.entries import Entry, Head, Notice, ResponseMark
from ..core.errors import NotFound, StoreError
from ..core.wire import Json
from ..store.contract import Turn
from .endings import find_ending
from .inspected_home import ShownHome
from .ledger_views import ShownLedger

__all__ = ["ShownPlans"]

_MOST = 400
"""Control entries of a turn that are read."""
_PARAMS = (
    "effort",
    "summary",
    "verbosity",
    "service_tier",
    "max_output_tokens",
    "temperature",
    "tool_choice",
    "parallel_tool_calls",
    "cache_retention",
    "cache_ttl",
    "cache_breakpoints",
    "include",
    "images",
    "audio",
)


class ShownPlans:
    """Tells how turns were run."""

    def __init__(self, home: ShownHome, ledger: ShownLedger) -> None:
        self._home, self._ledger = home, ledger

    async def plan(self, thread: str, number: int | None) -> dict[str, Any]:
        """Return what was decided for a turn, the newest where none is named."""
        info = await self._home.thread(thread)
        wanted = number or info.turns
        if not wanted:
            raise NotFound("turn", 1, "this thread has none yet")
        turn = await self._home.store.turn(info.id, wanted)
        entries = await self._home.store.read_kinds(
            info.id, {"request", "response", "notice", "completion"}, turn.first, limit=_MOST
        )
        own = [entry for entry in entries if entry.turn == turn.number]
        marks = [entry for entry in own if entry.kind == "response"]
        last = own[-1].seq if own else turn.first
        head = await self._ledger.head_at(info.id, last)
        ending = await find_ending(self._home.store, info.id, turn.first, last)
        plan = _plan(turn, head, ending.harness, own, marks)
        return {"turn": turn.number, "state": turn.state, "plan": plan}


def _plan(
    turn: Turn, head: Head | None, harness: str, own: Sequence[Entry], marks: Sequence[Entry]
) -> dict[str, Any]:
    plan: dict[str, Any] = {}
    if head is not None:
        plan["target"] = {"provider": head.provider, "model": head.model, "api": head.api}
        plan["harness"] = {"id": harness}
        plan["auth"] = {"account": head.account or None}
        plan["tools"] = {"count": len(head.tools), "names": [_tool_name(t) for t in head.tools]}
        plan["transcript"] = {"repairs": list(head.repairs)}
        plan["params"] = {
            name: value
            for name in _PARAMS
            if (value := getattr(head, name)) not in (None, (), "", False)
        }
    plan["outcome"] = {"state": turn.state, **_outcome(turn)}
    plan["attempts"] = [_attempt(entry) for entry in marks if _is_failed_response(entry)]
    plan["notices"] = [_notice(entry) for entry in own if entry.kind == "notice"]
    return plan


def _outcome(turn: Turn) -> dict[str, Any]:
    if turn.outcome is None:
        return {}
    value = msgspec.json.decode(bytes(turn.outcome))
    return value if isinstance(value, dict) else {"outcome": value}


def _is_failed_response(entry: Entry) -> bool:
    try:
        control = entry.control
    except StoreError:
        return False
    return isinstance(control, ResponseMark) and control.status != "completed"


def _attempt(entry: Entry) -> dict[str, Any]:
    control = entry.control
    assert isinstance(control, ResponseMark), "only answers are asked about"
    return {"entry": entry.seq, "status": control.status, "error": control.error}


def _notice(entry: Entry) -> dict[str, Any]:
    try:
        control = entry.control
    except StoreError:
        return {"entry": entry.seq, "text": "this entry is damaged"}
    text = control.text if isinstance(control, Notice) else ""
    return {"entry": entry.seq, "text": text}


def _tool_name(tool: Json) -> str:
    spec = msgspec.json.decode(bytes(tool))
    found = spec if isinstance(spec, dict) else {}
    return str(found.get("name") or found.get("type") or "unknown")
