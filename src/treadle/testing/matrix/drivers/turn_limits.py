"""The driver of limits: a turn that may reach one, and the turn after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....config.settings import Price
from ....core.errors import InvalidOption
from ....core.items import FunctionCall, FunctionCallOutput
from ....core.typed import convert
from ....harness.events import LimitReached, TurnCompleted
from ....policy.limits import Limits
from ....tools.decorator import tool
from ..fixture import SPARE, MatrixFixture, answers

if TYPE_CHECKING:
    from ....thread.thread import Thread

__all__ = ["turn"]


@tool(description="Looks at the world.", replay_safe=True)
async def look() -> str:
    """Changes nothing."""
    return "seen"


async def turn(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Run a turn with limits, then one without; return how both ended and what was kept."""
    assert fixture is not None
    fixture.play(*answers(given), spare=answers(given, "spare"))
    prices = {name: convert(price, Price) for name, price in given.get("prices", {}).items()}
    limits = Limits(**given["limits"])
    options: dict[str, Any] = {"tools": [look], "fallbacks": [SPARE], "prices": prices}
    if "model" in given:
        options["model"] = given["model"]
    async with fixture.open_thread(**options) as thread:
        try:
            events = await fixture.run_turn(thread, "Look around.", limits=limits)
        except InvalidOption as refusal:
            turns = await thread.store.turns(thread.id)
            told = all(word in str(refusal) for word in given.get("told", ()))
            return {"refused": told, "turns": len(turns), "asked": len(fixture.requests)}
        end = events[-1]
        assert isinstance(end, TurnCompleted)
        outputs, unanswered = await _calls(thread)
        further = await fixture.run_turn(thread, "Go on.")
        states = [each.state for each in await thread.store.turns(thread.id)]
        return {
            "status": end.status,
            "text": end.text,
            "limit": end.limit.limit if end.limit else "",
            "spent": round(end.limit.spent, 6) if end.limit else 0,
            "told": [each.limit for each in events if isinstance(each, LimitReached)],
            # On Codex one more request may be under way when it is interrupted.
            "kept": outputs >= given.get("calls", 0),
            "unanswered": unanswered,
            "states": states,
            "spare": len(fixture.spare.requests),
            "after": getattr(further[-1], "text", ""),
            "why": given.get("why", "").encode() in fixture.requests[-1].body,
        }


async def _calls(thread: Thread) -> tuple[int, int]:
    """Return how many calls of the thread have results, and how many have none, or too many."""
    calls: Counter[str] = Counter()
    outputs: Counter[str] = Counter()
    for entry in await thread.store.read(thread.id):
        item = entry.item if entry.kind == "item" else None
        if isinstance(item, FunctionCall):
            calls[item.call_id] += 1
        elif isinstance(item, FunctionCallOutput):
            outputs[item.call_id or ""] += 1
    return sum(outputs.values()), sum(outputs[each] != calls[each] for each in calls | outputs)
