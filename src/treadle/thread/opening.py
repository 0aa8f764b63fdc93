"""Opening: from what a host says to a thread that can take turns.

Owns the order in which a thread's parts are found, made and given back. Invariant: a thread
is made only when all it needs is there, and where opening fails nothing stays open.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct

from ..context.former_head import newest_head
from ..context.head import named_model
from ..context.view import load_view
from ..core.errors import ConfigError
from ..core.home import home as default_home
from ..core.home import home_path
from ..core.redact import add_secrets, learn_environment, redact_logs
from ..core.store_address import check_address
from ..engines.guard import EngineTimeouts
from ..engines.loading import EngineChoice, engine_registry
from ..engines.session import EngineSession
from ..harness.event_stream import EventStream
from ..harness.registry import harness_registry
from ..harness.select import HarnessRules
from ..harness.thread_harness import ThreadHarness
from ..log.setup import RequestSetup
from ..log.thread_log import ThreadLog
from ..models.catalog import Catalog
from ..policy.auth.credential import AuthError
from ..policy.overlays import Overlays
from ..policy.permissions import settings_of
from ..policy.routes import Routes
from ..prompt.contributions import installed_overlays
from ..prompt.machine import user_shell
from ..prompt.registry import Registry, installed_registry
from ..store.contract import Index, Store
from ..store.shared_store import index_beside, open_shared
from ..subagents import Subagents, ThreadAccess
from .elsewhere import Place, check_place_of_tools, find_place_of_tools, host_executor
from .option_checks import check_options, check_values
from .options import HarnessOptions, Limits, PromptOptions, Rights, ThreadOptions
from .policy import ThreadPolicy

if TYPE_CHECKING:
    from ..engines.call_context import CompleteFactory
    from ..prompt.prompt_context import PromptContext
    from ..subagents import AgentDefinition
    from ..tools.executor import ToolExecutor
    from .policy import ThreadPolicy

__all__ = ["Parts", "child_options", "open_engine", "open_parts"]


class Parts(Struct, frozen=True, kw_only=True):
    """What a thread is put together from."""

    log: ThreadLog
    options: ThreadOptions
    routes: Routes
    harnesses: ThreadHarness
    overlays: Overlays
    events: EventStream
    place: Place | None = None
    """Where tools act, if that is not simply this machine."""


class _Place(Struct, frozen=True):
    """Where a thread lives."""

    home: Path | None
    store: Store
    index: Index


class _Facts(Struct, frozen=True):
    """What is read before a thread is opened."""

    home: Path
    """Where harnesses keep their own files."""
    catalog: Catalog
    registry: Registry
    overlays: Overlays
    shell: str
    """The shell for command lines."""


async def open_parts(stack: AsyncExitStack, thread: str | None, options: ThreadOptions) -> Parts:
    """Find and make the parts of a thread; what must be given back leaves with the `stack`."""
    check_values(options)
    model = options.model_name
    if thread is None and model is None:
        raise ConfigError("a new thread needs a model; name one, such as 'openai:gpt-5.5'")
    settings = _told_settings(options)
    redact_logs()
    place = await _open_place(stack, options)
    facts = await asyncio.to_thread(_read_facts, place.home, options)
    model = facts.catalog.full_name(model or "")
    harnesses = _thread_harness(facts, options)
    stack.push_async_callback(harnesses.close)
    if new := thread is None:
        await harnesses.ensure(model)  # so that no thread is made in vain
        await check_options(options, facts.catalog, harnesses, new=True)
        thread = await _create(place.store, options, settings)
    lease = await place.store.acquire(thread)
    stack.push_async_callback(lease.release)
    info = await place.store.info(thread)
    view = await load_view(place.store, info.id, facts.registry, info=info)
    last = await newest_head(place.store, view)
    model = facts.catalog.full_name(model or named_model(last, options.routing.default_model))
    await harnesses.ensure(model, info.id)
    if not new:
        await check_options(options, facts.catalog, harnesses, new=False)
    log = ThreadLog(
        info.id,
        store=place.store,
        index=place.index,
        registry=facts.registry,
        lease=lease,
        view=view,
        setup=_request_setup(
            facts, options, settings, model=model, cwd=options.cwd or info.cwd, home=place.home
        ),
        turn=info.turns,
        # A writer that goes on with the newest turn counts on from the step that it had reached.
        step=view.newest[1] if view.newest[0] == info.turns else 0,
    )
    if options.client is not None:
        log.setup.connect_to(options.client)
    events = EventStream()
    acts_in = await find_place_of_tools(log, options, events.warn)
    if acts_in is not None:
        log.setup.executor = acts_in.facts
        log.setup.shell = acts_in.facts.shell
    return Parts(
        log=log,
        options=options,
        routes=_routes(info.id, facts.catalog, options),
        harnesses=harnesses,
        overlays=facts.overlays,
        events=events,
        place=acts_in,
    )


def _told_settings(options: ThreadOptions) -> PromptContext:
    """Return the settings that the model is told. Raises `ConfigError` for those that cannot be."""
    rights = options.rights
    return settings_of(
        rights.settings, rights.sandbox, rights.approval, rights.network, rights.writable_roots
    )


async def _create(store: Store, options: ThreadOptions, settings: PromptContext) -> str:
    """Make a thread, where commands of it can run."""
    cwd = _absolute(options.cwd)
    check_place_of_tools(options.tools, Path(cwd), settings)
    return (await store.create(cwd=cwd, title=options.title)).id


def _request_setup(
    facts: _Facts,
    options: ThreadOptions,
    settings: PromptContext,
    *,
    model: str,
    cwd: Path | str,
    home: Path | None,
) -> RequestSetup:
    """Return what the requests of a thread are made of."""
    return RequestSetup(
        catalog=facts.catalog,
        model=model,
        profile=facts.catalog.profile(model),
        cwd=Path(cwd),
        home=home,
        output_limit=options.tools.output_limit,
        choices=options.choices,
        instructions=options.prompt.instructions,
        docs=options.prompt.docs,
        shell=facts.shell,
        clock=options.prompt.clock,
        settings=settings,
    )


def _learn_keys(options: ThreadOptions) -> None:
    """Know the keys that are given before anything of the thread is written."""
    routing = options.routing
    environ = os.environ if routing.environ is None else routing.environ
    learn_environment(environ)
    for config in routing.providers.values():
        variables = (config.key_variable or "", *(config.env_headers or {}).values())
        add_secrets(config.key or "", *(environ.get(name, "") for name in variables))
    if routing.credentials is not None:
        # Whoever needs them says what is wrong with them.
        with suppress(AuthError, OSError):
            routing.credentials.secrets.profiles()


def open_policy(parts: Parts, subagents: Subagents) -> ThreadPolicy:
    """Return what decides before each attempt of the thread."""
    return ThreadPolicy(
        parts.log,
        parts.options,
        routes=parts.routes,
        harnesses=parts.harnesses,
        overlays=parts.overlays,
        subagents=subagents,
        warn=parts.events.warn,
    )


def open_engine(parts: Parts, completes: CompleteFactory) -> EngineSession:
    """Give the thread's engine its session; it follows the log from now on."""
    log, options, harness = parts.log, parts.options.engine, parts.harnesses.harness
    if isinstance(options.engine, str):
        choice = EngineChoice.by_name(
            options.engine,
            options.registry or engine_registry(),
            home=log.setup.home,
            cwd=log.setup.cwd,
            config=dict(options.config),
        )
    else:
        choice = EngineChoice.of_host(options.engine, log.setup.home)
    return EngineSession(
        log=log,
        choice=choice,
        harness=harness.name,
        capabilities=harness.capabilities,
        citations=options.citations,
        completes=completes,
        grants=ThreadAccess(log.store, options.recall_threads, options.recall == "project"),
        notify=parts.events.warn,
        report=parts.events.emit,
        timeouts=options.timeouts or EngineTimeouts(),
    )


def child_options(
    policy: ThreadPolicy,
    log: ThreadLog,
    executor: ToolExecutor | str | None,
    definition: AgentDefinition | None,
) -> ThreadOptions:
    """Return how an agent's thread is opened: with no more rights than its parent has."""
    options, setup = policy.options, log.setup
    opened = options.with_changes(
        model=options.client or setup.model,
        cwd=setup.cwd,
        home=setup.home,
        title="",
        choices=msgspec.structs.replace(setup.choices, output_schema=UNSET),
        rights=Rights(settings=setup.settings),
        tools=msgspec.structs.replace(options.tools, executor=executor),
        harness=HarnessOptions(harness=policy.harness),
        prompt=PromptOptions(
            registry=log.registry,
            overlays=policy.overlays,
            instructions=setup.instructions,
            docs=setup.docs,
            clock=setup.clock,
            window_use=options.prompt.window_use,
        ),
        channels={},
        limits=Limits(),
        store=log.store,
        index=log.index,
    )
    return opened if definition is None else _apply_definition(opened, options, definition)


def _apply_definition(
    opened: ThreadOptions, parent: ThreadOptions, definition: AgentDefinition
) -> ThreadOptions:
    """Return how an agent of a kind is opened: with the share of the rights that it has."""
    choices, allows = opened.choices, opened.tools.allows
    if definition.effort is not None:
        choices = msgspec.structs.replace(choices, effort=definition.effort)
    if definition.model is not None:
        # Another provider may want another harness.
        opened = opened.with_changes(model=definition.model, harness=parent.harness)
    assert opened.rights.settings is not None, "a child gets its parent's"
    return opened.with_changes(
        choices=choices,
        rights=Rights(settings=definition.narrow(opened.rights.settings)),
        tools=msgspec.structs.replace(
            opened.tools,
            allows=lambda name: definition.allows(name) and (allows is None or allows(name)),
        ),
    )


async def _open_place(stack: AsyncExitStack, options: ThreadOptions) -> _Place:
    home = None if options.home is None else Path(options.home)
    index = options.index
    if options.store is None or isinstance(options.store, str):
        home = default_home() if home is None else home
        address = None if options.store is None else check_address(options.store)
        kept = await stack.enter_async_context(open_shared(home, address))
        return _Place(home, kept.store, index or kept.index)
    if index is None:
        index = index_beside(options.store, home)
        stack.push_async_callback(index.close)
    return _Place(home, options.store, index)


def _read_facts(home: Path | None, options: ThreadOptions) -> _Facts:
    """Read files and what is installed; in a thread of its own, all at once."""
    _learn_keys(options)
    known = Catalog.load(home / "models.toml" if home else None)
    if options.client is not None and ":" in options.client.name:
        # Whoever brings a model says whose it is.
        known = known.with_providers((options.client.name.partition(":")[0],))
    registry, overlays = options.prompt.registry, options.prompt.overlays
    return _Facts(
        home or home_path(),
        known.with_providers(options.routing.providers),
        installed_registry() if registry is None else registry,
        Overlays(installed_overlays()) if overlays is None else overlays,
        # Nobody knows the user's own elsewhere.
        "bash" if host_executor(options.tools) else user_shell(os.environ),
    )


def _thread_harness(facts: _Facts, options: ThreadOptions) -> ThreadHarness:
    harness, routing = options.harness, options.routing
    return ThreadHarness(
        wanted=harness.harness,
        catalog=facts.catalog,
        own_model=options.client.name if options.client is not None else "",
        home=facts.home,
        environ=os.environ if routing.environ is None else routing.environ,
        providers=routing.providers,
        rules=harness.rules or HarnessRules(),
        registry=harness.registry or harness_registry(),
    )


def _routes(thread: str, catalog: Catalog, options: ThreadOptions) -> Routes:
    routing = options.routing
    return Routes(
        thread=thread,
        catalog=catalog,
        environ=os.environ if routing.environ is None else routing.environ,
        providers=routing.providers,
        credentials=routing.credentials,
        fallbacks=() if options.client is not None else tuple(routing.fallbacks),
        strict=routing.strict,
    )


def _absolute(place: Path | str | None) -> str:
    return str(Path(place or ".").absolute())
