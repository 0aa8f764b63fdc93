"""Completions: asking a model something outside the conversation, mostly the thread's own.

Owns the request for a summary, and the one that lets a provider compact the conversation
itself. Where a provider caches prefixes they ride the conversation's own head and
prefix, so that only the question is new; calls the model makes instead of answering
are refused. Invariant: each request is noted before its first byte leaves, and of its answer
only the end is recorded: who gave it, and what it cost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..context.compose import item_draft
from ..context.request import Request, RequestEncoder
from ..context.row import Row
from ..context.rules import synthetic_output
from ..core.entries import Head, Origin
from ..core.errors import CannotCompact, CompletionFailed, StoreError, TooLong, TreadleError
from ..core.items import (
    Compaction,
    CompactionTrigger,
    ContextCompaction,
    CustomToolCall,
    FunctionCall,
    Item,
    LocalShellCall,
    Message,
    text_of,
)
from ..core.redact import blank_value, redact_known
from ..core.stream import OutputItemDone, ResponseCompleted
from ..core.usage import TokenUsage
from ..models.contract import (
    AuthFailed,
    ContextOverflow,
    ModelError,
    ModelRequest,
    RateLimited,
    RemoteCompaction,
    StreamCut,
)
from ..prompt.input import user_message
from ..prompt.instructions import shorter_prompt
from .answers import read_answer
from .contract import TurnRun
from .model_request import model_request
from .summary_model import SummaryModel, can_be_shown, tell_failure, transcript_rows
from .summary_route import is_cheaper_apart

if TYPE_CHECKING:
    from ..engines.compaction import ProviderCompaction, SummariseRows

__all__ = ["RECALL", "EngineComplete", "completer", "provider_compaction"]

T = TypeVar("T")

_REFUSED = "Refused: no tools while you summarise. Answer with the summary."
_CUT_BY_LENGTH = "max_output_tokens"
_ROUNDS = 3
"""How often a model that calls tools instead of answering is asked."""

_PROVIDER_RETRIES = 2
_OTHER_RETRIES = 1
"""How often another model is asked again; there is one to fall back to."""
RECALL = "context-engine.recall"
"""What the requests are for that answer a tool of an engine's."""
_COMPACTION = "compaction"
"""What the requests are for that compact a view."""


class _Question(Struct, frozen=True):
    """A request outside the conversation, and what it is for."""

    request: Request
    sent: ModelRequest
    purpose: str
    asked: SummaryModel | None = None
    """Who is asked; None for the model of the thread."""


def completer(run: TurnRun) -> SummariseRows:
    """Asks the model of `run`, or the one that the plan has for summaries."""

    async def complete(rows: Sequence[Row], prompt: Message) -> str:
        other = await run.find_summary_model("compaction")
        if other is None and is_cheaper_apart(run, rows):
            other = _own_model(run)
        if other is not None and can_be_shown(rows):
            asked = await transcript_rows(run, rows, prompt)
            if text := await _ask_other(run, other, asked, _COMPACTION):
                return text
        for question in (prompt, shorter_prompt(prompt)):
            try:
                return await _ask_for_summary(run, [*rows, Row.of_draft(item_draft(question))])
            except StreamCut as error:
                if error.code != _CUT_BY_LENGTH:
                    raise
        return ""

    return complete


def _own_model(run: TurnRun) -> SummaryModel:
    """Return the thread's own model as one that is asked apart from the conversation."""
    head = run.log.view.head
    assert head is not None, "rows were sent under a head"
    bare = msgspec.structs.replace(head, tools=(), output_schema=msgspec.UNSET)
    return SummaryModel(name=run.log.setup.model, model=run.model, head=bare)


async def _ask_for_summary(run: TurnRun, asked: list[Row]) -> str:
    """Return what the model says; calls that it makes instead are refused."""
    for _ in range(_ROUNDS):
        items = await _answer(run, _question(run, asked))
        text = _text(items)
        answers = _refusals(run, items)
        if text or not answers:
            return text
        asked += answers
    return ""


class EngineComplete(Struct, frozen=True):
    """Lets a context engine ask the thread's own model, for one purpose."""

    run: TurnRun
    purpose: str

    async def __call__(
        self, prompt: str, *, items: Sequence[Item] = (), instructions: str = ""
    ) -> str:
        """The model's answer, with no tools; the log has only that it was asked, and its usage.

        Raises `TooLong` and `CompletionFailed`.
        """
        log = self.run.log
        if log.view.head is None:
            raise CannotCompact("the thread has not asked its model anything yet")
        # Not the view's own: another model may answer by now.
        head = msgspec.structs.replace(
            await log.setup.head(log.view.head),
            tools=(),
            instructions=redact_known(instructions),
            output_schema=msgspec.UNSET,
        )
        drafts = blank_value([item_draft(item) for item in (*items, user_message(prompt))])
        rows = [Row.of_draft(draft) for draft in drafts]
        # What is recalled is for the thread's model, which knows what it looks for.
        summary = not items and self.purpose != RECALL
        if summary and (other := await self.run.find_summary_model("engine")) is not None:
            text = await _ask_other(self.run, other, rows, self.purpose, head.instructions)
            if text:
                return text
        question = _build_question(self.run, head, rows, self.purpose)
        try:
            return _text(await _answer(self.run, question, waits_for_limits=False))
        except ModelError as error:
            raise _engine_error(error) from error


async def _ask_other(
    run: TurnRun, other: SummaryModel, rows: Sequence[Row], purpose: str, instructions: str = ""
) -> str:
    """Return what another model says; nothing where it fails, and the user was told."""
    head = msgspec.structs.replace(other.head, instructions=instructions)
    question = replace(_build_question(run, head, rows, purpose), asked=other)
    try:
        text = _text(await _answer(run, question, _OTHER_RETRIES, waits_for_limits=False))
        if not text.strip():
            raise CompletionFailed("it gave no summary", "other")
    except StoreError:
        raise
    except TreadleError as error:
        tell_failure(run, other.name, error)
        return ""
    return text


def _engine_error(error: ModelError) -> CompletionFailed:
    """The error as an engine may know it: engines know no models."""
    if isinstance(error, AuthFailed):
        return CompletionFailed(str(error), "auth")
    return CompletionFailed(str(error), "limit" if isinstance(error, RateLimited) else "other")


def provider_compaction(run: TurnRun) -> ProviderCompaction | None:
    """Lets the provider of `run` compact a conversation; None where it cannot, or must not."""
    if run.plan is not None and "compaction" in run.plan.summaries:
        return None
    form = run.model.capabilities.remote_compaction
    if form == "none" or (form == "endpoint" and not isinstance(run.model, RemoteCompaction)):
        return None
    ask = _ask_with_trigger if form == "trigger" else _ask_endpoint

    async def compact(rows: Sequence[Row]) -> Item:
        try:
            items = await ask(run, rows)
        except ModelError as error:
            raise CannotCompact(f"the provider could not compact the thread: {error}") from error
        found = [item for item in items if isinstance(item, Compaction | ContextCompaction)]
        if len(found) != 1:
            raise CannotCompact(f"the provider gave {len(found)} compactions instead of one")
        return found[0]

    return compact


async def _ask_with_trigger(run: TurnRun, rows: Sequence[Row]) -> list[Item]:
    trigger = item_draft(CompactionTrigger(), origin=run.log.origin)
    return await _answer(run, _question(run, [*rows, Row.of_draft(trigger)]), _PROVIDER_RETRIES)


async def _ask_endpoint(run: TurnRun, rows: Sequence[Row]) -> list[Item]:
    model = run.model
    assert isinstance(model, RemoteCompaction), "its capabilities say that it can"
    question = _question(run, rows)

    async def ask() -> list[Item]:
        async with _note_question(run, question):
            return await model.compact(question.sent)

    return await _ask_with_retries(run, ask, _PROVIDER_RETRIES)


def _question(run: TurnRun, rows: Sequence[Row]) -> _Question:
    head = run.log.view.head
    assert head is not None, "rows were sent under a head"
    # A summary is prose, whatever shape the turn's answer must have.
    head = msgspec.structs.replace(head, output_schema=msgspec.UNSET)
    if not run.model.capabilities.caches_prefixes:
        head = msgspec.structs.replace(head, tools=())
    return _build_question(run, head, rows, _COMPACTION)


def _build_question(run: TurnRun, head: Head, rows: Sequence[Row], purpose: str) -> _Question:
    view = run.log.view
    encoder = RequestEncoder(head, view.cache_key)
    request = encoder.encode(rows, epoch=view.epoch, upto=view.upto)
    return _Question(request, model_request(run, request, head), purpose)


class _Counted(Struct):
    """What an answer cost, once its end has come."""

    usage: TokenUsage | None = None


@asynccontextmanager
async def _note_question(run: TurnRun, question: _Question) -> AsyncGenerator[_Counted, None]:
    """Note that a question goes out, and when it was answered what that cost."""
    head, requests = question.sent.head, run.log.requests
    origin = Origin(head.provider, head.api, head.model, head.account, "treadle")
    entry = await requests.note_completion(question.request, question.purpose)
    counted = _Counted()
    try:
        yield counted
    except ModelError:
        await requests.record_completion(
            entry, question.purpose, origin=origin, status="failed", usage=counted.usage
        )
        raise
    await requests.record_completion(entry, question.purpose, origin=origin, usage=counted.usage)


async def _answer(
    run: TurnRun,
    question: _Question,
    retries: int | None = None,
    *,
    waits_for_limits: bool = True,
) -> list[Item]:
    other = question.asked
    model, pricing = (other.model, other.pricing) if other else (run.model, None)

    async def ask() -> list[Item]:
        items: list[Item] = []
        try:
            async with (
                _note_question(run, question) as counted,
                aclosing(read_answer(model, question.sent)) as answer,
            ):
                async for batch in answer:
                    for event in batch:
                        if isinstance(event, OutputItemDone):
                            items.append(event.item)
                        elif isinstance(event, ResponseCompleted):
                            counted.usage = event.usage
                            run.budget.add(event.usage, pricing=pricing)
        except RateLimited as error:
            # An engine has time: it asks again later, and nobody waits for it now.
            error.retryable &= waits_for_limits or error.retry_after is not None
            raise
        return items

    return await _ask_with_retries(run, ask, retries)


async def _ask_with_retries(
    run: TurnRun, ask: Callable[[], Awaitable[T]], retries: int | None = None
) -> T:
    """What `ask` gives, asked for again while it may help. Raises `TooLong`."""
    most = [each for each in (retries, run.retries) if each is not None]
    backoff = replace(run.backoff, retries=min(run.backoff.retries, *most)) if most else run.backoff
    try:
        return await backoff.run(ask)
    except ContextOverflow as error:
        raise TooLong(str(error)) from error


def _text(items: Sequence[Item]) -> str:
    said = [text_of(item.content) for item in items if isinstance(item, Message)]
    return said[-1] if said else ""


def _refusals(run: TurnRun, items: Sequence[Item]) -> list[Row]:
    """What the model said, with every call refused; nothing when it called nothing."""
    said = [Row.of_draft(item_draft(item, origin=run.log.origin)) for item in items]
    calls = [
        Row.of_draft(item_draft(synthetic_output(row, _REFUSED)))
        for row, item in zip(said, items, strict=True)
        if isinstance(item, FunctionCall | CustomToolCall | LocalShellCall)
    ]
    return [*said, *calls] if calls else []
