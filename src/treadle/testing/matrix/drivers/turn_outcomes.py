"""Drivers of outcomes: the verdict, the chain of candidates, and real turns that fall back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ....core.typed import convert
from ....harness.events import AttemptFailed, TurnCompleted
from ....hooks import HookAnswer, Hooks
from ....hooks.payloads import BeforePromptBuild
from ....models import contract as models
from ....policy.auth.cooldowns import Reason
from ....policy.failures import Failure, failure_of, named_failure
from ....policy.fallback import Chain
from ....policy.outcome import Accepted, Facts, Fallback, Final, classify, kind
from ....tools.contract import Recipient, SentMessage, Tool, ToolResult
from ....tools.decorator import tool
from ..fixture import SECRET, SPARE, MatrixFixture, answers

__all__ = ["chain", "interrupt", "judge", "reason", "turn"]


async def judge(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Return the verdict on an attempt with these facts."""
    del fixture
    facts = convert(given, Facts)
    match classify(facts):
        case Accepted():
            return {"verdict": "accepted", "kind": kind(facts)}
        case Final():
            return {"verdict": "final", "kind": kind(facts)}
        case Fallback(reason, code, message):
            return {
                "verdict": "fallback",
                "kind": kind(facts),
                "reason": reason,
                "code": code,
                "message": message,
            }


async def reason(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Return the reason of each error, from a model or as Codex names it."""
    del fixture
    return {"reasons": [_failure(each).reason for each in given["errors"]]}


async def chain(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Return who is tried when these reasons come, one after the other."""
    del fixture
    profiles: Mapping[str, Sequence[str]] = given.get("profiles", {})
    present: Chain | None = Chain(models=tuple(given["models"]), strict=given.get("strict", False))
    asked: list[str] = []
    finals: list[bool] = []
    recorded: list[str] = []
    reasons: list[Reason] = list(given["reasons"])
    while present is not None:
        if not present.profiles:
            present = present.with_profiles(profiles.get(present.model, ()))
        asked.append("/".join(filter(None, (present.model, present.present.profile))))
        finals.append(present.present.final)
        if not reasons:
            break
        verdict = Fallback(reasons.pop(0), "code", "why")
        recorded = [f"{each.model} {each.reason}" for each in present.tried_after(verdict)]
        present = present.after(verdict)
    return {"asked": asked, "final": finals, "tried": recorded, "exhausted": present is None}


async def turn(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Run turns that may fall back to another model; return the result of the last one."""
    assert fixture is not None
    fixture.play(*answers(given), spare=answers(given, "spare"))
    options: dict[str, Any] = {"fallbacks": given.get("fallbacks", [SPARE])}
    if "tools" in given:
        options["tools"] = [_TOOLS[name] for name in given["tools"]]
    if given.get("blocked"):
        options["hooks"] = Hooks()
        options["hooks"].on(BeforePromptBuild, _block)
    asked = {"schema": given["schema"]} if "schema" in given else {}
    events: list[Any] = []
    async with fixture.open_thread(strict=given.get("strict", False), **options) as thread:
        before = thread.model
        for said in given.get("said", ["Go on."]):
            events = await fixture.run_turn(thread, said, **asked)
        after = thread.model
        states = [turn.state for turn in await thread.store.turns(thread.id)]
    return {
        **_turn_end(events),
        "moves": sum(isinstance(event, AttemptFailed) for event in events),
        "next": [
            [event.next.model, event.harness == fixture.harness.name, bool(event.transport)]
            for event in events
            if isinstance(event, AttemptFailed)
        ],
        "asked": [len(fixture.requests), len(fixture.spare.requests)],
        "left": len(fixture.server.left) + len(fixture.spare.left),
        "same_model": before == after,
        "states": states,
        "told": [word.encode() in fixture.requests[-1].body for word in given.get("told", ())],
        "shown": [_times(fixture, word) for word in given.get("words", ())],
    }


async def interrupt(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Interrupt a turn while the model is silent."""
    assert fixture is not None
    fixture.play(*answers(given), spare=answers(given, "spare"))
    async with fixture.open_thread(fallbacks=[SPARE]) as thread:
        running = asyncio.create_task(fixture.run_turn(thread, "Go on."))
        await fixture.was_asked.wait()
        thread.interrupt()
        events = await running
    return {**_turn_end(events), "asked": [len(fixture.requests), len(fixture.spare.requests)]}


async def _block(payload: BeforePromptBuild) -> HookAnswer:
    del payload
    return HookAnswer(block="not on Sundays")


@tool(description="Changes the world.")
async def change() -> str:
    """Counts as an effect: nothing says that it only looks."""
    return "changed"


@tool(description="Looks at the world.", replay_safe=True)
async def look() -> str:
    """Changes nothing."""
    return "seen"


@tool(description="Writes to somebody.", replay_safe=True)
async def tell() -> ToolResult:
    """Changes nothing here, but somebody else has heard it."""
    return ToolResult("sent", sent=(SentMessage(target=Recipient(channel="mail", to="eve")),))


_TOOLS: dict[str, Tool] = {"change": change, "look": look, "tell": tell}


def _turn_end(events: Sequence[Any]) -> dict[str, Any]:
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    return {
        "status": end.status,
        "text": end.text,
        "error": end.error or "",
        "tried": [f"{_place(each.model)} {each.reason}" for each in end.tried],
        "codes": [each.code for each in end.tried],
        "tells_last": bool(end.tried) and end.error == end.tried[-1].error,
        "leaks": SECRET in repr(events),
    }


def _times(fixture: MatrixFixture, word: str) -> int:
    """Return how often the newest request to the spare model contains a word."""
    newest = fixture.spare.requests[-1].body if fixture.spare.requests else b""
    return newest.count(word.encode())


def _place(model: str) -> str:
    """Return the model's place in the chain."""
    return "spare" if model == SPARE else "first"


def _failure(each: Mapping[str, Any]) -> Failure:
    if "codex" in each:
        return named_failure(each["codex"], "it broke", each.get("status"))
    if "python" in each:
        return failure_of(OSError(each["python"]))
    made = getattr(models, each.get("model", "ModelError"))
    return failure_of(
        made(
            "it broke",
            status=each.get("status"),
            code=each.get("code", ""),
            retryable=each.get("retryable", False),
        )
    )
