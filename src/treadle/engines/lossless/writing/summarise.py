"""Summarise a source, with a model where one can be request.

Owns the way from the usual prompt over a stricter one to an extract, and how a model's
answer is cleaned. Invariants: a summary always comes back, smaller than its source; a
model is request at most three times, never against its call limits, and never after the
work was cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec.structs import replace

from ....context.tokens import estimate_text
from ....core.errors import CompletionFailed, TooLong, TreadleError
from ....core.text import BYTES_PER_TOKEN
from ...values import Complete
from ..call_limits import CallLimiter
from .clipping import byte_size, clip_middle
from .extract import extract
from .key_facts import Fact, add_missing_facts, find_facts, missing_facts
from .passages import passages
from .source import (
    Summary,
    SummarySource,
    expand_names,
    source_tokens,
    summary_body,
    with_expand_line,
)
from .summary_prompts import (
    SummaryPrompt,
    amend_request,
    prompt_for,
    render_passages,
    summary_request,
)

__all__ = ["clean_answer", "summarise"]

T = TypeVar("T")

_SHARE = 0.35
"""A summary should take no more of its source than this …"""
_LEAST = 32
"""… unless that is less than these tokens, which every summary may have."""
_STRICT = 0.55
_MOST = 3
"""How many times its target a summary may be long."""
_LONG = 1.5
_EXPAND_SHARE = 0.2
_LEAST_EXPAND = 48
_MANY_FACTS = 4
"""A text that has none of its facts is no summary, where the source has so many."""

_THOUGHT = "think|thinking|thought|reasoning|analysis|scratchpad"
_THINKING = re.compile(rf"<({_THOUGHT})\b[^>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_BEFORE = re.compile(rf"\A.*</(?:{_THOUGHT})\s*>[^\S\n]*\n", re.DOTALL | re.IGNORECASE)
_FRAME = re.compile(
    r"<\|[^|>\n]{1,40}\|>|\[/?INST\]|<</?SYS>>|</?s>|</?(?:start|end)_of_turn>"
    r"|</?(?:summary|source|draft|must_keep|previous_summary|thread_history)\s*>",
    re.IGNORECASE,
)
_FENCE = re.compile(r"\A```[\w-]*\n(.*?)\n?```\Z", re.DOTALL)
_ROLE = re.compile(
    r"^([^\S\n]*)#*[^\S\n]*(system|developer|user|human|assistant|tool|ai)[^\S\n]*:(?=\s)",
    re.IGNORECASE | re.MULTILINE,
)
_HEADING = re.compile(r"^={3,}[^\S\n]*", re.MULTILINE)

_log = logging.getLogger(__name__)


async def summarise(
    source: SummarySource,
    *,
    complete: Complete | None,
    model: str,
    target: int,
    limiter: CallLimiter,
    cancelled: asyncio.Event | None = None,
    seconds: float = 60.0,
) -> Summary:
    """Return a summary of `source` in about `target` tokens.

    Return an extract, marked as degraded, where no model can be asked or it fails.
    `seconds` is for each call. Raises `asyncio.CancelledError` once `cancelled` is set.
    """
    target = max(target, _LEAST)
    if complete is None:
        return extract(source, target)
    writer = _SummaryWriter(source, complete, model, target, limiter, cancelled, seconds)
    written = await writer.write()
    return written or replace(extract(source, target), calls=writer.calls)


@dataclass(slots=True)
class _SummaryWriter:
    """Asks a model for one summary and checks its answers."""

    source: SummarySource
    complete: Complete
    model: str
    target: int
    limiter: CallLimiter
    cancelled: asyncio.Event | None
    seconds: float
    calls: int = 0
    tokens: int = field(init=False)
    facts: tuple[Fact, ...] = field(init=False)
    shown: str = field(init=False)

    def __post_init__(self) -> None:
        pieces = passages(self.source)
        self.facts, self.shown = find_facts(pieces), render_passages(pieces)
        self.tokens = source_tokens(self.source)
        self.target = min(self.target, max(_LEAST, int(self.tokens * _SHARE)))

    async def write(self) -> Summary | None:
        """Return the model's summary; None when it gives none that can be used."""
        for strict in (False, True):
            prompt = prompt_for(self.source.depth, strict=strict)
            request = self._request(strict=strict)
            text = await self._ask(request, prompt)
            if text is None:
                return None
            if self._fits(text) and self._is_about_source(text):
                text = await self._amend(request, prompt, text)
                return self._finish(text, prompt)
        return None

    def _request(self, *, strict: bool) -> str:
        target = max(_LEAST, int(self.target * _STRICT)) if strict else self.target
        return summary_request(
            self.shown, previous=self.source.previous, facts=self.facts, target=target
        )

    async def _ask(self, request: str, prompt: SummaryPrompt) -> str | None:
        """Return the model's answer, ``""`` if it is of no use; None if no more may be asked."""
        if self.cancelled is not None and self.cancelled.is_set():
            raise asyncio.CancelledError
        if refusal := self.limiter.book_call(self.model):
            _log.info("no model writes this summary: %s", refusal)
            return None
        self.calls += 1
        work = self.complete(request, instructions=prompt.instructions)
        try:
            answer = await _wait_unless(self.cancelled, work, self.seconds)
        except TooLong:
            self.shown = clip_middle(self.shown, byte_size(self.shown) // 2, "\n… cut …\n")
            return ""
        except CompletionFailed as error:
            if error.kind == "auth":
                self.limiter.record_auth_failure(self.model)
            return "" if error.kind == "other" else None
        except (TreadleError, TimeoutError) as error:
            _log.info("the model gave no summary: %s", error)
            return ""
        self.limiter.record_success(self.model)
        return clean_answer(answer)

    def _fits(self, text: str) -> bool:
        """Return whether the text is shorter than its source and not too long."""
        tokens = estimate_text(text)
        if tokens > self.target * _LONG:
            _log.warning("a summary has %d tokens; %d were asked for", tokens, self.target)
        return bool(text) and tokens <= self._limit

    @property
    def _limit(self) -> int:
        return min(self.target * _MOST, self.tokens - 1)

    def _is_about_source(self, text: str) -> bool:
        """Return whether the text is about its source at all."""
        if len(self.facts) < _MANY_FACTS:
            return True
        return len(missing_facts(self.facts, summary_body(text))) < len(self.facts)

    async def _amend(self, request: str, prompt: SummaryPrompt, text: str) -> str:
        """Ask once more for a text that lost facts; return the better of the two."""
        lost = missing_facts(self.facts, text)
        if not lost:
            return text
        again = await self._ask(amend_request(request, text, lost), prompt)
        if not again or not self._fits(again):
            return text
        return again if len(missing_facts(self.facts, again)) < len(lost) else text

    def _finish(self, text: str, prompt: SummaryPrompt) -> Summary:
        expand = max(_LEAST_EXPAND, int(self.target * _EXPAND_SHARE))
        room = min(expand, self._limit - estimate_text(text)) * BYTES_PER_TOKEN
        text, lost = add_missing_facts(text, self.facts, room)
        return Summary(
            text=text, model=self.model, prompt=prompt.version, missing=lost, calls=self.calls
        )


async def _wait_unless(
    cancelled: asyncio.Event | None, work: Coroutine[Any, Any, T], seconds: float
) -> T:
    """Wait for `work` for `seconds`, and raise `CancelledError` when `cancelled` is set."""
    if cancelled is None:
        async with asyncio.timeout(seconds):
            return await work
    answer_task = asyncio.ensure_future(work)
    cancel_task = asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait(
            (answer_task, cancel_task), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if answer_task.done():
            return answer_task.result()
        if cancel_task.done():
            raise asyncio.CancelledError
        raise TimeoutError
    finally:
        answer_task.cancel()
        cancel_task.cancel()
        await asyncio.gather(answer_task, cancel_task, return_exceptions=True)


def clean_answer(answer: str) -> str:
    """Return the summary in a model's answer; ``""`` when it holds only reasoning.

    Takes off reasoning, wrappings and whatever reads as the frame of a conversation.
    """
    text = answer.encode(errors="replace").decode()
    text = _THOUGHT_BEFORE.sub("", _THINKING.sub("", text))
    # Removing one marker may join the parts of another.
    while (less := _FRAME.sub("", text)) != text:
        text = less
    text = text.strip()
    if fenced := _FENCE.match(text):
        text = fenced[1]
    text = _ROLE.sub(r"\1\2 said:", _HEADING.sub("", text)).strip()
    body = summary_body(text)
    return with_expand_line(body, expand_names(text)) if body else ""
