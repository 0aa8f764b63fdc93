"""Admission: how an input becomes durable, with what stands around it.

Owns what the runtime says before an input, and what skills and hooks put behind it. Invariants:
all of it enters the log in one transaction; a turn that was begun before is not admitted again,
and one that is over is only told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ..core.capability import offers
from ..core.errors import NotFound
from ..core.items import text_of
from ..core.usage import TokenUsage
from ..engines.session import EngineSession
from ..harness.contract import Preview, Previews, TurnRun
from ..harness.events import TurnCompleted, TurnStatus
from ..hooks import Hooks
from ..hooks.payloads import BeforePromptBuild
from ..log.turn_input import TurnInput
from ..policy.limits import limit_of
from ..policy.repair import note_for
from ..prompt.announcements import HookContext
from ..prompt.instruction_text import instruction_text
from ..store.contract import Turn
from .attempts import Attempts
from .host_input import Input

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..prompt.announcements import Unanswered
    from ..prompt.prompt_context import PromptContext
    from .policy import ThreadPolicy

__all__ = ["END_STATUS", "InputAdmission"]

END_STATUS: dict[str, TurnStatus] = {
    "completed": "completed",
    "failed": "failed",
    "aborted": "interrupted",
}
"""What hosts hear of the states that no turn leaves."""

_NEWEST = 64
"""Among so many rows an unanswered message is found, if there is one."""


class InputAdmission:
    """Admits the inputs of one thread."""

    def __init__(
        self,
        log: ThreadLog,
        engine: EngineSession,
        policy: ThreadPolicy,
        *,
        hooks: Hooks,
        attempts: Attempts,
        run: Callable[[], TurnRun],
    ) -> None:
        self._log = log
        self._engine = engine
        self._policy = policy
        self._hooks = hooks
        self._attempts = attempts
        self._run = run
        """What a harness is asked with for what it will tell the model."""

    async def admit(self, given: Input) -> Turn | TurnCompleted:
        """Return the turn, admitted and opened, or how it ended where it is over already.

        An engine that assembles sees the input when it is safe in the log, and hooks see what
        the engine makes of it; for one that does not, all of it is one transaction. The machine
        is looked at once, so that hooks are shown what the model will read.
        """
        log, engine = self._log, self._engine
        opening, turn = await self.prepare(given), None
        if engine.assembles:
            turn, opened = await log.turns.reserve(given.message, turn_id=given.turn_id)
            if opened:
                return _unless_ended(turn)
            opening = await engine.assemble(opening)
        context = await log.setup.observe()
        hooked = await self._ask_hooks(opening, context)
        if isinstance(hooked, str):
            if turn is not None:
                await log.turns.finish("failed")
                await engine.finish("failed")
            return TurnCompleted(turn=given.turn_id, status="failed", error=hooked)
        if turn is None:
            admitted = await log.turns.admit(hooked, turn_id=given.turn_id, context=context)
            return _unless_ended(admitted)
        # A harness with hands of its own tells it where we note no request.
        light = not self._attempts.harness.traits.tools
        await log.turns.open(turn, hooked, context=engine.with_guidance(context), light=light)
        await engine.after_open()
        return _unless_ended(turn)

    async def prepare(self, given: Input) -> TurnInput:
        """Return an input with what the runtime says before it and skills behind it."""
        note, skills = await self._unanswered_note(given), self._policy.skills
        called = await skills.called_by(given.message, given.provenance) if skills else ()
        return TurnInput(
            message=given.message,
            provenance=given.provenance,
            events=tuple(given.events),
            mail=tuple(given.mail),
            untold=self._attempts.harness.traits.fragments,
            ahead=(*given.ahead, *(() if note is None else (note,))),
            behind=called,
        )

    async def _unanswered_note(self, given: Input) -> Unanswered | None:
        """Return what is said of an earlier message that a failure left without an answer."""
        view = self._log.view
        # What a new base starts with is told out of its turn; only what came since can wait.
        since = [row for row in view.rows[-_NEWEST:] if (row.seq or 0) > view.base]
        note = note_for(since, text_of(given.message.content))
        return note if note is not None and await self._has_failed(since[-1].turn) else None

    async def _has_failed(self, number: int) -> bool:
        try:
            return (await self._log.store.turn(self._log.id, number)).state == "failed"
        except NotFound:
            # A turn that a fork shares is its parent's.
            return False

    async def _ask_hooks(self, opening: TurnInput, context: PromptContext) -> TurnInput | str:
        """Return the input with what hooks add to it, or why one of them does not want it."""
        log, seen = self._log, self._preview(opening, context)
        payload = BeforePromptBuild(
            thread=log.id,
            cwd=str(log.setup.cwd),
            model=log.setup.model,
            prompt=seen.prompt,
            instructions=seen.instructions,
            resumed=log.turn > 0,
        )
        answers = await self._hooks.before_prompt(payload)
        for answer in answers:
            if answer.block is not None:
                return f"a hook does not want this input: {answer.block}"
        # In the transaction of the input, so that a turn begun again says it no second time.
        added = tuple(HookContext(answer.context) for answer in answers if answer.context)
        return msgspec.structs.replace(opening, behind=(*opening.behind, *added))

    def _preview(self, opening: TurnInput, context: PromptContext) -> Preview:
        """Return what the model will be told with an input, if a hook wants to know."""
        log, harness = self._log, self._attempts.harness
        seen = Preview(text_of(opening.message.content))
        if not self._hooks.has(BeforePromptBuild):
            return seen
        if offers(harness, Previews):
            seen = harness.preview(self._run(), opening)
        states = log.snapshots(self._engine.with_guidance(context))
        instructions = seen.instructions or instruction_text(log.registry, states)
        return msgspec.structs.replace(seen, instructions=instructions)


def _unless_ended(turn: Turn) -> Turn | TurnCompleted:
    """Return the turn, or how it ended where it was run before."""
    if turn.state not in END_STATUS:
        return turn
    usage = turn.usage or TokenUsage()
    return TurnCompleted(
        turn=turn.id, status=END_STATUS[turn.state], usage=usage, limit=limit_of(turn.outcome)
    )
