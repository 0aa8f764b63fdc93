"""The setup of threads: from configuration and command line to a thread that can run.

Owns what commands agree on: which settings hold, which model is asked, which tools it
has. Invariant: `treadle prompt` and `treadle exec` prepare a turn through the same code.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec
from msgspec import Struct

from ..config import Config, Settings, load_config
from ..config.settings import ModelSettings, ProviderSettings
from ..config.trusted_files import TrustStore
from ..context.head import Choices
from ..core.errors import NotFound
from ..core.store_address import OWN_FILE
from ..engines.loading import canonical_name, engine_registry
from ..executors.choice import ExecutorChoice
from ..harness.select import HarnessRules
from ..hooks.configured_hooks import load_hooks, untrusted_hooks
from ..models.providers import ProviderConfig
from ..prompt.machine import DocsRules
from ..prompt.prompt_context import ContextValue, PromptContext, named_mode
from ..skills.rules import SkillRules
from ..skills.skill_library import SkillLibrary
from ..store.contract import ThreadInfo
from ..subagents import AgentLimits
from ..subagents.kinds import has_agent_files
from ..thread.options import (
    AgentOptions,
    EngineOptions,
    HarnessOptions,
    Limits,
    PromptOptions,
    Rights,
    Routing,
    ThreadOptions,
    ToolOptions,
)
from ..thread.thread import Thread
from .chosen_channels import chosen_channels
from .cli_home import Home, find_thread
from .fallbacks import apply_fallbacks, check_fallbacks
from .mcp_threads import open_servers, warn_of_servers
from .output import counted, printable
from .profiles import credentials_of
from .run_options import RunOptions

if TYPE_CHECKING:
    from ..delivery.channel import Channel
    from ..hooks.configured_hooks import ProjectHook
    from ..mcp.server_settings import McpServer
    from ..mcp.servers import McpServers
    from ..tools.executor_life import ExecutorSource

_NOT_CONNECTION = ("harness", "profiles", "params")
"""The keys of a provider's table that do not describe its address."""

__all__ = [
    "Setup",
    "adapt",
    "agents_of",
    "choices_of",
    "docs_rules",
    "engine_options",
    "executor_choice",
    "forget_if_empty",
    "harness_options",
    "harness_rules",
    "open_thread",
    "params_of",
    "prepare",
    "prompt_settings",
    "providers_of",
    "skill_rules",
    "thread_options",
    "warn_of_project",
    "warn_of_skills",
]


TURNS_LOG = "treadle.turns"
"""The name of the log of turns; what writes it is loaded where somebody reads it."""


class Setup(Struct, frozen=True, kw_only=True):
    """Everything that is known before a thread is opened."""

    home: Path
    address: str | None = None
    """The database with the threads; None for the file in the home."""
    cwd: Path
    config: Config
    settings: Settings
    """The settings of the configuration, changed by the options of this run."""
    info: ThreadInfo | None = None
    """The thread to continue; None creates one."""
    profile: str | None = None
    """The profile that the user named for the thread, if any."""

    @property
    def place(self) -> Home:
        """Return the home, with the threads where they are."""
        return Home(self.home, self.address or OWN_FILE)

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
    goes_on_there = info is not None and options.place is None
    cwd = (options.cwd or (Path(info.cwd) if info and goes_on_there else Path())).absolute()
    if info is not None and goes_on_there:
        _check_worktree(cwd, info)
    config = load_config(home.path, cwd, os.environ, options.flags())
    if config.layer_of("engine") in ("flag", "environment"):
        await engine_registry().check_name(config.settings.engine)
    settings = _run_settings(config, cwd, options, attended=attended)
    return Setup(
        home=home.path,
        address=home.address,
        # The settings are those of the project, wherever its worktree is.
        cwd=options.place or cwd,
        config=config,
        settings=settings,
        info=info,
        profile=options.profile,
    )


def _check_worktree(cwd: Path, info: ThreadInfo) -> None:
    """Raise `NotFound` for a thread whose worktree was removed: it must not work elsewhere."""
    if cwd.parent.parts[-2:] == (".treadle", "worktrees") and not cwd.exists():
        hint = f"-C DIR lets {info.id} work in another directory; in {str(cwd.parents[2])!r}, "
        raise NotFound("worktree", str(cwd), f"{hint}--worktree={cwd.name} makes it again")


def _run_settings(config: Config, cwd: Path, options: RunOptions, *, attended: bool) -> Settings:
    settings = config.settings
    if not attended and config.layer_of("approval") == "default":
        settings = msgspec.structs.replace(settings, approval="never")
    settings = msgspec.structs.replace(settings, model=_found_anywhere(settings.model))
    roots = [Path(root).expanduser() for root in settings.writable_roots]
    added = [place.absolute() for place in options.add_dirs]
    writable = tuple(str(cwd / root) for root in (*roots, *added))
    return msgspec.structs.replace(settings, writable_roots=writable)


def _found_anywhere(model: str) -> str:
    """Return the name of a model; a script by its whole path, which `--last` finds elsewhere."""
    provider, _, path = model.partition(":")
    if provider != "scripted" or not Path(path).suffix or Path(path).is_absolute():
        return model
    return f"{provider}:{os.path.abspath(Path(path).expanduser())}"  # noqa: PTH100 - without links


def warn_of_project(setup: Setup) -> None:
    """Warn of what the project brings and what does not count: settings, hooks, agents."""
    if setup.config.untrusted is not None:
        click.echo(
            f"treadle: {printable(str(setup.config.untrusted))} is ignored; "
            "read it, then `treadle trust` lets it count",
            err=True,
        )
    warn_of_skills(setup)
    warn_of_servers(setup.home, setup.cwd)
    for hook in untrusted_hooks(setup.config, setup.home):
        click.echo(f"treadle: {printable(untrusted_text(hook, hook.read().problem))}", err=True)
    if setup.settings.agents.enabled and setup.settings.agents.files:
        _warn_of_agents(setup)


def _warn_of_agents(setup: Setup) -> None:
    if not has_agent_files(setup.home, setup.cwd):
        return
    from ..subagents.agent_files import find_agent_files

    trust = TrustStore(setup.home)
    names = [
        each.name
        for each in find_agent_files(setup.home, setup.cwd)
        if not each.problem and not each.is_trusted(trust)
    ]
    if names:
        click.echo(
            f"treadle: agents of this project are not offered: {printable(', '.join(names))}; "
            "read them, then `treadle trust` lets them count",
            err=True,
        )


def warn_of_skills(setup: Setup) -> None:
    """Warn when there are skills of the project or of plug-ins that do not count."""
    rules = skill_rules(setup.settings)
    if rules is None:
        return
    waiting = SkillLibrary(setup.home, rules).look(setup.cwd).untrusted
    if waiting:
        names = ", ".join(each.skill.name for each in waiting[:5])
        more = ", …" if len(waiting) > 5 else ""
        click.echo(
            f"treadle: {counted(len(waiting), 'skill')} not trusted and not used ({names}{more}); "
            "read them, then `treadle skills trust` lets them count",
            err=True,
        )


def untrusted_text(hook: ProjectHook, problem: str) -> str:
    """Say why a hook does not run, and what to do."""
    why = problem or "it is not trusted as it is; read it, then `treadle trust` lets it"
    return f"hook {hook.name!r} of {hook.file} does not run: {why}"


@asynccontextmanager
async def open_thread(
    setup: Setup,
    *,
    title: str = "",
    keep_empty: bool = False,
    terminal: TextIO | None = None,
    servers: Sequence[McpServer] = (),
    executor: ExecutorSource | None = None,
) -> AsyncIterator[Thread]:
    """Open the thread, with the built-in tools of its model.

    One that was made and never said anything is forgotten, unless `keep_empty`. Replies go
    to the channel of the settings; to one that is a terminal, only if there is a `terminal`.
    `servers` are MCP servers beside the configured ones, and win over them. Commands run where
    the `executor` comes from, if there is one.
    """
    made = ""
    try:
        async with (
            chosen_channels(setup.settings, os.environ, terminal) as channels,
            open_servers(setup.config, setup.home, setup.cwd, servers) as opened,
            _open(setup, title, channels, opened, executor) as thread,
            _follow(thread, setup.settings),
        ):
            # Also a thread that is kept empty is of no use where this fails.
            made = "" if setup.info else thread.id
            await adapt(thread, setup)
            made = "" if keep_empty else made
            _log(thread)
            yield thread
    finally:
        if made:
            await forget_if_empty(setup.place, made)


def _follow(thread: Thread, settings: Settings) -> AbstractAsyncContextManager[None]:
    """Send the turns of a thread to a collector, if the settings want it."""
    if not settings.otel.enabled:
        return nullcontext()
    from .followed_threads import follow_thread

    return follow_thread(thread, settings)


def _log(thread: Thread) -> None:
    """Log the turns of a thread, if anybody reads such records."""
    if logging.getLogger(TURNS_LOG).isEnabledFor(logging.INFO):
        from .logged_events import log_turns

        log_turns(thread)


async def adapt(thread: Thread, setup: Setup) -> None:
    """Apply the fallbacks and the profile of the setup to an open thread."""
    apply_fallbacks(thread, setup.config)
    await check_fallbacks(thread)
    assert thread.policy.routes.credentials is not None, "it was opened with one"
    if setup.profile is not None:
        await thread.policy.routes.credentials.pin(thread.id, setup.profile)


async def forget_if_empty(home: Home, thread: str) -> None:
    """Delete a thread in which nothing was ever said."""
    async with home.store() as store:
        if (await store.info(thread)).last == 0:
            await store.delete(thread)


def _open(
    setup: Setup,
    title: str,
    channels: Mapping[str, Channel],
    servers: McpServers | None,
    executor: ExecutorSource | None,
) -> AbstractAsyncContextManager[Thread]:
    options = thread_options(setup)
    tools = msgspec.structs.replace(options.tools, mcp=servers)
    if executor is not None:
        tools = msgspec.structs.replace(tools, executor=executor)
    options = options.with_changes(channels=channels, title=title, tools=tools)
    return Thread.open_with(options, setup.info.id if setup.info else None)


def thread_options(setup: Setup) -> ThreadOptions:
    """Return the options that a thread is opened with."""
    settings = setup.settings
    return ThreadOptions(
        model=setup.model,
        cwd=setup.cwd,
        home=setup.home,
        tools=ToolOptions(
            executor=executor_choice(settings),
            output_limit=settings.tool_output_token_limit,
            rewind_files=settings.rewind_files,
        ),
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
            prices=settings.prices,
        ),
        prompt=PromptOptions(
            instructions=settings.instructions,
            docs=docs_rules(settings),
            window_use=settings.tell_window_use,
        ),
        agents=agents_of(settings),
        skills=skill_rules(settings),
        limits=Limits(**msgspec.structs.asdict(settings.limits)),
        store=setup.address,
    )


def executor_choice(settings: Settings) -> ExecutorChoice:
    """Return where commands run; without a word about it, where the thread was."""
    told = msgspec.structs.asdict(settings.executor)
    return ExecutorChoice(**{**told, "where": told["where"] or ""})


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
        collaboration_mode=named_mode(settings.mode),
        personality=settings.personality,
        additional_context={
            key: ContextValue(each.value, "application" if each.trusted else "untrusted")
            for key, each in settings.context.items()
        },
    )


def engine_options(settings: Settings) -> EngineOptions:
    """Return the options of the selected engine."""
    engine = canonical_name(settings.engine)
    return EngineOptions(
        engine=engine,
        config=settings.engines.get(engine, {}),
        compaction_model=settings.compaction.model,
        citations=settings.citations,
        recall_threads=settings.recall_threads,
        recall=settings.recall,
    )


def harness_options(config: Config) -> HarnessOptions:
    """Return the options of the selected harness.

    A flag and a variable are about this run; what a file says holds where neither the
    model nor its provider have a harness of their own.
    """
    chosen = config.layer_of("harness") in ("flag", "environment")
    return HarnessOptions(
        harness=config.settings.harness if chosen else "auto",
        rules=harness_rules(config.settings, general=not chosen),
    )


def harness_rules(settings: Settings, *, general: bool = True) -> HarnessRules:
    """Return the harness rules of the configuration; `general` includes the plain key."""
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


def agents_of(settings: Settings) -> AgentOptions | None:
    """Return the agents that a thread may start; None where it starts none."""
    asked = settings.agents
    if not asked.enabled:
        return None
    limits = AgentLimits(depth=asked.depth, concurrent=asked.concurrent, resume=asked.resume)
    return AgentOptions(limits=limits, files=asked.files)


def skill_rules(settings: Settings) -> SkillRules | None:
    """Return which skills a thread may use; None where it uses none."""
    asked = settings.skills
    if not asked.enabled:
        return None
    return SkillRules(
        project=asked.project,
        user=asked.user,
        packages=asked.packages,
        directories=asked.directories,
        disabled=asked.disabled,
    )


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
