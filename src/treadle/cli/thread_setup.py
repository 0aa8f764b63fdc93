"""The setup of threads: from configuration and command line to a thread that can run.

Owns what commands agree on: which settings hold, which model is asked, which tools it
has. Invariant: `treadle prompt` and `treadle exec` prepare a turn through the same code.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec
from msgspec import Struct

from ..config import Config, Settings, load_config
from ..config.settings import ModelSettings, ProviderSettings
from ..context.head import Choices
from ..models.providers import ProviderConfig
from ..prompt.machine import DocsRules
from ..prompt.prompt_context import PromptContext
from ..store.contract import ThreadInfo
from .chosen_channels import chosen_channels
from .cli_home import Home, find_thread
from .fallbacks import apply_fallbacks
from .output import printable
from .profiles import credentials_of
from .run_options import RunOptions

if TYPE_CHECKING:
    from ..delivery.channel import Channel
    from ..harness.select import HarnessRules
    from ..hooks.configured_hooks import ProjectHook
    from ..subagents import AgentLimits
    from ..thread.options import EngineOptions, HarnessOptions, ThreadOptions
    from ..thread.thread import Thread

_NOT_CONNECTION = ("harness", "profiles", "params")
"""The keys of a provider's table that do not describe its address."""

__all__ = [
    "Setup",
    "about",
    "adapt",
    "agents_of",
    "choices_of",
    "docs_rules",
    "engine_options",
    "harness_options",
    "harness_rules",
    "open_thread",
    "params_of",
    "prepare",
    "prompt_settings",
    "providers_of",
    "shown_model",
    "shown_network",
    "thread_options",
    "warn_of_project",
]


class Setup(Struct, frozen=True, kw_only=True):
    """Everything that is known before a thread is opened."""

    home: Path
    cwd: Path
    config: Config
    settings: Settings
    """The settings of the configuration, changed by the options of this run."""
    info: ThreadInfo | None = None
    """The thread to continue; None creates one."""
    profile: str | None = None
    """The profile that the user named for the thread, if any."""

    @property
    def model(self) -> str | None:
        """Return the model to use; None for the thread's own."""
        fresh = self.info is None or self.info.turns == 0
        chosen = self.config.layer_of("model") in ("flag", "environment")
        return self.settings.model if fresh or chosen else None


async def prepare(
    home: Home, options: RunOptions, resume: str | None = None, *, attended: bool = True
) -> Setup:
    """Read the configuration. Without a user (`attended`), no approval is asked by default."""
    info = None
    if resume is not None:
        async with home.store() as store:
            info = await find_thread(store, resume)
    cwd = (options.cwd or (Path(info.cwd) if info else Path())).absolute()
    config = load_config(home.path, cwd, os.environ, options.flags())
    settings = _run_settings(config, cwd, options, attended=attended)
    return Setup(
        home=home.path,
        cwd=cwd,
        config=config,
        settings=settings,
        info=info,
        profile=options.profile,
    )


def _run_settings(config: Config, cwd: Path, options: RunOptions, *, attended: bool) -> Settings:
    settings = config.settings
    if not attended and config.layer_of("approval") == "default":
        settings = msgspec.structs.replace(settings, approval="never")
    roots = [Path(root).expanduser() for root in settings.writable_roots]
    added = [place.absolute() for place in options.add_dirs]
    writable = tuple(str(cwd / root) for root in (*roots, *added))
    return msgspec.structs.replace(settings, writable_roots=writable)


def warn_of_project(setup: Setup) -> None:
    """Warn when the file of the project is ignored or some of its hooks do not run."""
    from ..hooks.configured_hooks import untrusted_hooks

    if setup.config.untrusted is not None:
        click.echo(
            f"treadle: {printable(str(setup.config.untrusted))} is ignored; "
            "read it, then `treadle trust` lets it count",
            err=True,
        )
    for hook in untrusted_hooks(setup.config, setup.home):
        click.echo(f"treadle: {printable(untrusted_text(hook, hook.read().problem))}", err=True)


def untrusted_text(hook: ProjectHook, problem: str) -> str:
    """Say why a hook does not run, and what to do."""
    why = problem or "it is not trusted as it is; read it, then `treadle trust` lets it"
    return f"hook {hook.name!r} of {hook.file} does not run: {why}"


def about(setup: Setup, thread: Thread) -> str:
    """Describe model, sandbox and approvals on one line; a missing sandbox in capitals."""
    settings, model = setup.settings, shown_model(thread)
    if settings.sandbox == "danger-full-access":
        rights = "NO SANDBOX: commands can do everything that you can"
        return f"{model} · {rights} · asks {settings.approval}"
    return f"{model} · {settings.sandbox}, {shown_network(settings)} · asks {settings.approval}"


def shown_network(settings: Settings) -> str:
    """Describe which part of the network sandboxed commands reach."""
    if isinstance(settings.network, bool) or not settings.network:
        return "network" if settings.network else "no network"
    return f"network: {', '.join(settings.network)}"


def shown_model(thread: Thread) -> str:
    """Return the model, and the harness unless it is Treadle's own loop."""
    harness = thread.policy.harnesses.select(thread.model).harness
    return thread.model if harness == "treadle" else f"{thread.model} on {harness}"


@asynccontextmanager
async def open_thread(
    setup: Setup, *, title: str = "", keep_empty: bool = False, terminal: TextIO | None = None
) -> AsyncIterator[Thread]:
    """Open the thread, with the built-in tools of its model.

    One that was made and never said anything is forgotten, unless `keep_empty`. Replies go
    to the channel of the settings; to one that is a terminal, only if there is a `terminal`.
    """
    made = ""
    try:
        async with (
            chosen_channels(setup.settings, os.environ, terminal) as channels,
            _open(setup, title, channels) as thread,
        ):
            await adapt(thread, setup)
            made = "" if setup.info or keep_empty else thread.id
            yield thread
    finally:
        if made:
            await _forget_if_empty(setup.home, made)


async def adapt(thread: Thread, setup: Setup) -> None:
    """Apply the fallbacks and the profile of the setup to an open thread."""
    apply_fallbacks(thread, setup.config)
    assert thread.policy.routes.credentials is not None, "it was opened with one"
    if setup.profile is not None:
        await thread.policy.routes.credentials.pin(thread.id, setup.profile)


async def _forget_if_empty(home: Path, thread: str) -> None:
    async with Home(home).store() as store:
        if (await store.info(thread)).last == 0:
            await store.delete(thread)


def _open(
    setup: Setup, title: str, channels: Mapping[str, Channel]
) -> AbstractAsyncContextManager[Thread]:
    from ..thread.thread import Thread

    options = thread_options(setup).with_changes(channels=channels, title=title)
    return Thread.open_with(options, setup.info.id if setup.info else None)


def thread_options(setup: Setup) -> ThreadOptions:
    """Return the options that a thread is opened with."""
    from ..hooks.configured_hooks import load_hooks
    from ..thread.options import PromptOptions, Rights, Routing, ThreadOptions, ToolOptions

    settings = setup.settings
    return ThreadOptions(
        model=setup.model,
        cwd=setup.cwd,
        home=setup.home,
        tools=ToolOptions(output_limit=settings.tool_output_token_limit),
        choices=choices_of(settings),
        hooks=load_hooks(setup.config, setup.home),
        rights=Rights(settings=prompt_settings(settings)),
        engine=engine_options(settings),
        harness=harness_options(setup.config),
        routing=Routing(
            default_model=settings.model,
            environ=os.environ,
            credentials=credentials_of(Home(setup.home), settings),
            providers=providers_of(settings),
            params=params_of(settings),
        ),
        prompt=PromptOptions(docs=docs_rules(settings)),
        agents=agents_of(settings),
    )


def prompt_settings(settings: Settings) -> PromptContext:
    """Return the settings that the model is told about, which are those in force."""
    return PromptContext(
        cwd="",
        sandbox_mode=settings.sandbox,
        approval_policy=settings.approval,
        network_access=settings.network is True,
        network_hosts=() if isinstance(settings.network, bool) else settings.network,
        writable_roots=settings.writable_roots,
        developer_instructions=settings.developer_instructions,
    )


def engine_options(settings: Settings) -> EngineOptions:
    """Return the options of the selected engine."""
    from ..engines.loading import canonical_name
    from ..thread.options import EngineOptions

    engine = canonical_name(settings.engine)
    return EngineOptions(
        engine=engine,
        config=settings.engines.get(engine, {}),
        citations=settings.citations,
        recall_threads=settings.recall_threads,
    )


def harness_options(config: Config) -> HarnessOptions:
    """Return the options of the selected harness.

    A flag and a variable are about this run; what a file says holds where neither the
    model nor its provider have a harness of their own.
    """
    from ..thread.options import HarnessOptions

    chosen = config.layer_of("harness") in ("flag", "environment")
    return HarnessOptions(
        harness=config.settings.harness if chosen else "auto",
        rules=harness_rules(config.settings, general=not chosen),
    )


def harness_rules(settings: Settings, *, general: bool = True) -> HarnessRules:
    """Return the harness rules of the configuration; `general` includes the plain key."""
    from ..harness.select import HarnessRules

    codex = msgspec.structs.asdict(settings.codex)
    return HarnessRules(
        general=settings.harness if general else "auto",
        models=_harnesses(settings.models),
        providers=_harnesses(settings.providers),
        tables={**settings.harnesses, "codex": codex},
    )


def _harnesses(tables: Mapping[str, ModelSettings | ProviderSettings]) -> dict[str, str]:
    said = {name: table.harness for name, table in tables.items()}
    return {name: harness for name, harness in said.items() if isinstance(harness, str)}


def agents_of(settings: Settings) -> AgentLimits | None:
    """Return the limits of the agents that a thread may start; None where it starts none."""
    from ..subagents import AgentLimits

    asked = settings.agents
    if not asked.enabled:
        return None
    return AgentLimits(depth=asked.depth, concurrent=asked.concurrent, resume=asked.resume)


def params_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the extra parameters of requests, by provider and by model."""
    said = {name: table.params for name, table in settings.providers.items()}
    said |= {name: table.params for name, table in settings.models.items()}
    told = {name: msgspec.to_builtins(params) for name, params in said.items()}
    return {name: params for name, params in told.items() if params}


def docs_rules(settings: Settings) -> DocsRules:
    """Return how AGENTS.md files are found."""
    return DocsRules(**msgspec.structs.asdict(settings.agents_md))


def choices_of(settings: Settings) -> Choices:
    """Return the choices that differ from a model's defaults."""
    return Choices(effort=settings.effort, verbosity=settings.verbosity)


def providers_of(settings: Settings) -> Mapping[str, ProviderConfig]:
    """Return the configured providers, as models are opened with them."""
    return {
        name: ProviderConfig(**told)
        for name, provider in settings.providers.items()
        if (told := _connection_values(provider))
    }


def _connection_values(provider: ProviderSettings) -> dict[str, Any]:
    """Return the settings of a provider's address, without harness and credentials."""
    told: dict[str, Any] = msgspec.to_builtins(provider)
    return {name: value for name, value in told.items() if name not in _NOT_CONNECTION}
