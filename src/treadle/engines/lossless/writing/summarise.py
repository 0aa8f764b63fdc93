"""Summarise a source, with a model where one can be asked.

Owns the way from the usual prompt over a stricter one to an extract, and how a model's
answer is cleaned and checked. Invariants: a summary always comes back, smaller than its
source, and no statement in it contradicts that; a model is asked at most three times, never
against its call limits, and never after the work was cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec.structs import replace

from ....context.tokens import estimate_text
from ....core.errors import CompletionFailed, TooLong, TreadleError
from ....core.text import BYTES_PER_TOKEN
from ...values import Complete
from ..call_limits import CallLimiter
from ..call_pace import CallPace
from .answer_faults import repeats_itself, repeats_prompt
from .claim_check import ClaimCheck, lines_without
from .clipping import byte_size, clip_middle
from .extract import extract
from .key_facts import Fact, add_missing_facts, find_facts, missing_facts
from .passages import Passage, passages
from .shortening import shorten
from .source import (
    Summary,
    SummarySource,
    expand_names,
    source_tokens,
    summary_body,
    with_expand_line,
)
from .summary_prompts import (
    TASKS,
    SummaryPrompt,
    amend_request,
    prompt_for,
    render_passages,
    summary_request,
)
from .user_words import split_wishes, wishes_in, with_wishes, within_room

__all__ = ["clean_answer", "summarise"]

T = TypeVar("T")

_SHARE = 0.35
"""A summary should take no more of its source than this …"""
_LEAST = 32
"""… unless that is less than these tokens, which every summary may have."""
_STRICT = 0.55
_MOST = 1.25
"""How many times its target a summary may be long, with all that is added to it."""
_TOO_LONG = 3
"""An answer so many times too long was not written to be shortened."""
_WISH_SHARE = 0.5
"""How much of a summary the user's own words may take."""
_EXPAND_SHARE = 0.2
_LEAST_EXPAND = 48
_MANY_FACTS = 4
"""A text that has none of its facts is no summary, where the source has so many."""
_MANY_LOST = 6
_LOST_SHARE = 0.5
"""A text that lost so many facts, and more than this share of them, is asked for once more."""
_MOST_WRONG = 0.34
"""A text of which more than this contradicts its source is of no use as a whole."""

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
    pace: CallPace | None = None,
) -> Summary:
    """Return a summary of `source` in about `target` tokens.

    Return an extract, marked as degraded, where no model can be asked or it fails.
    `pace` limits the time of each call. Raises `asyncio.CancelledError` once `cancelled` is set.
    """
    target = max(target, _LEAST)
    if complete is None:
        return extract(source, target)
    writer = _SummaryWriter(source, complete, model, target, limiter, cancelled, pace or CallPace())
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
    pace: CallPace
    calls: int = 0
    tokens: int = field(init=False)
    pieces: tuple[Passage, ...] = field(init=False)
    facts: tuple[Fact, ...] = field(init=False)
    wishes: tuple[str, ...] = field(init=False)
    shown: str = field(init=False)
    _check: ClaimCheck | None = None

    def __post_init__(self) -> None:
        self.pieces = passages(self.source)
        self.facts, self.shown = find_facts(self.pieces), render_passages(self.pieces)
        self.tokens = source_tokens(self.source)
        self.target = min(self.target, max(_LEAST, int(self.tokens * _SHARE)))
        room = int(self.target * _WISH_SHARE) * BYTES_PER_TOKEN
        self.wishes = within_room(wishes_in(self.pieces), room)

    async def write(self) -> Summary | None:
        """Return the model's summary; None when it gives none that can be used."""
        for strict in (False, True):
            prompt = prompt_for(self.source.depth, strict=strict)
            request = self._request(strict=strict)
            answer = await self._ask(request, prompt)
            if answer is None:
                return None
            text = await self._check_answer(answer, prompt)
            if text:
                text = await self._amend(request, prompt, text)
                return self._finish(text, prompt)
        return None

    def _request(self, *, strict: bool) -> str:
        target = max(_LEAST, int(self._body_target * _STRICT)) if strict else self._body_target
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
            answer = await self._wait(work, estimate_text(request))
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

    async def _wait(self, work: Coroutine[Any, Any, str], read: int) -> str:
        """Wait for an answer as long as this model may take, and measure how long it took."""
        pace, begun = self.pace, self.pace.clock()
        limit = pace.limit(self.model, read, self.target)
        try:
            answer = await _wait_unless(self.cancelled, work, limit)
        except TimeoutError:
            # What ran into its limit takes at least that long.
            pace.record(self.model, read, self.target, limit, answered=False)
            raise
        pace.record(self.model, read, self.target, pace.clock() - begun, answered=True)
        return answer

    async def _check_answer(self, text: str, prompt: SummaryPrompt) -> str:
        """Return an answer as it may stand, without what contradicts its source; else ``""``."""
        if not text or estimate_text(text) > _TOO_LONG * self._body_limit:
            return ""
        body = summary_body(text)
        if repeats_itself(body) or repeats_prompt(body, prompt.instructions + TASKS):
            _log.info("the model said its prompt or itself again")
            return ""
        text = shorten(text, self._body_limit * BYTES_PER_TOKEN)
        wrong = await asyncio.to_thread(self._contradictions, summary_body(text))
        if wrong:
            _log.info("a summary contradicts its source: %s", "; ".join(wrong))
        if len(wrong) > _MOST_WRONG * len(text.splitlines()):
            return ""
        text = lines_without(text, frozenset(wrong))
        return text if summary_body(text) and self._is_about_source(text) else ""

    def _contradictions(self, body: str) -> tuple[str, ...]:
        if self._check is None:
            self._check = ClaimCheck(self.pieces, self.source.previous)
        return self._check.contradictions(body)

    @property
    def _limit(self) -> int:
        """The most tokens of the whole summary."""
        return min(int(self.target * _MOST), self.tokens - 1)

    @property
    def _body_limit(self) -> int:
        """The most tokens of what the model writes."""
        return max(0, self._limit - self._wish_tokens)

    @property
    def _body_target(self) -> int:
        return max(_LEAST, self.target - self._wish_tokens)

    @property
    def _wish_tokens(self) -> int:
        return estimate_text(with_wishes("", self.wishes)) + 1 if self.wishes else 0

    def _is_about_source(self, text: str) -> bool:
        """Return whether the text is about its source at all."""
        names = self._names
        if len(missing_facts(names, with_wishes("", self.wishes))) < _MANY_FACTS:
            return True
        return len(missing_facts(names, summary_body(text))) < len(names)

    @property
    def _names(self) -> list[Fact]:
        """The facts without numbers: a source may be full of those that matter to nobody."""
        return [fact for fact in self.facts if fact.kind != "number"]

    async def _amend(self, request: str, prompt: SummaryPrompt, text: str) -> str:
        """Ask once more for a text that lost many facts; return the better of the two."""
        facts = self._names
        lost = missing_facts(facts, with_wishes(text, self.wishes))
        if len(lost) < _MANY_LOST or len(lost) <= _LOST_SHARE * len(facts):
            return text
        answer = await self._ask(amend_request(request, text, lost), prompt)
        again = await self._check_answer(answer or "", prompt)
        if not again or _own_words(again, self.facts) < _own_words(text, self.facts) // 2:
            return text
        kept = with_wishes(again, self.wishes)
        return again if len(missing_facts(facts, kept)) < len(lost) else text

    def _finish(self, text: str, prompt: SummaryPrompt) -> Summary:
        expand = max(_LEAST_EXPAND, int(self.target * _EXPAND_SHARE))
        full = with_wishes(summary_body(text), self.wishes)
        text = with_expand_line(full, expand_names(text))
        room = min(expand, self._limit - estimate_text(text)) * BYTES_PER_TOKEN
        text, lost = add_missing_facts(text, self.facts, room)
        return Summary(
            text=text, model=self.model, prompt=prompt.version, missing=lost, calls=self.calls
        )


def _own_words(text: str, facts: Sequence[Fact]) -> int:
    """Return how many words a text has beside the facts: a list of them is no summary."""
    body = summary_body(text)
    for fact in facts:
        body = body.replace(fact.text, " ")
    return len(body.split())


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
    # The section of the user's words is filled with what the user said, not by a model.
    body = split_wishes(summary_body(text))[0].strip()
    return with_expand_line(body, expand_names(text)) if body else ""
