"""User forms: a question of a turn as a form that a client shows, and what its answer means.

Owns both. Invariant: only a clear yes is a yes; what a client leaves out, declines or invents
is a refusal.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..core.redact import redact_known
from ..harness.events import ApprovalRequested, QuestionsAsked
from ..sandbox.approval_forms import named_decision, shorten_command, shown_prefix
from ..sandbox.approvals import Ask, Decision, No, NoAndStop
from ..tools.contract import Answers, UserQuestion

__all__ = ["form_message", "form_schema", "read_answer"]

_REFUSED = "the user refused it; find another way or stop"


def form_message(question: ApprovalRequested | QuestionsAsked) -> str:
    """Return what a client shows above the form; it names who asks."""
    if isinstance(question, ApprovalRequested):
        return redact_known(_approval_text(question.call))
    asked = [f"{each.header}: {each.question}" for each in question.questions]
    return redact_known("\n".join(["Treadle's agent asks:", *asked]))


def form_schema(question: ApprovalRequested | QuestionsAsked) -> dict[str, Any]:
    """Return the schema of the form: a flat object."""
    if isinstance(question, ApprovalRequested):
        return _approval_schema(question.call)
    names = [each.id for each in question.questions]
    properties = {each.id: _question_schema(each) for each in question.questions}
    return {"type": "object", "properties": properties, "required": names}


def read_answer(
    question: ApprovalRequested | QuestionsAsked, action: str, content: Mapping[str, Any] | None
) -> Decision | Answers:
    """Return what an answer means."""
    given = content if action == "accept" and content else {}
    if isinstance(question, QuestionsAsked):
        texts = {each.id: given.get(each.id) for each in question.questions}
        return {name: (text,) for name, text in texts.items() if isinstance(text, str)} or None
    return NoAndStop() if action == "cancel" else _decision(question.call, given)


def _approval_text(ask: Ask) -> str:
    command = shorten_command(shlex.join(ask.argv))
    where = "OUTSIDE the sandbox" if ask.outside else "in the sandbox"
    told = [f"Treadle asks whether its agent may run, {where}:", command]
    told += [f"in {ask.cwd}"] if ask.cwd else []
    return "\n".join([*told, ask.reason])


def _approval_schema(ask: Ask) -> dict[str, Any]:
    choices = [("once", "Yes, once"), ("thread", "Yes, and again in this thread")]
    if prefix := shown_prefix(ask):
        choices.append(("prefix", f"Yes, always: {prefix} …"))
    choices += [("no", "No, and go on"), ("stop", "No, and end the turn")]
    decision = {
        "type": "string",
        "title": "Decision",
        "oneOf": [{"const": value, "title": title} for value, title in choices],
    }
    note = {"type": "string", "title": "Note", "description": "What the agent reads after a no."}
    properties = {"decision": decision, "note": note}
    return {"type": "object", "properties": properties, "required": ["decision"]}


def _question_schema(question: UserQuestion) -> dict[str, Any]:
    options = "; ".join(f"{each.label}: {each.description}" for each in question.options)
    told = f"{question.question} ({options}, or other words)" if options else question.question
    return {"type": "string", "title": question.header, "description": redact_known(told)}


def _decision(ask: Ask, given: Mapping[str, Any]) -> Decision:
    note = given.get("note")
    why = note if isinstance(note, str) and note else _REFUSED
    return named_decision(given.get("decision"), ask, why) or No(why)
