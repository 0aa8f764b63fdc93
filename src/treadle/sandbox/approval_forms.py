"""Approval forms: how a question about a command is put, wherever it is shown.

Owns how much of a command and of a prefix is shown, and the words of the answers that programs
give. Invariants: what is left out of a command is told; a prefix that nobody can read whole is
not offered, and only a known word is a yes.
"""

from __future__ import annotations

import shlex

from .approvals import Ask, Decision, ForPrefix, ForThread, No, NoAndStop, Once

__all__ = ["LONGEST_COMMAND", "answer_choices", "named_decision", "shorten_command", "shown_prefix"]

LONGEST_COMMAND = 4_000
"""How many characters of a command are shown; the number of hidden ones is told."""
_LONGEST_PREFIX = 200


def shorten_command(text: str) -> str:
    """Return a command with both ends shown, and how much in the middle is not."""
    if len(text) <= LONGEST_COMMAND:
        return text
    half = LONGEST_COMMAND // 2
    hidden = len(text) - 2 * half
    return f"{text[:half]}\n… {hidden:,} CHARACTERS ARE NOT SHOWN …\n{text[-half:]}"


def shown_prefix(ask: Ask) -> str:
    """Return the prefix that can be allowed for good; none when it cannot be read whole."""
    text = shlex.join(ask.prefix or ())
    return text if len(text) <= _LONGEST_PREFIX and text.isprintable() else ""


def answer_choices(ask: Ask) -> tuple[str, ...]:
    """Return the words with which a program may answer."""
    return ("once", "thread", *(["prefix"] if shown_prefix(ask) else []), "no", "stop")


def named_decision(word: object, ask: Ask, note: str = "") -> Decision | None:
    """Return the decision that a word stands for; None for a word that is none here."""
    if word not in answer_choices(ask):
        return None
    match word:
        case "once":
            return Once()
        case "thread":
            return ForThread()
        case "prefix":
            return ForPrefix(ask.prefix or ())
        case "stop":
            return NoAndStop()
        case _:
            return No(note)
