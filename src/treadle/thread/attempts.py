"""Attempts: who answers the turns of a thread, one candidate after the other.

Owns the present candidate with its harness, connection and plan, and the way to the next
one. Invariants: a candidate that cannot be asked is passed over and recorded; after a turn
the model that was asked for is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.errors import ConfigError, TreadleError
from ..core.redact import redact
from ..engines.session import EngineSession
from ..harness.events import AttemptFailed, Event
from ..policy.fallback import Chain, Tried
from ..policy.outcome import Facts, Fallback, classify
from ..prompt.standing_instructions import DeveloperInstructionsState, OverlaySuffixState
from ..prompt.thread_state import ModelState

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..models.contract import Model
    from ..policy.fallback import Attempt
    from ..policy.turn_plan import TurnPlan
    from .policy import ThreadPolicy

__all__ = ["Attempts"]

_UNUSABLE = "candidate_unusable"

_OF_THE_MODEL = frozenset(
    state.id for state in (DeveloperInstructionsState, ModelState, OverlaySuffixState)
)
"""What a model is told because it is that model."""


class Attempts:
    """The attempts at the turns of one thread."""

    def __init__(
        self,
        log: ThreadLog,
        engine: EngineSession,
        policy: ThreadPolicy,
        emit: Callable[[Event], None],
    ) -> None:
        self.present: Attempt | None = None
        """The candidate that `model` is connected to."""
        self.model: Model | None = None
        self.harness = policy.harness
        self.plan: TurnPlan | None = None
        """What was decided for the present candidate."""
        self.tried: tuple[Tried, ...] = ()
        """Those that did not answer the present turn."""
        self._log = log
        self._engine = engine
        self._policy = policy
        self._emit = emit
        self._chain = Chain(models=(log.setup.model,))
        self._asked_for: str | None = None
        """The model that was asked for, while another one answers."""

    async def begin(self) -> None:
        """Make the first candidate ready: its harness, engine tools, connection and plan."""
        self.tried = ()
        self._chain = await self._policy.routes.candidates(self._log.setup.model)
        await self._prepare(self._chain)

    async def select_harness(self) -> bool:
        """Have the harness that the model wants; return whether it is another one."""
        policy = self._policy
        moved = await policy.harnesses.ensure(self._log.setup.model, self._log.id)
        self.harness = policy.harnesses.harness
        if moved:
            self._engine.use_harness(self.harness.name, self.harness.capabilities)
            policy.offer_tools()
        return moved

    async def load_engine(self) -> None:
        """Have the engine, if it can be found, and offer its tools."""
        tools = await self._engine.load_tools(self._policy.taken_tool_names)
        self._policy.offer_engine_tools(tools)

    def accepts(self, facts: Facts) -> bool:
        """Whether the turn may end with an answer like this: it is one, or there is no better."""
        verdict = classify(facts)
        return not isinstance(verdict, Fallback) or self._chain.after(verdict) is None

    async def move_on(self, verdict: Fallback) -> bool:
        """Make the next candidate ready; return whether there is one."""
        while True:
            following = self._chain.after(verdict)
            self.tried = self._chain.tried_after(verdict)
            if following is None:
                return False
            try:
                self._chain = await self._switch(following)
            except TreadleError as error:
                self._chain = following
                verdict = Fallback("model_not_found", _UNUSABLE, redact(str(error)))
                continue
            self._engine.fall_back(self.tried[-1].reason)
            self._announce_next()
            return True

    def _announce_next(self) -> None:
        assert self.plan is not None, "a candidate that is asked has a plan"
        self._emit(
            AttemptFailed(
                tried=self.tried[-1],
                next=self._chain.present,
                harness=self.harness.name,
                harness_reason=self.plan.harness.reason,
                transport=self.plan.transport,
            )
        )

    def ask_first_model_again(self) -> None:
        """After a turn, ask the model that was asked for, unless another was meanwhile."""
        first, self._asked_for = self._asked_for, None
        if first is not None and self.present and self.present.model == self._log.setup.model:
            self._policy.ask_model(first)

    async def close(self) -> None:
        """Close the connection, unless it is the host's."""
        if self.model is not None and self._policy.options.client is None:
            await self.model.close()

    async def _prepare(self, chain: Chain) -> None:
        moved = await self.select_harness()
        self._check_hands()
        await self.load_engine()
        attempt = chain.present
        if self.present != attempt or moved:
            await self.close()
            # Looking for a provider may read what is installed.
            self.model = await asyncio.to_thread(self._policy.connect, attempt)
            self.present = attempt
        assert self.model is not None, "a candidate that is present is connected"
        await self._policy.learn_window()
        self._policy.use_connection(self.model)
        self.plan = self._policy.decide(chain)

    def _check_hands(self) -> None:
        """Raise `ConfigError` where a harness would run commands here that belong elsewhere."""
        told = self._log.setup.executor
        if told is not None and told.place and self.harness.traits.tools:
            raise ConfigError(
                f"the harness {self.harness.name!r} runs commands itself, on this machine, and not "
                f"in {told.place}; use --harness treadle, or --executor local"
            )

    async def _switch(self, chain: Chain) -> Chain:
        """Make ready for another candidate, in the middle of a turn."""
        log = self._log
        chain = await self._policy.routes.with_profiles(chain)
        if log.setup.model != chain.model:
            self._asked_for = self._asked_for or log.setup.model
            self._policy.ask_model(chain.model)
        await self._prepare(chain)
        await log.epochs.renew_head()
        # The rest of the surroundings is the same for whoever answers.
        states = _OF_THE_MODEL - self.harness.traits.fragments
        await log.retell(await log.setup.observe(), *sorted(states))
        return chain
