"""Elicitation: what a server wants to know from the user while it works on a call.

Owns the way from a server's question to the questions of the turn, and back. Invariants: the
question names the server; without anybody to ask, or who answers, it is declined; a form asks
for no secret; an address is shown and opened by nobody but the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from ..core.redact import is_secret
from ..tools.contract import AnswerOption, Answers, AskQuestions, UserQuestion
from .form_fields import NO, YES, FormField, plain_text

if TYPE_CHECKING:
    from mcp.client.session import ElicitationFnT

__all__ = ["Elicitor"]

_MOST_QUESTIONS = 30
_MOST_VISITS = 5
_MOST_ROUNDS = 3
"""How often a form is asked about until every answer is one."""
_ACCEPT, _DECLINE = "done", "decline"

_ASKS: ContextVar[AskQuestions | None] = ContextVar("mcp_asks", default=None)


class Elicitor:
    """Asks the user on behalf of servers, in the turn whose call they work on."""

    def __init__(self) -> None:
        self._calls: dict[str, list[AskQuestions | None]] = {}

    @contextmanager
    def during(self, server: str, ask: AskQuestions | None) -> Iterator[None]:
        """Let questions of `server` go to `ask` while a call runs."""
        calls = self._calls.setdefault(server, [])
        asking = None if ask is None else _in_context(ask)
        token = _ASKS.set(asking)
        calls.append(asking)
        try:
            yield
        finally:
            calls.remove(asking)
            _ASKS.reset(token)

    def callback(self, server: str) -> ElicitationFnT:
        """Return what the SDK calls when `server` asks."""
        from mcp_types import ElicitResult

        async def elicit(context: Any, params: Any) -> ElicitResult:
            del context
            action, content = await self._ask(server, params)
            return ElicitResult(action=action, content=content)  # type: ignore[arg-type]

        return elicit

    async def agree_to_visits(self, server: str, wanted: object, ask: AskQuestions | None) -> bool:
        """Have the user visit the addresses without which `server` does not do a call.

        `wanted` is what it sent with its error. Return whether all were visited.
        """
        told = wanted.get("elicitations") if isinstance(wanted, Mapping) else None
        visits = [each for each in told if isinstance(each, Mapping)] if told else []
        if ask is None or not 0 < len(visits) <= _MOST_VISITS:
            return False
        for each in visits:
            if not await _ask_for_visit(server, each.get("url"), each.get("message"), ask):
                return False
        return True

    async def _ask(self, server: str, params: Any) -> tuple[str, dict[str, Any] | None]:
        # Servers with a handshake ask on a stream of their own, outside the context of a call.
        calls = self._calls.get(server, [])
        ask = _ASKS.get() or (calls[-1] if calls else None)
        if ask is None:
            return "decline", None
        if params.mode == "url":
            agreed = await _ask_for_visit(server, params.url, params.message, ask)
            return ("accept" if agreed else "decline"), None
        schema = params.requested_schema
        if hasattr(schema, "model_dump"):
            schema = schema.model_dump(by_alias=True, exclude_none=True)
        return await self._fill_form(server, plain_text(params.message), schema, ask)

    async def _fill_form(
        self, server: str, message: str, schema: Mapping[str, Any], ask: AskQuestions
    ) -> tuple[str, dict[str, Any] | None]:
        fields = _fields(schema)
        if len(fields) > _MOST_QUESTIONS or any(is_secret(name, "") for name in fields):
            return "decline", None
        asked = f"The MCP server {server!r} asks: {message}"
        if not fields:
            agreed = (AnswerOption(YES, "agree"), AnswerOption(NO, "decline"))
            answers = await ask((_question("answer", server, asked, agreed),))
            said = _first(answers, "answer")
            return ("accept", {}) if said.lower() == YES else ("decline", None)
        content: dict[str, Any] = {}
        wrong = dict.fromkeys(fields, "")
        for _ in range(_MOST_ROUNDS):
            again = [fields[name] for name in wrong]
            texts = [f"{asked}\n{each.label}{wrong[each.name]}" for each in again]
            answers = await ask(
                tuple(
                    _question(each.name, server, text, each.options)
                    for each, text in zip(again, texts, strict=True)
                )
            )
            if answers is None:
                return "decline", None
            wrong = _take(answers, again, content)
            if not wrong:
                return "accept", content
        return "cancel", None


async def _ask_for_visit(server: str, url: object, message: object, ask: AskQuestions) -> bool:
    """Ask the user to visit an address; return whether they have been there."""
    shown = plain_text(url)
    if not shown.startswith(("https://", "http://")):
        return False
    asked = (
        f"The MCP server {server!r} wants you to visit {shown}\n{plain_text(message or '')}\n"
        "Open it yourself if you trust it, then answer."
    )
    options = (AnswerOption(_ACCEPT, "I have been there"), AnswerOption(_DECLINE, "no"))
    said = _first(await ask((_question("visit", server, asked, options),)), "visit")
    return said.lower() == _ACCEPT


def _in_context(ask: AskQuestions) -> AskQuestions:
    """Return `ask`, which knows the call that it is about although another task awaits it."""
    context = copy_context()

    async def ask_there(questions: tuple[UserQuestion, ...]) -> Answers:
        async def work() -> Answers:
            return await ask(questions)

        task = asyncio.create_task(work(), context=context.copy())
        try:
            return await task
        finally:
            task.cancel()

    return ask_there


def _question(name: str, server: str, text: str, options: tuple[AnswerOption, ...]) -> UserQuestion:
    return UserQuestion(id=name, header=server[:40], question=text, options=options)


def _first(answers: Mapping[str, tuple[str, ...]] | None, name: str) -> str:
    found = (answers or {}).get(name) or ("",)
    return found[0].strip()


def _fields(schema: Mapping[str, Any]) -> dict[str, FormField]:
    """Return the fields of a form, whatever else is in its schema."""
    properties, required = schema.get("properties"), schema.get("required")
    needed = required if isinstance(required, list) else ()
    return {
        name: FormField(name, each, name in needed)
        for name, each in (properties if isinstance(properties, Mapping) else {}).items()
        if isinstance(each, Mapping)
    }


def _take(
    answers: Mapping[str, tuple[str, ...]], fields: Iterable[FormField], content: dict[str, Any]
) -> dict[str, str]:
    """Put what was answered into `content`; return which answers are none, with the reason."""
    wrong: dict[str, str] = {}
    for field in fields:
        value, problem = field.read(answers.get(field.name, ()))
        if problem:
            wrong[field.name] = f"\n{problem}"
        elif value is not None:
            content[field.name] = value
    return wrong
