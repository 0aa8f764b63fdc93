"""Opening: from what a host says to a thread that can take turns.

Owns what `Thread.open` accepts, and the order in which a thread's parts are found, made and
given back. Invariant: a thread is made only when all it needs is there, and where opening
fails nothing stays open.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
from msgspec import UNSET, Struct

from ..context.head import Choices, named_model
from ..context.view import load_view
from ..core.errors import ConfigError
from ..core.home import home as default_home
from ..core.home import home_path
from ..core.redact import guard_logs
from ..core.specs import ToolSpec
from ..log.setup import RequestSetup
from ..log.thread_log import ThreadLog
from ..models.catalog import Catalog
from ..policy.overlays import Overlays
from ..policy.permissions import told
from ..policy.routes import Routes
from ..prompt.contributions import installed_overlays
from ..prompt.observation import ApprovalPolicy, PromptContext, SandboxMode
from ..prompt.registry import Registry, installed_registry
from ..store.contract import Index, Store, ThreadInfo
from ..store.index import SqliteIndex
from ..store.shared import open_shared

if TYPE_CHECKING:
    from ..delivery.channel import Channel
    from ..engines.contract import ContextEngine
    from ..engines.registry import EngineRegistry
    from ..engines.session import EngineTimeouts
    from ..engines.values import CitationsMode
    from ..harness.contract import Harness
    from ..harness.registry import HarnessRegistry
    from ..harness.select import HarnessRules
    from ..harness.slot import HarnessSlot
    from ..hooks import Hooks
    from ..models.connect import ProviderConfig
    from ..models.contract import Model
    from ..policy.auth.wallet import Wallet
    from ..subagents import AgentLimits
    from ..tools.contract import Tool
    from ..tools.executor import ToolExecutor
    from .thread import Thread

__all__ = ["Options", "gathered", "opened_child"]


class Options(TypedDict, total=False):
    """What a host may say of the thread that it opens; all of it may be left out."""

    model: str | Model | None
    """Asked from now on; else a thread goes on with the model it asked last."""
    default_model: str | None
    """Asked by a thread that has asked none, such as an imported one."""
    cwd: Path | str | None
    """Where it works; else where it was made."""
    home: Path | None
    """Where threads live: else `TREADLE_HOME`, or the platform's data directory."""
    sandbox: SandboxMode | None
    approval: ApprovalPolicy | None
    network: bool | None
    writable_roots: Sequence[str] | None
    settings: PromptContext | None
    """Everything the model is told of its rights; the four above change some of it."""
    tools: Sequence[Tool | ToolSpec] | None
    """Else the built-in ones."""
    choices: Choices | None
    executor: ToolExecutor | None
    """Where tools act; else on this machine."""
    harness: str | Harness
    """Runs the turns: by name, ``auto``, or the host's own, which is left and not closed."""
    harness_rules: HarnessRules | None
    harnesses: HarnessRegistry | None
    hooks: Hooks | None
    store: Store | None
    """Else the one in `home`, shared with the threads that are open there."""
    index: Index | None
    registry: Registry | None
    """The fragments; else the built-in ones and those of installed packages."""
    environ: Mapping[str, str] | None
    """Where keys and addresses of providers are looked up; else the process's own."""
    providers: Mapping[str, ProviderConfig] | None
    wallet: Wallet | None
    """Profiles to pay with; where one does not answer, the next is tried."""
    fallbacks: Sequence[str]
    """Models to ask where the first does not answer."""
    strict: bool
    """Whether only the model that was asked for may answer."""
    output_limit: int | None
    engine: str | ContextEngine
    engine_config: Mapping[str, Any] | None
    engines: EngineRegistry | None
    citations: CitationsMode
    patience: EngineTimeouts | None
    recall_threads: Collection[str]
    agents: AgentLimits | None
    """With it the model gets tools to start others."""
    overlays: Overlays | None
    """What is added to prompts; else what installed packages add."""
    params: Mapping[str, Mapping[str, Any]] | None
    """What requests say besides, by provider or model."""
    channel: Channel | Mapping[str, Channel] | None
    """Where replies go, too; of several, by name, the first takes what has no origin."""
    title: str


class _Place(Struct, frozen=True):
    """Where a thread lives."""

    home: Path | None
    store: Store
    index: Index


class _Facts(Struct, frozen=True):
    """What is read before a thread is opened."""

    catalog: Catalog
    registry: Registry
    overlays: Overlays


async def gathered(stack: AsyncExitStack, thread: str | None, said: Options) -> dict[str, Any]:
    """The parts that a thread is made of; what must be given back leaves with the `stack`."""
    _check(said)
    model, environ = said.get("model"), said.get("environ")
    environ = os.environ if environ is None else environ
    named = model if isinstance(model, str) or model is None else model.name
    if thread is None and named is None:
        raise ConfigError("a new thread needs a model; say which, such as 'openai:gpt-5.5'")
    guard_logs()
    place = await _placed(stack, said)
    facts = await asyncio.to_thread(_read, place.home, said)
    slot = _slot(place.home, facts.catalog, environ, said)
    stack.push_async_callback(slot.close)
    if thread is None:
        await slot.seat(named or "")  # so that no thread is made in vain
        cwd = _absolute(said.get("cwd"))
        thread = (await place.store.create(cwd=cwd, title=said.get("title", ""))).id
    lease = await place.store.acquire(thread)
    stack.push_async_callback(lease.release)
    info = await place.store.info(thread)
    view = await load_view(place.store, info.id, facts.registry, info=info)
    asked = named or named_model(view.head, said.get("default_model"))
    await slot.seat(asked, info.id)
    setup = RequestSetup(
        catalog=facts.catalog,
        model=asked,
        cwd=Path(said.get("cwd") or info.cwd),
        home=place.home,
        choices=said.get("choices") or Choices(),
        settings=_settings(said),
    )
    return {
        "log": ThreadLog(
            info.id,
            store=place.store,
            index=place.index,
            registry=facts.registry,
            lease=lease,
            view=view,
            setup=setup,
            turn=info.turns,
            step=await _newest_step(place.store, info),
        ),
        "served": slot,
        "client": None if isinstance(model, str) else model,
        "environ": environ,
        "providers": slot.providers,
        "routes": _routes(info.id, facts.catalog, environ, slot, said),
        "overlays": facts.overlays,
        **_as_said(said),
    }


def _as_said(said: Options) -> dict[str, Any]:
    """The parts that are what the host says, or the usual."""
    return {
        "executor": said.get("executor"),
        "hooks": said.get("hooks"),
        "output_limit": said.get("output_limit"),
        "engine": said.get("engine", "linear"),
        "engine_config": said.get("engine_config") or {},
        "engines": said.get("engines"),
        "citations": said.get("citations", "auto"),
        "patience": said.get("patience"),
        "recall_threads": said.get("recall_threads", ()),
        "agents": said.get("agents"),
        "params": said.get("params") or {},
        "channels": _named(said.get("channel")),
    }


@asynccontextmanager
async def opened_child(parent: Thread, child: str) -> AsyncIterator[Thread]:
    """An agent's thread: with the model, the tools and no more rights than its parent has."""
    from ..subagents import Lent

    async with type(parent).open(
        child,
        model=parent.client or parent.log.setup.model,
        cwd=parent.log.setup.cwd,
        home=parent.log.setup.home,
        tools=parent.brought,
        choices=msgspec.structs.replace(parent.log.setup.choices, output_schema=UNSET),
        settings=parent.log.setup.settings,
        executor=Lent(parent.lent) if parent.lent else None,
        harness=parent.harness,
        hooks=parent.hooks,
        store=parent.store,
        index=parent.index,
        registry=parent.registry,
        environ=parent.environ,
        providers=parent.providers,
        wallet=parent.routes.wallet,
        fallbacks=parent.routes.fallbacks,
        strict=parent.routes.strict,
        output_limit=parent.output_limit,
        engine=parent.engine,
        engine_config=parent.engine_config,
        engines=parent.engines,
        citations=parent.citations,
        patience=parent.patience,
        recall_threads=parent.recall_threads,
        agents=parent.agents,
        overlays=parent.overlays,
        params=parent.params,
    ) as opened:
        opened.log.setup.docs = parent.log.setup.docs
        yield opened


def _check(said: Options) -> None:
    if unknown := said.keys() - Options.__annotations__.keys():
        raise TypeError(f"Thread.open() got an unexpected keyword argument {min(unknown)!r}")


async def _placed(stack: AsyncExitStack, said: Options) -> _Place:
    home, store, index = said.get("home"), said.get("store"), said.get("index")
    if store is None:
        home = default_home() if home is None else home
        kept = await stack.enter_async_context(open_shared(home))
        return _Place(home, kept.store, index or kept.index)
    if index is None:
        index = SqliteIndex(store, home)
        stack.push_async_callback(index.close)
    return _Place(home, store, index)


def _read(home: Path | None, said: Options) -> _Facts:
    """Read files and what is installed; in a thread of its own, all at once."""
    known = Catalog.load(home / "models.toml" if home else None)
    registry, overlays = said.get("registry"), said.get("overlays")
    return _Facts(
        known.with_providers(said.get("providers") or ()),
        installed_registry() if registry is None else registry,
        Overlays(installed_overlays()) if overlays is None else overlays,
    )


def _slot(
    home: Path | None, catalog: Catalog, environ: Mapping[str, str], said: Options
) -> HarnessSlot:
    from ..harness.registry import harness_registry
    from ..harness.select import HarnessRules
    from ..harness.slot import HarnessSlot

    return HarnessSlot(
        wish=said.get("harness", "auto"),
        catalog=catalog,
        brought=not isinstance(said.get("model"), str | None),
        home=home or home_path(),
        environ=environ,
        providers=said.get("providers") or {},
        rules=said.get("harness_rules") or HarnessRules(),
        registry=said.get("harnesses") or harness_registry(),
    )


def _routes(
    thread: str, catalog: Catalog, environ: Mapping[str, str], slot: HarnessSlot, said: Options
) -> Routes:
    return Routes(
        thread=thread,
        catalog=catalog,
        environ=environ,
        providers=slot.providers,
        wallet=said.get("wallet"),
        fallbacks=() if slot.brought else tuple(said.get("fallbacks", ())),
        strict=said.get("strict", False),
    )


def _settings(said: Options) -> PromptContext:
    return told(
        said.get("settings"),
        said.get("sandbox"),
        said.get("approval"),
        said.get("network"),
        said.get("writable_roots"),
    )


def _named(channel: Channel | Mapping[str, Channel] | None) -> Mapping[str, Channel]:
    """Channels by the names that replies call them."""
    if channel is None or isinstance(channel, Mapping):
        return channel or {}
    from ..delivery.outgoing import HOST

    return {HOST: channel}


async def _newest_step(store: Store, info: ThreadInfo) -> int:
    """The step that the newest turn had reached, for a writer that goes on with it."""
    newest = await store.read(info.id, info.last, info.last) if info.last else []
    return newest[0].step if newest and newest[0].turn == info.turns else 0


def _absolute(place: Path | str | None) -> str:
    return str(Path(place or ".").absolute())
