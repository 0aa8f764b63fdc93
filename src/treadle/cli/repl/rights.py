"""Rights: `/approvals`, `/sandbox` and `/plan`, which change what commands may do from now on.

Invariant: what the screen tells, what the model is told and what commands may do are changed
together; a sandbox is given up only after a question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ...core.errors import ConfigError
from ...prompt.prompt_context import named_mode
from ..thread_heading import shown_network
from .choose import Choice
from .mentions import Said

if TYPE_CHECKING:
    from .slash import Slash

__all__ = ["change_approvals", "change_sandbox", "plan_first"]

APPROVALS = {
    "untrusted": "asks before every command that is not known to be harmless",
    "on-request": "asks where the model wants to leave the sandbox",
    "never": "asks nothing; what the sandbox forbids fails",
}
SANDBOXES = {
    "read-only": "commands change nothing",
    "workspace-write": "commands write in this directory and in temporary ones",
    "danger-full-access": "no sandbox: commands can do everything that you can",
}
_NETWORK = {"network": True, "no-network": False}


async def change_approvals(slash: Slash, rest: str) -> None:
    """Show when the user is asked, or change it."""
    session = slash.session
    chosen = rest or await _pick(
        slash, "When do you want to be asked?", APPROVALS, session.setup.settings.approval
    )
    if chosen:
        _check(chosen, APPROVALS, "/approvals")
        _adopt(slash, {"approval": chosen}, {"approval_policy": chosen})
    session.screen.say(f"approval {session.setup.settings.approval}")


async def change_sandbox(slash: Slash, rest: str) -> None:
    """Show what commands may touch, or change it."""
    session = slash.session
    chosen = rest or await _pick(
        slash, "What may commands do?", SANDBOXES, session.setup.settings.sandbox
    )
    if chosen:
        _check(chosen, {**SANDBOXES, **_NETWORK}, "/sandbox")
    if chosen in _NETWORK:
        reach = _NETWORK[chosen]
        _adopt(slash, {"network": reach}, {"network_access": reach, "network_hosts": ()})
    elif chosen and (chosen != "danger-full-access" or await _confirm(slash)):
        _adopt(slash, {"sandbox": chosen}, {"sandbox_mode": chosen})
    settings = session.setup.settings
    session.screen.say(f"sandbox {settings.sandbox}, {shown_network(settings)}")


async def plan_first(slash: Slash, rest: str) -> None:
    """Let the model plan and change nothing; with words, about these. `off` ends it."""
    session = slash.session
    mode = "default" if rest == "off" else "plan"
    told = session.thread.log.setup.settings
    session.thread.adopt(msgspec.structs.replace(told, collaboration_mode=named_mode(mode)))
    if mode == "default":
        session.screen.say("mode default: the model may change files again")
        return
    session.screen.say("mode plan: the model plans and changes nothing; /plan off ends it")
    if rest:
        await session.say(Said(rest, (rest,)))


async def _pick(slash: Slash, title: str, known: Mapping[str, str], now: str) -> str:
    names = list(known)
    rows = [Choice(name, meaning) for name, meaning in known.items()]
    at = await slash.session.front.choose(title, rows, names.index(now))
    return "" if at is None else names[at]


async def _confirm(slash: Slash) -> bool:
    rows = [Choice("no, keep the sandbox"), Choice("yes, commands can do everything that I can")]
    return await slash.session.front.choose("Really without a sandbox?", rows) == 1


def _check(chosen: str, known: Mapping[str, object], command: str) -> None:
    if chosen not in known:
        raise ConfigError(f"{command} does not know {chosen!r}; use one of {', '.join(known)}")


def _adopt(slash: Slash, settings: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    session = slash.session
    changed = msgspec.structs.replace(session.setup.settings, **settings)
    session.setup = msgspec.structs.replace(session.setup, settings=changed)
    session.thread.adopt(msgspec.structs.replace(session.thread.log.setup.settings, **told))
