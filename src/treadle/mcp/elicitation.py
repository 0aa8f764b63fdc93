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
from ..core.text import whole_characters
from ..tools.contract import AnswerOption, Answers, AskQuestions, UserQuestion

if TYPE_CHECKING:
    from mcp.client.session import ElicitationFnT

__all__ = ["Elicitor"]

_MOST_QUESTIONS = 10
_MOST_ROUNDS = 3
"""How often a form is asked about until every answer is one."""
_MOST_OPTIONS = 20
_LONGEST = 2_000
_YES, _NO = "yes", "no"
_ACCEPT, _DECLINE = "done", "decline"
_BOOLEANS = {_YES: True, "y": True, "true": True, _NO: False, "n": False, "false": False}

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

    async def _ask(self, server: str, params: Any) -> tuple[str, dict[str, Any] | None]:
        # Servers with a handshake ask on a stream of their own, outside the context of a call.
        calls = self._calls.get(server, [])
        ask = _ASKS.get() or (calls[-1] if calls else None)
        if ask is None:
            return "decline", None
        if params.mode == "url":
            return await self._ask_for_visit(server, params, ask)
        schema = params.requested_schema
        if hasattr(schema, "model_dump"):
            schema = schema.model_dump(by_alias=True, exclude_none=True)
        return await self._fill_form(server, _plain(params.message), schema, ask)

    async def _fill_form(
        self, server: str, message: str, schema: Mapping[str, Any], ask: AskQuestions
    ) -> tuple[str, dict[str, Any] | None]:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        fields = {name: each for name, each in properties.items() if isinstance(each, Mapping)}
        if len(fields) > _MOST_QUESTIONS or any(is_secret(name, "") for name in fields):
            return "decline", None
        asked = f"The MCP server {server!r} asks: {message}"
        if not fields:
            agreed = (AnswerOption(_YES, "agree"), AnswerOption(_NO, "decline"))
            answers = await ask((_question("answer", server, asked, agreed),))
            said = _first(answers, "answer")
            return ("accept", {}) if said.lower() == _YES else ("decline", None)
        required = schema.get("required") or ()
        content: dict[str, Any] = {}
        wrong = dict.fromkeys(fields, "")
        for _ in range(_MOST_ROUNDS):
            answers = await ask(
                tuple(
                    _question(name, server, f"{asked}\n{_label(name, fields[name])}{why}", options)
                    for name, why in wrong.items()
                    for options in [_options(fields[name])]
                )
            )
            if answers is None:
                return "decline", None
            wrong = _take(answers, {name: fields[name] for name in wrong}, required, content)
            if not wrong:
                return "accept", content
        return "cancel", None

    async def _ask_for_visit(
        self, server: str, params: Any, ask: AskQuestions
    ) -> tuple[str, dict[str, Any] | None]:
        url = _plain(params.url)
        if not url.startswith(("https://", "http://")):
            return "decline", None
        asked = (
            f"The MCP server {server!r} wants you to visit {url}\n{_plain(params.message)}\n"
            "Open it yourself if you trust it, then answer."
        )
        options = (AnswerOption(_ACCEPT, "I have been there"), AnswerOption(_DECLINE, "no"))
        said = _first(await ask((_question("visit", server, asked, options),)), "visit")
        return ("accept" if said.lower() == _ACCEPT else "decline"), None


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


def _plain(text: object) -> str:
    return whole_characters(str(text))[:_LONGEST]


def _label(name: str, schema: Mapping[str, Any]) -> str:
    title, about = schema.get("title") or name, schema.get("description")
    default = schema.get("default")
    told = f"{title}: {about}" if about else title
    return _plain(
        told if default is None else f"{told} (without an answer: {_value_text(default)})"
    )


def _value_text(value: object) -> str:
    """Return a value as the user would type it."""
    if isinstance(value, bool):
        return _YES if value else _NO
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _options(schema: Mapping[str, Any]) -> tuple[AnswerOption, ...]:
    """Return what may be chosen, as far as it can be shown; nothing where the user writes."""
    return tuple(AnswerOption(value, name) for value, name in _choices(schema)[:_MOST_OPTIONS])


def _choices(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return all values that may be chosen, each with what it means."""
    if schema.get("type") == "boolean":
        return [(_YES, ""), (_NO, "")]
    inner = schema.get("items") if isinstance(schema.get("items"), Mapping) else schema
    assert isinstance(inner, Mapping)
    titled = inner.get("oneOf") or inner.get("anyOf") or ()
    if isinstance(titled, list) and titled:
        found = [(each.get("const"), each.get("title", "")) for each in titled]
    else:
        values = inner.get("enum") or ()
        found = [*zip(values, inner.get("enumNames") or values, strict=False)]
    return [(_plain(value), _plain(name)) for value, name in found]


def _first(answers: Mapping[str, tuple[str, ...]] | None, name: str) -> str:
    found = (answers or {}).get(name) or ("",)
    return found[0].strip()


def _take(
    answers: Mapping[str, tuple[str, ...]],
    fields: Mapping[str, Mapping[str, Any]],
    required: Iterable[str],
    content: dict[str, Any],
) -> dict[str, str]:
    """Put what was answered into `content`; return which answers are none, with the reason."""
    wrong: dict[str, str] = {}
    for name, schema in fields.items():
        said = _first(answers, name)
        value = _value(said, schema) if said else schema.get("default")
        if value is not None:
            content[name] = value
        elif said:
            wrong[name] = f"\n{said!r} is no answer to it: it wants {_accepted_text(schema)}"
        elif name in required:
            wrong[name] = "\nIt needs an answer."
    return wrong


def _accepted_text(schema: Mapping[str, Any]) -> str:
    """Return in words what a field takes."""
    chosen = ", ".join(repr(each.label) for each in _options(schema))
    several = schema.get("type") == "array"
    if chosen:
        return f"some of {chosen}, with commas between" if several else f"one of {chosen}"
    return {"integer": "a whole number", "number": "a number"}.get(schema.get("type", ""), "a text")


def _value(said: str, schema: Mapping[str, Any]) -> Any:
    """Return an answer as the schema wants it; None where it is none."""
    known = {value for value, _ in _choices(schema)}
    match schema.get("type"):
        case "boolean":
            return _BOOLEANS.get(said.lower())
        case "integer":
            return int(said) if said.lstrip("-").isdecimal() and len(said) < 18 else None
        case "number":
            try:
                return float(said)
            except ValueError:
                return None
        case "array":
            parts = [part.strip() for part in said.split(",") if part.strip()]
            return parts if not known or known.issuperset(parts) else None
        case _:
            return said if not known or said in known else None
