"""Figures in the chat: what fills the window, and what was spent.

Owns `/context` and `/cost`. Invariant: neither changes anything or asks a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...context.composition import compose_window
from ...log.bills import Spent, spent_on
from ...log.usages import thread_usages
from ...log.window_costs import next_cost
from ...prompt.additional_context import AdditionalContextState
from ...prompt.prompt_context import ContextValue
from ...thread.costs import agents_usages
from ..context_view import context_bar, context_rows
from ..output import one_line
from ..spending import day_start, read_spending

if TYPE_CHECKING:
    from .slash import Slash

__all__ = ["show_context", "show_cost"]

_WIDEST_BAR = 72
_USE = "/context set KEY VALUE tells the model a value, /context unset KEY withdraws it"


async def show_context(slash: Slash, rest: str) -> None:
    """Show what fills the window; or show, tell and withdraw values for the model."""
    verb, _, more = rest.partition(" ")
    if not verb:
        await _show_window(slash)
    elif verb in ("set", "unset", "values"):
        _change_values(slash, verb, more.strip())
    else:
        slash.session.screen.trouble(f"there is no /context {verb}; {_USE}")


async def _show_window(slash: Slash) -> None:
    session, thread = slash.session, slash.session.thread
    view = thread.view
    if view.head is None:
        view = (await thread.preview()).view
    found = compose_window(view, thread.log.setup.profile.effective_window)
    screen = session.screen
    screen.bar(context_bar(found, min(screen.width - 2, _WIDEST_BAR)))
    window = f" of {found.window:,}" if found.window else ""
    how = "" if found.counted else "about "
    screen.say(f"{how}{found.tokens:,}{window} tokens")
    screen.columns(context_rows(found), right=(2, 3))
    cost = next_cost(found, view.head, session.setup.settings.prices)
    if cost is None:
        screen.quiet(f"the price of {thread.model} is not known")
    else:
        screen.say(f"the next request costs {cost.cold} cold, {cost.cached} from the cache")


def _change_values(slash: Slash, verb: str, rest: str) -> None:
    screen, thread = slash.session.screen, slash.session.thread
    told = thread.log.setup.settings
    key, _, value = rest.partition(" ")
    if verb == "set" and not value.strip():
        screen.trouble(f"a value needs a key and words; {_USE}")
        return
    if verb == "unset" and key not in told.additional_context:
        screen.trouble(f"nothing is told under {key!r}; /context values lists what is")
        return
    if verb != "values":
        values = {name: each for name, each in told.additional_context.items() if name != key}
        if verb == "set":
            values[key] = ContextValue(value.strip())
        told = msgspec.structs.replace(told, additional_context=values)
        # A bad key changes nothing.
        AdditionalContextState().snapshot(told)
        thread.adopt(told)
    lines = {name: one_line(each.value, 60) for name, each in told.additional_context.items()}
    if lines:
        screen.pairs(lines)
    else:
        screen.say(f"nothing is told besides; {_USE}")


async def show_cost(slash: Slash, rest: str) -> None:
    """Show what this turn, this thread, its agents and this day have cost."""
    del rest
    session, thread = slash.session, slash.session.thread
    own = session.setup.settings.prices
    rows = await thread_usages(thread.store, thread.id)
    newest = max((row.turn for row in rows), default=0)
    agents = await agents_usages(thread.store, thread.registry, thread.id, thread.view.settings)
    today = await read_spending(thread.store, thread.index, "day", since=day_start(), own=own)
    shown = {
        "this turn": _line(spent_on([row for row in rows if row.turn == newest], own)),
        "this thread": _line(spent_on(rows, own)),
        "its agents": _line(spent_on(agents, own)) if agents else "none",
        "today": _line(today.total),
    }
    session.screen.pairs(shown)
    lacking = {**today.unpriced}
    if lacking:
        session.screen.quiet(f"not known: {', '.join(lacking)}; [prices] in the settings has yours")


def _line(spent: Spent) -> str:
    answers = spent.bill.requests
    usage = spent.usage
    return (
        f"{spent.bill} ({answers:,} {'answer' if answers == 1 else 'answers'}, "
        f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out)"
    )
