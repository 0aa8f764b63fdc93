"""Requests of commands: what the model is asked when the user types `/init` or `/title`.

Owns their words. Invariant: the user sees in the log what was asked in their name.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["init_request", "title_request"]

_MOST_WORDS = 2_000


def init_request(*, exists: bool) -> str:
    """Return the request for a file with instructions to agents about this project."""
    task = (
        "Read AGENTS.md in this directory and improve it: correct what is wrong, add what is "
        "missing, remove what helps nobody. Keep rules that people wrote."
        if exists
        else "Write a file AGENTS.md in this directory: what an agent must know to work on this "
        "project."
    )
    return (
        f"{task}\n\n"
        "Look at the project first: its layout, how it is built, tested and checked, its style "
        "and its commit messages. Then write, in less than a page:\n"
        "- what the project is, in a sentence\n"
        "- a map of the directories that matter\n"
        "- the commands to build, test and check, and to run a single test\n"
        "- conventions that cannot be seen in a single file\n"
        "State only what you have seen in the project. Invent no rules."
    )


def title_request(said: Sequence[str]) -> str:
    """Return the request for a title of a conversation."""
    words = "\n\n".join(said)[:_MOST_WORDS]
    return (
        "Name the conversation below in three to seven words, in its own language, without "
        "quotation marks. Answer with the name only.\n\n"
        f"<conversation>\n{words}\n</conversation>"
    )
