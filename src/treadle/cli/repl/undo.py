"""`/undo`: take back the last turns in the chat, with the files that they changed.

Owns what its argument means and the one question. Invariant: nothing is changed before the
question is answered, and Ctrl-C is a no.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...thread.rewinding import RewindPlan
from ..rewind_view import CHOICES, RewindChoice, ask_text, plan_lines, result_lines
from .interview import OwnQuestion

if TYPE_CHECKING:
    from .chat_session import ChatSession

__all__ = ["undo_turns"]


async def undo_turns(session: ChatSession, rest: str) -> None:
    """Take back as many turns as `rest` says, or the newest undo with ``redo``."""
    if rest and rest != "redo" and not (rest.isdecimal() and int(rest)):
        session.screen.trouble("/undo takes a number of turns, or `redo` to take an undo back")
        return
    session.start("looking at the files", _undo(session, rest))


async def _undo(session: ChatSession, rest: str) -> None:
    thread = session.thread
    if rest == "redo":
        plan = await thread.rewinds.plan_undo()
    else:
        plan = await thread.rewinds.plan(int(rest or 1))
    choice = await _ask(session, plan) if plan.files.actions else RewindChoice()
    if choice is None:
        session.screen.say("nothing was changed")
        return
    done = await thread.rewinds.apply(
        plan, conversation=choice.conversation, files=choice.files, overwrite=choice.overwrite
    )
    if done.entry is not None and plan.undoes is None:
        count = len(plan.turns)
        hidden = "the last turn is" if count == 1 else f"the last {count} turns are"
        session.screen.say(f"{hidden} hidden from the model; /undo redo takes that back")
    for line in result_lines(plan, done):
        if not line.startswith("entries "):
            session.screen.say(line)


async def _ask(session: ChatSession, plan: RewindPlan) -> RewindChoice | None:
    answered: asyncio.Future[RewindChoice | None] = asyncio.get_running_loop().create_future()

    def take(said: str) -> bool:
        known = said.strip().lower() in CHOICES
        if known and not answered.done():
            answered.set_result(CHOICES[said.strip().lower()])
        return known

    shown = "\n".join([*plan_lines(plan), ask_text(plan)])
    question = OwnQuestion(text=shown, prompt="answer > ", take=take)
    session.interview.put(question)
    try:
        return await answered
    finally:
        session.interview.withdraw(question.id)
