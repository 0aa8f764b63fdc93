"""Attempts: one candidate after the other, until one of them answers a turn.

Owns what happens between two attempts: the judgement, the record, the move. Invariants: a
turn that nobody answered ends with the last error, and after a turn the model is again
the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct

from ..core.errors import TreadleError
from ..core.redact import redact
from ..core.usage import TokenUsage
from ..harness.contract import Outcome
from ..harness.events import AttemptFailed, Event
from ..log.thread_log import ThreadLog
from ..policy.failures import Failure
from ..policy.fallback import Attempt, Chain, Tried
from ..policy.outcome import Facts, Fallback, classify

__all__ = ["Attempts", "Candidates"]

_UNUSABLE = "candidate_unusable"


class Candidates(Struct, frozen=True):
    """Who may answer a turn, and how the agent is made ready for each."""

    chain: Chain
    move: Callable[[Chain], Awaitable[Chain]]
    """Make ready for the chain's present candidate; the chain, with the profiles it has."""
    note: Callable[[Attempt, Failure | None], Awaitable[None]]
    """An attempt was answered, or failed."""


class Attempts(Struct):
    """The attempts at one turn."""

    log: ThreadLog
    candidates: Candidates
    emit: Callable[[Event], None]
    spent: TokenUsage
    chain: Chain
    tried: tuple[Tried, ...] = ()

    @classmethod
    def at(cls, log: ThreadLog, candidates: Candidates, emit: Callable[[Event], None]) -> Attempts:
        """The attempts at the turn that begins."""
        return cls(log, candidates, emit, TokenUsage(), candidates.chain)

    def accepts(self, facts: Facts) -> bool:
        """Whether the turn may end with an answer like this: it is one, or there is no better."""
        verdict = classify(facts)
        return not isinstance(verdict, Fallback) or self.chain.after(verdict) is None

    async def run(self, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Attempt the turn until it has ended."""
        while True:
            outcome = await attempt()
            self.spent = outcome.usage
            await self.candidates.note(self.chain.present, outcome.facts.failure)
            if outcome.ended:
                return outcome
            verdict = classify(outcome.facts)
            if not isinstance(verdict, Fallback) or not await self._moved(verdict):
                return await self._given_up(outcome)

    async def _moved(self, verdict: Fallback) -> bool:
        """Whether there is another candidate, which is then ready."""
        while True:
            following = self.chain.after(verdict)
            self.tried = self.chain.exhausted(verdict)
            if following is None:
                return False
            try:
                self.chain = await self.candidates.move(following)
            except TreadleError as error:
                # A candidate that cannot even be asked is passed over, and recorded.
                self.chain = following
                verdict = Fallback("model_not_found", _UNUSABLE, redact(str(error)))
                continue
            self.emit(AttemptFailed(tried=self.tried[-1], next=self.chain.present))
            return True

    async def _given_up(self, outcome: Outcome) -> Outcome:
        await self.log.turns.finish("failed", usage=outcome.usage)
        return msgspec.structs.replace(outcome, status="failed", ended=True)
