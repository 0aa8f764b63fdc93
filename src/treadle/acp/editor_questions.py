"""Questions: what a turn asks the user, through the client.

Owns the words and the options of a question, and what each answer means. Invariants: only a
clear yes is a yes; a client that cannot take a question, or fails at it, refuses it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from acp.helpers import text_block, tool_content
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    CreateElicitationResponse,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from ..core.redact import redact_known
from ..sandbox.approval_forms import named_decision, shorten_command, shown_prefix
from ..sandbox.approvals import Ask, Decision, No, NoAndStop
from ..tools.contract import Answers, UserQuestion
from .call_views import Contents

__all__ = [
    "NOBODY_ANSWERS",
    "approval_call",
    "approval_options",
    "form",
    "form_message",
    "read_answers",
    "read_decision",
]

NOBODY_ANSWERS: Decision = No("nobody could be asked; find another way or stop")
_REFUSED = "the user refused it; find another way or stop"


def approval_call(
    call_id: str, ask: Ask, shown: Sequence[Contents] | None = None, who: str = ""
) -> ToolCallUpdate:
    """Return the call that needs an approval, as the client shows it.

    `shown` is what the client has of the call, such as differences; None where it does not know
    it. `who` is an agent.
    """
    where = "outside the sandbox" if ask.outside else "in the sandbox"
    command = shorten_command(redact_known(shlex.join(ask.argv)))
    told = [f"{where}: {ask.reason}", *([f"in {ask.cwd}"] if ask.cwd else [])]
    title = f"{who} wants to run {command}" if who else command
    return ToolCallUpdate(
        tool_call_id=call_id,
        title=title,
        kind="execute" if shown is None else None,
        status="pending",
        content=[*(shown or ()), tool_content(text_block(redact_known("\n".join(told))))],
        raw_input={"command": command, "cwd": ask.cwd},
    )


def approval_options(ask: Ask) -> list[PermissionOption]:
    """Return what the user may answer."""
    options = [
        PermissionOption(option_id="once", name="Allow once", kind="allow_once"),
        PermissionOption(option_id="thread", name="Allow in this session", kind="allow_always"),
    ]
    if prefix := shown_prefix(ask):
        name = f"Always allow {prefix} … in this directory"
        options.append(PermissionOption(option_id="prefix", name=name, kind="allow_always"))
    return [
        *options,
        PermissionOption(option_id="no", name="Refuse and go on", kind="reject_once"),
        PermissionOption(option_id="stop", name="Refuse and stop", kind="reject_always"),
    ]


def read_decision(ask: Ask, answer: RequestPermissionResponse) -> Decision:
    """Return what an answer means; one that was withdrawn ends the turn."""
    if not isinstance(answer.outcome, AllowedOutcome):
        return NoAndStop()
    return named_decision(answer.outcome.option_id, ask, _REFUSED) or No(_REFUSED)


def form_message(questions: tuple[UserQuestion, ...]) -> str:
    """Return what a client shows above the form."""
    return redact_known("\n".join(f"{each.header}: {each.question}" for each in questions))


def form(session: str, questions: tuple[UserQuestion, ...]) -> ElicitationFormSessionMode:
    """Return the form of the model's questions."""
    properties: dict[str, Any] = {each.id: _property(each) for each in questions}
    schema = ElicitationSchema(
        type="object", properties=properties, required=[each.id for each in questions]
    )
    return ElicitationFormSessionMode(session_id=session, requested_schema=schema)


def read_answers(questions: tuple[UserQuestion, ...], answer: CreateElicitationResponse) -> Answers:
    """Return the answers of a form; None where the user gave none."""
    if not isinstance(answer, AcceptElicitationResponse):
        return None
    content = answer.model_dump(mode="json").get("content") or {}
    texts = {each.id: content.get(each.id) for each in questions}
    return {name: (text,) for name, text in texts.items() if isinstance(text, str)} or None


def _property(question: UserQuestion) -> ElicitationStringPropertySchema:
    options = "; ".join(f"{each.label}: {each.description}" for each in question.options)
    told = f"{question.question} ({options}, or other words)" if options else question.question
    return ElicitationStringPropertySchema(
        type="string", title=question.header, description=redact_known(told)
    )
