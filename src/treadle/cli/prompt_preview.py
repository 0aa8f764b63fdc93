"""Previews: the present, a past or the next request of a thread, without its lease.

Owns how `treadle prompt` gets at a request. Invariant: it reads and never writes, so it
works beside a writer and on a home that cannot be written.
"""

from __future__ import annotations

import asyncio
from functools import partial

import click
import msgspec
from msgspec import Struct

from ..context.compose import change_of_head, missing_outputs, opening_drafts
from ..context.head import build_head, named_model
from ..context.ledger import compare
from ..context.preview import preview
from ..context.request import Renderer, Request
from ..context.view import View, load_view
from ..core.entries import Draft, Entry, Head, Reason, RequestMark
from ..core.errors import NotFound
from ..models.catalog import Catalog
from ..models.profile import ModelProfile
from ..policy.overlays import add_contribution
from ..policy.turn_plan import TurnPlan
from ..prompt.context_changes import take_snapshots
from ..prompt.input import user_message
from ..prompt.instructions import base_instructions
from ..prompt.machine import observe_machine
from ..prompt.prompt_context import PromptContext
from ..prompt.registry import Registry
from ..sandbox.reading import open_for_model
from ..store.contract import Store
from ..subagents import listed_agents
from .dry_run import open_dry_run
from .output import printable
from .thread_setup import Setup, choices_of, docs_rules, prompt_settings

__all__ = [
    "PLACEHOLDER",
    "Peek",
    "Previous",
    "as_it_stands",
    "previous_request",
    "warn_of",
    "with_input",
]

PLACEHOLDER = "thr_00000000-0000-7000-8000-000000000000"
"""The id of a thread that does not exist yet."""

_PAGE = 256


class Peek(Struct, frozen=True):
    """A request, the view it shows, and why its prefix would break if it would."""

    view: View
    request: Request
    breaks: Reason | None = None
    recorded: bool | None = None
    """For a past request: whether these are the bytes that were sent then."""


class Previous(Struct, frozen=True):
    """The request before, and how much of it this request starts with."""

    seq: int
    shared: int
    size: int
    difference: str | None


async def as_it_stands(store: Store, thread: str, registry: Registry, at: int | None) -> Peek:
    """Return the newest request of a thread, or the newest at entry `at`."""
    recorded: bool | None = None
    entry = await _entry(store, thread, at) if at is not None else None
    view = await load_view(store, thread, registry, upto=at)
    request = Renderer().render(view)
    if entry is not None and entry.kind == "request":
        mark = entry.control
        recorded = isinstance(mark, RequestMark) and mark.digest == request.digest
    return Peek(view, request, recorded=recorded)


async def with_input(view: View, registry: Registry, text: str | None, setup: Setup) -> Peek:
    """Return the request with `text` as the next input; without text, with its context only."""
    known = await asyncio.to_thread(Catalog.load, setup.home / "models.toml")
    catalog = known.with_providers(setup.settings.providers)
    named = setup.model or named_model(view.head, setup.settings.model)
    profile = catalog.profile(named)
    instructions = await asyncio.to_thread(base_instructions, profile, setup.home)
    told = msgspec.structs.replace(
        prompt_settings(setup.settings),
        model=profile.slug,
        model_instructions=instructions,
        subagents=listed_agents(view.settings, view.thread),
    )
    rules = docs_rules(setup.settings)
    context = await asyncio.to_thread(
        observe_machine,
        setup.cwd,
        settings=told,
        home=setup.home,
        rules=rules,
        open_file=partial(open_for_model, setup.cwd, setup.home),
    )
    warn_of(context)
    async with open_dry_run(setup) as thread:
        plan = await thread.foresee()
    context = add_contribution(context, plan.prompt.contribution)
    drafts: tuple[Draft, ...] = opening_drafts(
        view, registry, take_snapshots(registry, context), user_message(text or "…")
    )
    if text is None:
        drafts = drafts[:-1]
    kept = view.head.instructions if view.head else instructions
    head = _head(setup, profile, kept, plan)
    breaks = change_of_head(view.head, head)
    shown, request = preview(view, head, (*missing_outputs(view), *drafts), registry, reason=breaks)
    return Peek(shown, request, breaks)


def _head(setup: Setup, profile: ModelProfile, instructions: str, plan: TurnPlan) -> Head:
    """Return the head that the plan builds from the configuration."""
    return plan.head(
        build_head(
            profile,
            instructions=instructions,
            tools=plan.tools.specs,
            choices=choices_of(setup.settings),
            api=plan.target.api,
        )
    )


async def previous_request(
    store: Store, thread: str, registry: Registry, peek: Peek, *, before: int
) -> Previous | None:
    """Compare with the newest request in the log before entry `before`."""
    mark = await _newest_mark(store, thread, before - 1)
    if mark is None:
        return None
    control = mark.control
    assert isinstance(control, RequestMark)
    view = await load_view(store, thread, registry, upto=control.upto)
    earlier = Renderer().render(view)
    same = compare(earlier.segments, peek.request.segments)
    shared = sum(segment.size for segment in peek.request.segments[: same.segments])
    return Previous(mark.seq, shared, len(earlier.body), same.difference)


async def _newest_mark(store: Store, thread: str, last: int) -> Entry | None:
    while last > 0:
        page = await store.read(thread, 1, last, reverse=True, limit=_PAGE)
        if not page:
            return None
        for entry in page:
            if entry.kind == "request":
                return entry
        last = page[-1].seq - 1
    return None


async def _entry(store: Store, thread: str, seq: int) -> Entry:
    last = (await store.info(thread)).last
    found = await store.read(thread, seq, seq) if 1 <= seq <= last else []
    if not found:
        raise NotFound("entry", seq, f"thread {thread!r} has entries 1 to {last}")
    return found[0]


def warn_of(context: PromptContext) -> None:
    """Print which AGENTS.md files were left out or cut."""
    for problem in context.agents_docs.problems if context.agents_docs else ():
        click.echo(f"treadle: {printable(problem)}", err=True)
