"""How a rewind is shown and asked about, on the command line and in the chat.

Owns the lines of a plan, the one question, and the JSON of both. Invariant: every path that
would be changed is shown before the question, those that somebody else changed apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ..thread.rewinding import RewindPlan, Rewound
from ..workspace.rewind_plan import FileChange
from .output import one_line

__all__ = [
    "CHOICES",
    "RewindChoice",
    "ask_text",
    "plan_json",
    "plan_lines",
    "result_json",
    "result_lines",
]

_MOST_SHOWN = 40


class RewindChoice(Struct, frozen=True):
    """What to rewind."""

    conversation: bool = True
    files: bool = True
    overwrite: bool = False


CHOICES: dict[str, RewindChoice | None] = {
    "y": RewindChoice(),
    "yes": RewindChoice(),
    "c": RewindChoice(files=False),
    "f": RewindChoice(conversation=False),
    "o": RewindChoice(overwrite=True),
    "n": None,
    "no": None,
}
"""What can be answered; None changes nothing."""


def plan_lines(plan: RewindPlan) -> Iterator[str]:
    """Yield what would be hidden and restored, line by line."""
    for turn in plan.turns:
        yield f"hides turn {turn.number}: {one_line(turn.text, 60)}"
    if plan.undoes is not None and plan.hides:
        yield "shows the conversation again that the rewind had hidden"
    shown = plan.files.changes[:_MOST_SHOWN]
    for change in shown:
        yield f"  {_verb(change)}  {_name(change)}{_reason(change)}"
    if len(plan.files.changes) > len(shown):
        yield f"  and {len(plan.files.changes) - len(shown)} more"
    yield from plan.files.notes


def _verb(change: FileChange) -> str:
    return f"{change.action}{'?' if change.risky else ''}".ljust(8)


def _name(change: FileChange) -> str:
    slash = "/" if change.kind == "directory" else ""
    return one_line(f"{change.path}{slash}")


def _reason(change: FileChange) -> str:
    return f" ({change.reason})" if change.reason else ""


def ask_text(plan: RewindPlan) -> str:
    """Return the question about a plan that changes files."""
    count = len([each for each in plan.files.actions if not each.risky])
    files = f"{count} path{'' if count == 1 else 's'}"
    offers = ["(y)es"]
    if plan.hides:
        offers += ["(c)onversation only", "(f)iles only"]
    if risky := len(plan.files.risky):
        offers.append(f"(o)verwrite the {risky} marked with ?, too")
    what = f"the conversation and {files}" if plan.hides else files
    return f"Rewind {what}? {', '.join(offers)}, (n)o"


def result_lines(plan: RewindPlan, done: Rewound) -> Iterator[str]:
    """Yield what was done."""
    if done.entry is not None and plan.undoes is not None:
        yield "the conversation is back"
    elif done.entry is not None:
        yield f"entries {done.cut} to {done.entry - 1} are hidden"
    if done.restored:
        paths = len(done.restored)
        yield f"{paths} path{' is' if paths == 1 else 's are'} as before"
    for each in done.left:
        yield f"left {one_line(each)}"
    for change in done.kept:
        yield f"left {_name(change)}: {change.reason}"


def plan_json(plan: RewindPlan) -> dict[str, Any]:
    """Return a plan for programs."""
    return {
        "thread": plan.thread,
        "first": plan.cut,
        "turns": [{"number": turn.number, "text": turn.text} for turn in plan.turns],
        "files": [_change_json(each) for each in plan.files.changes],
        "notes": list(plan.files.notes),
    }


def _change_json(change: FileChange) -> dict[str, Any]:
    return {
        "path": change.path,
        "root": change.root,
        "action": change.action,
        "kind": change.kind,
        "risky": change.risky,
        "reason": change.reason,
    }


def result_json(plan: RewindPlan, done: Rewound) -> dict[str, Any]:
    """Return what was done, for programs."""
    hidden = done.entry is not None
    return {
        "thread": plan.thread,
        "entry": done.entry,
        "first": plan.cut if hidden else None,
        "last": done.entry - 1 if done.entry is not None else None,
        "restored": list(done.restored),
        "left": list(done.left),
        "kept": [_change_json(each) for each in done.kept],
    }
