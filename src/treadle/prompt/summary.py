"""Summaries: what stands for a conversation that was folded away.

Owns the message that shows a summary to the model. Invariant: a summary is told
from what a person said by its fixed first sentence.
"""

from __future__ import annotations

from pathlib import Path

from ..core.items import InputText, Message
from .instructions import summary_prefix

__all__ = ["is_summary", "retained_message", "summary_message"]

_NOTHING = "(no summary available)"


def summary_message(summary: str, home: Path | None = None) -> Message:
    """A summary as the message that the next model reads.

    `home` is where imported prompts lie; None means our own wording.
    """
    text = f"{summary_prefix(home)}\n{summary.strip() or _NOTHING}"
    return Message(role="user", content=(InputText(text),))


def retained_message(text: str) -> Message:
    """Something the user said, kept word for word beside a summary."""
    return Message(role="user", content=(InputText(text),))


def is_summary(text: str, home: Path | None = None) -> bool:
    """Whether `text` is such a message's."""
    return text.startswith(f"{summary_prefix(home)}\n")
