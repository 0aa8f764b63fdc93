"""Approvals and questions for the user at the terminal.

Owns the words of a question and what each answer means. Invariant: what is not
understood is asked again; only a clear yes is a yes.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ..sandbox.approval_forms import shorten_command, shown_prefix
from ..sandbox.approvals import Ask, Decision, ForPrefix, ForThread, No, NoAndStop, Once
from ..tools.contract import UserQuestion
from .output import one_line, printable

__all__ = [
    "Read",
    "approval_text",
    "ask_approval",
    "ask_questions",
    "chosen",
    "decision",
    "options_of",
    "question_text",
]

Read: TypeAlias = Callable[[str], Awaitable[str]]
"""Shows a prompt and returns the line that was typed."""

_WIDTH = 200


def approval_text(ask: Ask) -> str:
    """Return the text of an approval question."""
    where = "OUTSIDE the sandbox" if ask.outside else "in the sandbox"
    lines = [f"? run {where}: {_command(shlex.join(ask.argv))}"]
    if ask.cwd:
        lines.append(f"  in {one_line(ask.cwd, _WIDTH)}")
    lines.append(f"  {one_line(ask.reason, _WIDTH)}")
    return "\n".join(lines)


def _command(text: str) -> str:
    """Return the whole command: the user must see what the approval covers."""
    text = printable(text)
    if "\n" not in text and len(text) <= _WIDTH:
        return text
    return "".join(f"\n  | {line}" for line in shorten_command(text).split("\n"))


def options_of(ask: Ask) -> str:
    """Return the possible answers, as a prompt."""
    shown = shown_prefix(ask)
    prefix = f", (p)refix `{shown}` always in this directory" if shown else ""
    return f"(y)es once, this (t)hread{prefix}, (n)o, no and (s)top > "


def decision(ask: Ask, said: str) -> Decision | None:
    """Return the decision of an answer; None when unclear. A reason may follow ``n``."""
    word, _, rest = said.strip().partition(" ")
    match word.lower():
        case "y" | "yes" if not rest:
            return Once()
        case "t" | "thread" if not rest:
            return ForThread()
        case "p" | "prefix" if ask.prefix and shown_prefix(ask) and not rest:
            return ForPrefix(ask.prefix)
        case "n" | "no":
            return No(rest.strip())
        case "s" | "stop" if not rest:
            return NoAndStop()
        case _:
            return None


async def ask_approval(ask: Ask, read: Read) -> Decision:
    """Ask until the answer is clear."""
    question = approval_text(ask)
    while True:
        decided = decision(ask, await read(f"{question}\n{options_of(ask)}"))
        if decided is not None:
            return decided
        question = "? that is none of the answers"


async def ask_questions(
    questions: tuple[UserQuestion, ...], read: Read
) -> dict[str, tuple[str, ...]] | None:
    """Ask the questions; return the answers, or None when the first is left empty."""
    answers: dict[str, tuple[str, ...]] = {}
    for question in questions:
        said = await read(f"{question_text(question)}\n> ")
        if not said.strip():
            return answers or None
        answers[question.id] = (chosen(question, said),)
    return answers


def question_text(question: UserQuestion) -> str:
    """Return a question of the model with its options, numbered."""
    options = [
        f"  {number}. {_indent(': '.join(filter(None, (option.label, option.description))))}"
        for number, option in enumerate(question.options, 1)
    ]
    asked = f"? {_indent(question.question)}"
    return "\n".join([asked, *options, "  a number, other words, or nothing to dismiss"])


def _indent(text: str) -> str:
    """Indent text, so that its lines do not look like our own."""
    return printable(text).replace("\n", "\n    ")


def chosen(question: UserQuestion, said: str) -> str:
    """Return the option of a number, or the answer as it is."""
    word = said.strip()
    if word.isdecimal() and len(word) <= 9 and 1 <= int(word) <= len(question.options):
        return question.options[int(word) - 1].label
    return word
