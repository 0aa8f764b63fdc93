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

from ..context.head import named_model
from ..context.view import load_view
from ..core.errors import ConfigError
from ..core.home import home as default_home
from ..core.home import home_path
from ..core.redact import add_secrets, learn_environment, redact_logs
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
from ..prompt.registry import Registry, installed_registry
from ..store.contract import Index, Store, ThreadInfo
from ..store.index import SqliteIndex
from ..store.shared_store import open_shared
from ..subagents import ThreadAccess
from .options import HarnessOptions, PromptOptions, Rights, ThreadOptions

if TYPE_CHECKING:
    from ..engines.call_context import CompleteFactory
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


async def open_parts(stack: AsyncExitStack, thread: str | None, options: ThreadOptions) -> Parts:
    """Find and make the parts of a thread; what must be given back leaves with the `stack`."""
    model = options.model_name
    if thread is None and model is None:
        raise ConfigError("a new thread needs a model; name one, such as 'openai:gpt-5.5'")
    redact_logs()
    place = await _open_place(stack, options)
    facts = await asyncio.to_thread(_read_facts, place.home, options)
    harnesses = _thread_harness(facts, options)
    stack.push_async_callback(harnesses.close)
    if thread is None:
        await harnesses.ensure(model or "")  # so that no thread is made in vain
        cwd = _absolute(options.cwd)
        thread = (await place.store.create(cwd=cwd, title=options.title)).id
    lease = await place.store.acquire(thread)
    stack.push_async_callback(lease.release)
    info = await place.store.info(thread)
    view = await load_view(place.store, info.id, facts.registry, info=info)
    model = model or named_model(view.head, options.routing.default_model)
    await harnesses.ensure(model, info.id)
    rights = options.rights
    log = ThreadLog(
        info.id,
        store=place.store,
        index=place.index,
        registry=facts.registry,
        lease=lease,
        view=view,
        setup=RequestSetup(
            catalog=facts.catalog,
            model=model,
            profile=facts.catalog.profile(model),
            cwd=Path(options.cwd or info.cwd),
            home=place.home,
            choices=options.choices,
            docs=options.prompt.docs,
            settings=settings_of(
                rights.settings,
                rights.sandbox,
                rights.approval,
                rights.network,
                rights.writable_roots,
            ),
        ),
        turn=info.turns,
        step=await _newest_step(place.store, info),
    )
    return Parts(
        log=log,
        options=options,
        routes=_routes(info.id, facts.catalog, options),
        harnesses=harnesses,
        overlays=facts.overlays,
        events=EventStream(),
    )


def _learn_keys(options: ThreadOptions) -> None:
    """Know the keys that are given before anything of the thread is written."""
    routing = options.routing
    environ = os.environ if routing.environ is None else routing.environ
    learn_environment(environ)
    for config in routing.providers.values():
        add_secrets(config.key or "", environ.get(config.key_variable or "", ""))
    if routing.credentials is not None:
        # Whoever needs them says what is wrong with them.
        with suppress(AuthError, OSError):
            routing.credentials.secrets.profiles()


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
        grants=ThreadAccess(log.store, options.recall_threads),
        notify=parts.events.warn,
        report=parts.events.emit,
        timeouts=options.timeouts or EngineTimeouts(),
    )


def child_options(
    policy: ThreadPolicy, log: ThreadLog, executor: ToolExecutor | None
) -> ThreadOptions:
    """Return how an agent's thread is opened: with no more rights than its parent has."""
    options, setup = policy.options, log.setup
    return options.with_changes(
        model=options.client or setup.model,
        cwd=setup.cwd,
        home=setup.home,
        title="",
        choices=msgspec.structs.replace(setup.choices, output_schema=UNSET),
        rights=Rights(settings=setup.settings),
        tools=msgspec.structs.replace(options.tools, executor=executor),
        harness=HarnessOptions(harness=policy.harness),
        prompt=PromptOptions(registry=log.registry, overlays=policy.overlays, docs=setup.docs),
        channels={},
        store=log.store,
        index=log.index,
    )


async def _open_place(stack: AsyncExitStack, options: ThreadOptions) -> _Place:
    home, index = options.home, options.index
    if options.store is None:
        home = default_home() if home is None else home
        kept = await stack.enter_async_context(open_shared(home))
        return _Place(home, kept.store, index or kept.index)
    if index is None:
        index = SqliteIndex(options.store, home)
        stack.push_async_callback(index.close)
    return _Place(home, options.store, index)


def _read_facts(home: Path | None, options: ThreadOptions) -> _Facts:
    """Read files and what is installed; in a thread of its own, all at once."""
    _learn_keys(options)
    known = Catalog.load(home / "models.toml" if home else None)
    registry, overlays = options.prompt.registry, options.prompt.overlays
    return _Facts(
        home or home_path(),
        known.with_providers(options.routing.providers),
        installed_registry() if registry is None else registry,
        Overlays(installed_overlays()) if overlays is None else overlays,
    )


def _thread_harness(facts: _Facts, options: ThreadOptions) -> ThreadHarness:
    harness, routing = options.harness, options.routing
    return ThreadHarness(
        wanted=harness.harness,
        catalog=facts.catalog,
        brought=options.client is not None,
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


async def _newest_step(store: Store, info: ThreadInfo) -> int:
    """Return the step that the newest turn had reached, for a writer that goes on with it."""
    newest = await store.read(info.id, info.last, info.last) if info.last else []
    return newest[0].step if newest and newest[0].turn == info.turns else 0


def _absolute(place: Path | str | None) -> str:
    return str(Path(place or ".").absolute())
