"""A turn runner with everything that it needs: made at the first turn of a thread, not before.

Owns what the tools, the questions and the limits of a thread are made of. Invariant: loading
this module loads what turns need; opening a thread does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..core.home import home as default_home
from ..hooks import Hooks
from ..sandbox.approvals import Approvals
from .questions import Questions
from .turn import TurnRunner
from .turn_budgets import TurnBudgets
from .watching import watch_executor

if TYPE_CHECKING:
    from ..delivery.reply_sender import ReplySender
    from ..engines.session import EngineSession
    from ..harness.budget import Budget
    from ..harness.event_stream import EventStream
    from ..log.thread_log import ThreadLog
    from ..subagents import Subagents
    from ..workspace.windows import Owner
    from .elsewhere import Place
    from .policy import ThreadPolicy

__all__ = ["make_runner"]


def make_runner(
    log: ThreadLog,
    engine: EngineSession,
    policy: ThreadPolicy,
    *,
    subagents: Subagents,
    delivery: ReplySender | None,
    events: EventStream,
    place: Place | None,
    owners: Callable[[], Sequence[Owner]],
    starter: Budget | None,
) -> TurnRunner:
    """Make the turn runner of a thread.

    `owners` are those whose changes the tools make, `starter` is the budget of the turn that
    started the thread as an agent.
    """
    options, home = policy.options, log.setup.home
    executor, recorder = watch_executor(options.tools, place, home, owners, events.warn)
    budgets = TurnBudgets(log, options.limits, starter)
    return TurnRunner(
        log,
        engine,
        policy,
        hooks=options.hooks or Hooks(),
        executor=executor,
        approvals=Approvals(home or default_home()),
        questions=Questions(log, events.emit, budgets.standing_still),
        subagents=subagents,
        delivery=delivery,
        events=events,
        place=place,
        recorder=recorder,
        budgets=budgets,
    )
