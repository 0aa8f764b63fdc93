"""`request_user_input`: questions a model has for the user.

Owns their shape. Invariant: a model gets the user's answers, or is told that
nobody answered; it never waits for somebody who is not there.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..core.specs import FunctionTool, parameters
from ..core.wire import json_bytes
from .arguments import BadArguments, read_arguments
from .contract import Choice, ToolCall, ToolContext, ToolResult, UserQuestion

__all__ = ["RequestUserInput"]


class _Option(Struct, forbid_unknown_fields=True):
    label: str
    description: str


class _Question(Struct, forbid_unknown_fields=True):
    id: str
    header: Annotated[str, Meta(max_length=12)]
    question: str
    options: Annotated[tuple[_Option, ...], Meta(min_length=2, max_length=3)]


class _Request(Struct, forbid_unknown_fields=True):
    questions: Annotated[tuple[_Question, ...], Meta(min_length=1, max_length=3)]


def _object(properties: dict[str, dict[str, object]]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_OPTION = _object(
    {
        "description": {"type": "string", "description": "What choosing it means, in a sentence."},
        "label": {"type": "string", "description": "One to five words."},
    }
)
_QUESTION = _object(
    {
        "header": {"type": "string", "description": "A heading of at most 12 characters."},
        "id": {"type": "string", "description": "A name for the answer, in snake_case."},
        "options": {
            "type": "array",
            "items": _OPTION,
            "description": "Two or three choices, the best one first. "
            "The user can always answer in other words.",
        },
        "question": {"type": "string", "description": "The question, in one sentence."},
    }
)


class RequestUserInput:
    """Puts questions to the user."""

    parallel = False
    replay_safe = True

    spec = FunctionTool(
        name="request_user_input",
        description="Asks the user one to three short questions and waits for the answers.",
        parameters=parameters(
            {
                "questions": {
                    "type": "array",
                    "items": _QUESTION,
                    "description": "One to three questions.",
                }
            },
            required=("questions",),
        ),
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Ask, if there is anybody to ask."""
        try:
            asked = read_arguments(call.name, call.arguments, _Request)
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        if context.consult is None:
            return ToolResult(
                f"{call.name} failed: nobody can be asked here; decide for yourself and say so",
                success=False,
            )
        answers = await context.consult(tuple(map(_told, asked.questions)))
        if answers is None:
            return ToolResult(f"{call.name} failed: the user did not answer", success=False)
        found = {key: {"answers": list(values)} for key, values in answers.items()}
        return ToolResult(json_bytes({"answers": found}).decode())


def _told(question: _Question) -> UserQuestion:
    options = tuple(Choice(option.label, option.description) for option in question.options)
    return UserQuestion(
        id=question.id, header=question.header, question=question.question, options=options
    )
