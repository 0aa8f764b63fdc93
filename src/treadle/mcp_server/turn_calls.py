"""Turn calls: a client waits for a turn, and its user is asked meanwhile.

Owns the two ways to ask: an old client is sent a request of ours, a new one repeats its call
with the answers. Invariant: whoever cancels a call interrupts its turn, and nothing that it
did is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError

from mcp import types

from ..core.errors import TreadleError
from .callers import Caller, Context
from .live_turns import LiveTurn
from .results import report_result
from .user_forms import form_message, form_schema, read_answer

__all__ = ["answer_forms", "follow_turn", "forms_of"]


async def follow_turn(
    ctx: Context, caller: Caller, turn: LiveTurn
) -> types.CallToolResult | types.InputRequiredResult:
    """Wait for a turn; return its report, or for a new client what its user is asked."""
    told = 0
    try:
        while turn.report is None:
            if turn.actions > told:
                told = turn.actions
                await ctx.session.report_progress(float(told), message=turn.activity)
                continue
            if not turn.questions:
                await turn.change()
            elif caller.modern:
                return types.InputRequiredResult(
                    input_requests=forms_of(turn), request_state=turn.id
                )
            else:
                await _ask(ctx, turn, next(iter(turn.questions)))
    except anyio.get_cancelled_exc_class():
        turn.interrupt()
        raise
    return report_result(turn.report)


def forms_of(turn: LiveTurn) -> types.InputRequests:
    """Return what waits for an answer, as requests to a client's user."""
    return {
        name: types.ElicitRequest(
            params=types.ElicitRequestFormParams(
                message=form_message(question), requested_schema=form_schema(question)
            )
        )
        for name, question in turn.questions.items()
    }


def answer_forms(turn: LiveTurn, answers: Mapping[str, Any]) -> None:
    """Take the answers of a client's user; those to questions that nobody asked are left."""
    for name, answer in answers.items():
        question = turn.questions.get(name)
        if question is not None and isinstance(answer, types.ElicitResult):
            turn.answer(name, read_answer(question, answer.action, answer.content))


async def _ask(ctx: Context, turn: LiveTurn, name: str) -> None:
    """Ask the user of an old client, until there is an answer or the question is gone."""
    question = turn.questions[name]

    async def leave_when_gone() -> None:
        while name in turn.questions and turn.report is None:
            await turn.change()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave_when_gone)
        try:
            answer = await ctx.session.elicit_form(
                form_message(question), form_schema(question), ctx.request_id
            )
        except (MCPError, TreadleError, ValueError):
            # The client said that it can ask, and cannot.
            turn.decline(name)
        else:
            answer_forms(turn, {name: answer})
        tasks.cancel_scope.cancel()
