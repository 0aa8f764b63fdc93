"""`/review`: a review of changes, beside the conversation.

Invariant: the reviewer works in a thread of its own, so that this one neither grows nor waits
for anything but its end.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...core.wire import Json, json_bytes
from ...harness.events import AgentReported, Event, TurnCompleted
from ...prompt.review_message import Review, ReviewTarget, review_schema
from ..activity import activity
from ..review_run import finding_place, for_review, read_only, read_review, review_title
from ..review_target import find_target
from ..run_options import RunOptions
from ..thread_setup import open_thread, prepare

if TYPE_CHECKING:
    from .chat_session import ChatSession
    from .slash import Slash

__all__ = ["review_changes"]

_USE = "/review [--base BRANCH | --commit COMMIT] [TEXT]"
_ENOUGH_OF_ID = 12


async def review_changes(slash: Slash, rest: str) -> None:
    """Review the working tree, a branch or a commit."""
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    base = commit = None
    if words[:1] in (["--base"], ["--commit"]):
        if len(words) == 1:
            slash.session.screen.trouble(f"{words[0]} needs a name: {_USE}")
            return
        base, commit = (words[1], None) if words[0] == "--base" else (None, words[1])
        words = words[2:]
    if words and words[0].startswith("-"):
        slash.session.screen.trouble(f"there is no {words[0]!r} here: {_USE}")
        return
    session, text = slash.session, " ".join(words)
    session.start("reviewing", _review(session, slash.options, base, commit, text))


async def _review(
    session: ChatSession, options: RunOptions, base: str | None, commit: str | None, text: str
) -> None:
    thread = session.thread
    home, cwd = session.setup.home, Path(thread.log.setup.cwd)
    target = await find_target(home, cwd, base=base, commit=commit)
    if not target.files:
        session.screen.say("nothing has changed; /review --base BRANCH looks at a branch")
        return
    asked = msgspec.structs.replace(
        options, model=thread.model, cwd=cwd, sandbox=None, yolo=False, approval="never"
    )
    setup = for_review(await prepare(session.setup.place, read_only(asked), attended=False))
    async with open_thread(setup, title=review_title(target)) as reviewer:
        schema = Json(json_bytes(review_schema()))
        ended: TurnCompleted | None = None
        async for event in reviewer.run(target.message(text), schema=schema):
            _show_progress(session, reviewer.id, event)
            ended = event if isinstance(event, TurnCompleted) else ended
    if ended is None or ended.status != "completed":
        session.screen.trouble((ended and ended.error) or "the review did not come to its end")
        return
    _show_review(session, reviewer.id, target, read_review(ended.text))


def _show_progress(session: ChatSession, reviewer: str, event: Event) -> None:
    if isinstance(event, TurnCompleted):
        return
    line = activity(AgentReported(thread=reviewer, nickname="reviewer", event=event))
    if line:
        session.screen.quiet(line)


def _show_review(session: ChatSession, reviewer: str, target: ReviewTarget, review: Review) -> None:
    screen = session.screen
    for number, each in enumerate(review.findings, 1):
        screen.heading(f"{number}. {each.title}")
        screen.quiet(f"   {finding_place(each)}")
        screen.say(each.detail.strip())
    if not review.findings:
        screen.say("no findings")
    screen.say(review.summary.strip())
    session.last_answer = review.summary.strip()
    screen.quiet(
        f"{review_title(target)}; ask the reviewer more: /resume {reviewer[-_ENOUGH_OF_ID:]}"
    )
