"""Summarising: a source in fewer words, by a model where one can be asked.

Owns the way from the usual prompt over a stricter one to excerpts. Invariants: a summary
always comes back, smaller than its source; a model is asked at most three times, never
against its guards, and never once nobody waits any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ....context.tokens import estimate_text
from ....core.errors import CompletionFailed, TooLong, TreadleError
from ....core.text import BYTES_PER_TOKEN
from ...values import Complete
from ..guards import Guards
from .answers import cleaned
from .clipping import clip_middle, size_of
from .expanding import body_of, completed
from .extract import extract
from .facts import Fact, find_facts, missing
from .passages import passages
from .prompts import Prompt, amend_request, prompt_for, request
from .showing import shown
from .source import Source, Summary, source_tokens

__all__ = ["Summary", "summarise"]

T = TypeVar("T")

_SHARE = 0.35
"""No more of its source than this is asked for …"""
_LEAST = 32
"""… unless that is less than these tokens, which every summary may have."""
_STRICT = 0.55
_MOST = 3
"""How many times its target a summary may be long."""
_LONG = 1.5
_EXPAND_SHARE = 0.2
_LEAST_EXPAND = 48
_TELLING = 4
"""A text that has none of so many facts is no summary."""

_log = logging.getLogger(__name__)


async def summarise(
    source: Source,
    *,
    complete: Complete | None,
    model: str,
    target: int,
    guards: Guards,
    cancelled: asyncio.Event | None = None,
    seconds: float = 60.0,
) -> Summary:
    """A summary of `source` in about `target` tokens.

    Excerpts, marked as degraded, where there is no model, it fails or may not be asked.
    `seconds` is for each call. Raises `asyncio.CancelledError` once `cancelled` is set.
    """
    target = max(target, _LEAST)
    if complete is None:
        return extract(source, target)
    writer = _Writer(source, complete, model, target, guards, cancelled, seconds)
    return await writer.write() or _degraded(source, target, writer.calls)


def _degraded(source: Source, target: int, calls: int) -> Summary:
    made = extract(source, target)
    return Summary(
        text=made.text, prompt=made.prompt, degraded=True, missing=made.missing, calls=calls
    )


@dataclass(slots=True)
class _Writer:
    """One summary on its way."""

    source: Source
    complete: Complete
    model: str
    target: int
    guards: Guards
    cancelled: asyncio.Event | None
    seconds: float
    calls: int = 0
    tokens: int = field(init=False)
    facts: tuple[Fact, ...] = field(init=False)
    shown: str = field(init=False)

    def __post_init__(self) -> None:
        read = passages(self.source)
        self.facts, self.shown = find_facts(read), shown(read)
        self.tokens = source_tokens(self.source)
        self.target = min(self.target, max(_LEAST, int(self.tokens * _SHARE)))

    async def write(self) -> Summary | None:
        """The model's summary; None when it has none to give."""
        for strict in (False, True):
            prompt = prompt_for(self.source.depth, strict=strict)
            asked = self._request(strict=strict)
            text = await self._ask(asked, prompt)
            if text is None:
                return None
            if self._fits(text) and self._tells(text):
                text = await self._amended(asked, prompt, text)
                return self._finished(text, prompt)
        return None

    def _request(self, *, strict: bool) -> str:
        target = max(_LEAST, int(self.target * _STRICT)) if strict else self.target
        return request(self.shown, previous=self.source.previous, facts=self.facts, target=target)

    async def _ask(self, asked: str, prompt: Prompt) -> str | None:
        """What the model says, ``""`` if that is nothing; None when it is to be left alone."""
        if self.cancelled is not None and self.cancelled.is_set():
            raise asyncio.CancelledError
        if refusal := self.guards.admit(self.model):
            _log.info("no model writes this summary: %s", refusal)
            return None
        self.calls += 1
        asking = self.complete(asked, instructions=prompt.instructions)
        try:
            answer = await _unless(self.cancelled, asking, self.seconds)
        except TooLong:
            self.shown = clip_middle(self.shown, size_of(self.shown) // 2, "\n… cut …\n")
            return ""
        except CompletionFailed as error:
            if error.kind == "auth":
                self.guards.auth_failed(self.model)
            return "" if error.kind == "other" else None
        except (TreadleError, TimeoutError) as error:
            _log.info("the model gave no summary: %s", error)
            return ""
        self.guards.succeeded(self.model)
        return cleaned(answer)

    def _fits(self, text: str) -> bool:
        """Whether the text says something in fewer words than its source, and not too many."""
        tokens = estimate_text(text)
        if tokens > self.target * _LONG:
            _log.warning("a summary of %d tokens was to have %d", tokens, self.target)
        return bool(text) and tokens <= self._limit

    @property
    def _limit(self) -> int:
        return min(self.target * _MOST, self.tokens - 1)

    def _tells(self, text: str) -> bool:
        """Whether the text is about its source at all."""
        if len(self.facts) < _TELLING:
            return True
        return len(missing(self.facts, body_of(text))) < len(self.facts)

    async def _amended(self, asked: str, prompt: Prompt, text: str) -> str:
        """The text, written once more if it lost something and the model does better."""
        lost = missing(self.facts, text)
        if not lost:
            return text
        again = await self._ask(amend_request(asked, text, lost), prompt)
        if not again or not self._fits(again):
            return text
        return again if len(missing(self.facts, again)) < len(lost) else text

    def _finished(self, text: str, prompt: Prompt) -> Summary:
        expand = max(_LEAST_EXPAND, int(self.target * _EXPAND_SHARE))
        room = min(expand, self._limit - estimate_text(text)) * BYTES_PER_TOKEN
        text, lost = completed(text, self.facts, room)
        return Summary(
            text=text, model=self.model, prompt=prompt.version, missing=lost, calls=self.calls
        )


async def _unless(
    cancelled: asyncio.Event | None, work: Coroutine[Any, Any, T], seconds: float
) -> T:
    """What `work` gives within `seconds`, unless nobody waits for it any more."""
    if cancelled is None:
        async with asyncio.timeout(seconds):
            return await work
    asking = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait((asking, watching), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        if watching.done():
            raise asyncio.CancelledError
        raise TimeoutError
    finally:
        asking.cancel()
        watching.cancel()
        await asyncio.gather(asking, watching, return_exceptions=True)
