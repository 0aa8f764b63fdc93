"""Drivers of prompt overlays: what they add, and where it stands in requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ....core.errors import FragmentError
from ....core.typed import convert
from ....harness.events import HarnessReported, NoticeRaised, TurnCompleted
from ....policy.overlays import Overlays, add_contribution
from ....prompt.contributions import Audience, Contribution
from ....prompt.prompt_context import PromptContext
from ..fixture import MatrixFixture, answers
from .sent_requests import extends, find_words, request_lines

__all__ = ["nothing", "resolve", "turns"]

Given: TypeAlias = Mapping[str, Any]


class _Overlay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An overlay as a row describes it."""

    id: str = "house"
    providers: tuple[str, ...] = ("openai",)
    prefix: str = ""
    suffix: str = ""
    sections: dict[str, str] = {}
    raises: str = ""
    long: int = 0
    """How often it says its prefix."""

    def contribute(self, audience: Audience, settings: PromptContext) -> Contribution | None:
        """Return its contribution, for its providers."""
        del settings
        if self.raises:
            raise ValueError(self.raises)
        if audience.provider not in self.providers:
            return None
        return Contribution(
            stable_prefix=self.prefix * (self.long or 1),
            dynamic_suffix=self.suffix,
            section_overrides=self.sections,  # type: ignore[arg-type]
        )


async def nothing(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return whether Treadle itself adds nothing, for any model and personality."""
    del fixture
    seen: set[bool] = set()
    for name in given["models"]:
        for personality in given["personalities"]:
            settings = PromptContext(cwd="/", personality=personality or None)
            overlaid = Overlays().resolve(_audience(name), settings)
            seen.add(add_contribution(settings, overlaid.contribution) is settings)
    return {"nothing": seen == {True}, "asked": len(given["models"]) * len(given["personalities"])}


async def resolve(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return what overlays add for an audience."""
    del fixture
    settings = PromptContext(cwd="/", developer_instructions=given.get("instructions"))
    try:
        overlays = _overlays(given.get("overlays", ()))
    except FragmentError as error:
        return {"error": str(error)}
    overlaid = overlays.resolve(_audience(given.get("model", "openai:gpt-5.5")), settings)
    result = add_contribution(settings, overlaid.contribution)
    return {
        "error": "",
        "developer": result.developer_instructions or "",
        "suffix": result.overlay_suffix or "",
        "sources": overlaid.sources,
        "problems": overlaid.problems,
    }


async def turns(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns with different overlays; return where requests contain some words."""
    fixture.play(*answers(given))
    events: list[Any] = []
    plans: list[list[str]] = []
    settings = PromptContext(
        cwd="",
        developer_instructions=given.get("instructions"),
        sandbox_mode="danger-full-access",
        approval_policy="never",
    )
    async with fixture.open_thread(settings=settings, overlays=Overlays()) as thread:
        for place, overlays in enumerate(given["turns"], 1):
            thread.policy.overlays = _overlays(overlays)
            events += await fixture.run_turn(thread, f"Question {place}?")
            plans.append(list(thread.plan.prompt.sources) if thread.plan else [])
    words: Sequence[str] = given["look_for"]
    ends = [event for event in events if isinstance(event, TurnCompleted)]
    notices = [event.text for event in events if isinstance(event, NoticeRaised)]
    started = [event.what for event in events if isinstance(event, HarnessReported)]
    return {
        "statuses": [end.status for end in ends],
        "shown": [find_words(asked, words) for asked in fixture.requests],
        "leads": [_leads(request_lines(asked), words[0]) for asked in fixture.requests],
        "notes": [
            sum("<provider_notes>" in text for _, text in request_lines(a))
            for a in fixture.requests
        ],
        "extends": extends(fixture.requests),
        "fresh": sum(what == "thread.started" for what in started) <= 1,
        "planned": plans,
        "warned": [text for text in notices if "overlay" in text],
    }


def _overlays(given: Sequence[Given]) -> Overlays:
    return Overlays(convert(given, tuple[_Overlay, ...]))


def _audience(name: str) -> Audience:
    provider, _, model = name.partition(":")
    return Audience(provider=provider, model=model)


def _leads(lines: Sequence[tuple[str, str]], word: str) -> bool:
    """Return whether a developer message starts with `word`, before any other role."""
    before = []
    for role, text in lines:
        before.append(role)
        if role == "developer" and text.startswith(word):
            return set(before) <= {"instructions", "developer"}
    return False
