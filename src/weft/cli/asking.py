"""Asking: approvals and questions, put to the person at the terminal.

Owns the words of a question and what each answer means. Invariant: what is not
understood is asked again; only a clear yes is a yes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

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
    """The question itself."""
    import shlex

    where = "OUTSIDE the sandbox" if ask.outside else "in the sandbox"
    lines = [f"? run {where}: {one_line(shlex.join(ask.argv), _WIDTH)}"]
    if ask.cwd:
        lines.append(f"  in {one_line(ask.cwd, _WIDTH)}")
    lines.append(f"  {one_line(ask.reason, _WIDTH)}")
    return "\n".join(lines)


def options_of(ask: Ask) -> str:
    """The answers that are possible, for a prompt."""
    import shlex

    prefix = f", (p)refix `{one_line(shlex.join(ask.prefix), 60)}` always" if ask.prefix else ""
    return f"(y)es once, this (t)hread{prefix}, (n)o, no and (s)top > "


def decision(ask: Ask, said: str) -> Decision | None:
    """What an answer means; None when it is not clear. ``n`` may be followed by a reason."""
    word, _, rest = said.strip().partition(" ")
    match word.lower():
        case "y" | "yes" if not rest:
            return Once()
        case "t" | "thread" if not rest:
            return ForThread()
        case "p" | "prefix" if ask.prefix and not rest:
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
    """The answers by question; None when the first is left empty."""
    answers: dict[str, tuple[str, ...]] = {}
    for question in questions:
        said = await read(f"{question_text(question)}\n> ")
        if not said.strip():
            return answers or None
        answers[question.id] = (chosen(question, said),)
    return answers


def question_text(question: UserQuestion) -> str:
    """A question of the model's with its options, numbered."""
    options = [
        f"  {number}. {option.label}: {option.description}"
        for number, option in enumerate(question.options, 1)
    ]
    said = [f"? {question.question}", *options, "  a number, other words, or nothing to dismiss"]
    return "\n".join(printable(line) for line in said)


def chosen(question: UserQuestion, said: str) -> str:
    """The option that a number names, or the words as they are."""
    word = said.strip()
    if word.isdecimal() and 1 <= int(word) <= len(question.options):
        return question.options[int(word) - 1].label
    return word
