"""`update_plan` and `request_user_input`: tools for the user who watches.

Owns the shape of plans and questions. Invariants: the plan lives in the log as the call
itself, so the tool only checks it; a model gets the user's answers, or reads that nobody
answered: it never waits for somebody who is not there.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..core.wire import json_bytes
from .arguments import InvalidArguments, parse_arguments
from .contract import AnswerOption, ToolCall, ToolContext, ToolResult, UserQuestion

__all__ = ["request_user_input", "update_plan"]


class _Step(Struct, forbid_unknown_fields=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class _PlanArguments(Struct, forbid_unknown_fields=True):
    plan: tuple[_Step, ...]
    explanation: str | None = None


class _Option(Struct, forbid_unknown_fields=True):
    label: str
    description: str


class _Question(Struct, forbid_unknown_fields=True):
    id: str
    header: Annotated[str, Meta(max_length=12)]
    question: str
    options: Annotated[tuple[_Option, ...], Meta(min_length=2, max_length=3)]


class _QuestionArguments(Struct, forbid_unknown_fields=True):
    questions: Annotated[tuple[_Question, ...], Meta(min_length=1, max_length=3)]


async def update_plan(call: ToolCall, context: ToolContext) -> ToolResult:
    """Check a plan."""
    del context
    try:
        parse_arguments(call.name, call.arguments, _PlanArguments)
    except InvalidArguments as error:
        return ToolResult(str(error), success=False)
    return ToolResult("Plan updated")


async def request_user_input(call: ToolCall, context: ToolContext) -> ToolResult:
    """Ask the user, if there is anybody to ask."""
    try:
        arguments = parse_arguments(call.name, call.arguments, _QuestionArguments)
    except InvalidArguments as error:
        return ToolResult(str(error), success=False)
    if context.ask_questions is None:
        return ToolResult(
            f"{call.name} failed: nobody can be asked here; decide for yourself and say so",
            success=False,
        )
    answers = await context.ask_questions(tuple(map(_user_question, arguments.questions)))
    if answers is None:
        return ToolResult(f"{call.name} failed: the user did not answer", success=False)
    found = {key: {"answers": list(values)} for key, values in answers.items()}
    return ToolResult(json_bytes({"answers": found}).decode())


def _user_question(question: _Question) -> UserQuestion:
    options = tuple(AnswerOption(option.label, option.description) for option in question.options)
    return UserQuestion(
        id=question.id, header=question.header, question=question.question, options=options
    )
