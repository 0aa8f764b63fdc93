"""The agents of a thread: what its options say of them, and what it could not follow.

Owns the way from options to limits and kinds. Invariant: a definition that would hold only in
part, on this model or harness, starts no agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.errors import ConfigError
from ..core.home import home as default_home
from ..policy.effort import check_effort
from ..subagents import AgentKinds, AgentLimits, Subagents
from .elsewhere import host_executor
from .option_checks import check_used_model
from .options import AgentOptions

if TYPE_CHECKING:
    from ..subagents import AgentDefinition
    from .child_threads import ChildThreads
    from .opening import Parts
    from .options import ThreadOptions
    from .policy import ThreadPolicy

__all__ = ["acts_elsewhere", "check_definition", "make_subagents"]


def make_subagents(
    parts: Parts, policy: Callable[[], ThreadPolicy], children: Callable[[], ChildThreads]
) -> Subagents:
    """Return the agents of a thread; `policy` and `children` are made later, and of them."""
    return Subagents(
        parent=parts.log,
        open_agent=lambda child: children().open(child),
        limits=_agent_limits(parts.options),
        kinds=_agent_kinds(parts),
        check=lambda definition: check_definition(definition, policy()),
        settle_place=lambda child, record: children().settle(child, record),
        emit=parts.events.emit,
    )


def _agent_limits(options: ThreadOptions) -> AgentLimits:
    """Return the limits of starting agents; without options there are none."""
    return AgentLimits(depth=0) if options.agents is None else options.agents.limits


def _agent_kinds(parts: Parts) -> AgentKinds:
    """Return the kinds of agents that users and hosts have described."""
    options, setup = parts.options.agents or AgentOptions(), parts.log.setup
    home = (setup.home or default_home()) if options.files else None
    return AgentKinds(options.definitions, home=home, cwd=setup.cwd)


def acts_elsewhere(policy: ThreadPolicy) -> bool:
    """Return whether tools act in a place that may not see the files of this machine."""
    told = policy.setup.executor
    return host_executor(policy.options.tools) is not None or bool(told and told.place)


def check_definition(definition: AgentDefinition, policy: ThreadPolicy) -> None:
    """Raise `ConfigError` for an agent that would not be what its definition says."""
    setup, client = policy.setup, policy.options.client
    if definition.model is not None:
        if client is not None:
            raise ConfigError(f"the model is the host's; {definition.model!r} cannot be asked")
        check_used_model(definition.model, setup.catalog, policy.harnesses)
    model = definition.model or setup.model
    check_effort(setup.catalog.profile(model), definition.effort)
    if definition.worktree and acts_elsewhere(policy):
        raise ConfigError("it wants a worktree, which an executor elsewhere may not reach")
    if definition.tools is None and not definition.without:
        return
    harness = policy.harnesses.select(model).harness
    if harness == policy.harness.name and policy.harness.traits.tools:
        raise ConfigError(
            f"the harness {harness!r} has tools of its own, which cannot be taken away; "
            "say `sandbox: read-only` in place of tools"
        )
