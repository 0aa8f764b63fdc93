"""The home that `treadle acp` serves: set up as all commands set it up.

Owns how sessions of clients are opened, and what a client may choose for them. Invariant: what a
client chooses counts like a flag; what it does not choose comes from the command line and the
settings.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ..acp.host import (
    Choice,
    KeyVariable,
    Login,
    OpenedSession,
    SessionPage,
    SessionRequest,
    Setting,
    SlashCommand,
    ThreadSummary,
)
from ..config import Settings, load_config
from ..config.settings import key_variable
from ..config.trusted_files import TrustStore
from ..context.cuts import step_boundary
from ..core.entries import Entry
from ..core.errors import TreadleError
from ..core.install import install_command
from ..engines.loading import canonical_name, engine_registry
from ..models.catalog import Catalog
from ..models.model_reports import load_reports
from ..models.providers import provider_settings
from ..policy.auth.secrets import SecretStore
from ..prompt.command_requests import init_request
from ..prompt.input import UserPart
from ..prompt.registry import installed_registry
from ..store.thread_names import thread_name
from ..thread.deletion import delete_thread
from .cli_home import Home, find_thread, is_same_directory
from .commands.delete import engine_tables
from .configured_home import own_errors
from .model_rows import model_rows
from .repl.custom_commands import CustomCommand, find_commands
from .run_options import RunOptions
from .thread_setup import (
    Setup,
    forget_if_empty,
    open_thread,
    prepare,
    providers_of,
    warn_of_project,
)
from .transcript import Transcript
from .wanted_entries import wanted_entries
from .ways_in import missing_access

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["MODES", "AcpHome", "own_command"]

MODES = {
    "read-only": Choice("read-only", "Read only", "commands change nothing; you are asked"),
    "workspace": Choice("workspace", "Workspace", "commands write in the workspace; you are asked"),
    "careful": Choice("careful", "Ask first", "every command that is not harmless is asked about"),
    "full-access": Choice("full-access", "Full access", "no sandbox, and nothing is asked"),
}
"""What commands may do, and when the user is asked."""

_RIGHTS = {
    "read-only": ("read-only", "on-request"),
    "workspace": ("workspace-write", "on-request"),
    "careful": ("workspace-write", "untrusted"),
    "full-access": ("danger-full-access", "never"),
}
_OTHER = Choice("configured", "As configured", "what the settings and the command line say")
_SIGNED_IN = ("codex", "scripted")
"""Providers that have a login of their own, or need none."""
_MOST_MODELS = 80


class AcpHome(Struct, frozen=True):
    """A home, with the options that the program was started with."""

    home: Home
    options: RunOptions

    @asynccontextmanager
    async def open_session(self, asked: SessionRequest) -> AsyncIterator[OpenedSession]:
        """Open a thread for writing."""
        with own_errors():
            setup = await self._setup(asked)
            await asyncio.to_thread(warn_of_project, setup)
        warnings: tuple[str, ...] = ()
        servers = asked.servers
        if servers and find_spec("mcp") is None:
            names = ", ".join(each.name for each in servers)
            warnings = (f"the MCP servers {names} are left out; {install_command('mcp')} adds MCP",)
            servers = ()
        async with open_thread(setup, keep_empty=True, servers=servers) as thread:
            yield _Opened(thread, setup, self.home, warnings)

    async def forget_if_empty(self, thread: str) -> None:
        """Delete a thread in which nothing was ever said."""
        await forget_if_empty(self.home, thread)

    async def sessions(self, cwd: Path | None, skip: int, limit: int) -> SessionPage:
        """Return the threads of a directory, or all, behind the first `skip`."""
        async with self.home.store() as store:
            found = [
                info
                for info in await store.threads()
                if info.turns and (cwd is None or is_same_directory(info.cwd, cwd))
            ]
            listed = [
                ThreadSummary(
                    id=info.id,
                    cwd=info.cwd,
                    title=await thread_name(store, info),
                    updated=info.updated,
                )
                for info in found[skip : skip + limit]
            ]
        return SessionPage(tuple(listed), more=len(found) > skip + limit)

    async def fork(self, thread: str) -> str:
        """Create a thread that shares all entries of another one; return its id."""
        with own_errors():
            async with self.home.store() as store:
                parent = await find_thread(store, thread)
                registry = await asyncio.to_thread(installed_registry)
                cut = await step_boundary(store, parent.id, registry, parent.last)
                return (await store.fork(parent.id, cut)).id

    async def delete(self, thread: str) -> None:
        """Delete a thread for good."""
        async with self.home.store() as store, self.home.index(store) as index:
            await delete_thread(
                thread, store, index, home=self.home.path, configs=engine_tables(self.home)
            )

    def login(self) -> Login:
        """Return how the user may sign in to the provider of the configured model."""
        with own_errors():
            config = load_config(self.home.path, Path.cwd(), os.environ, self.options.flags())
        settings = config.settings
        catalog = Catalog.load(self.home.path / "models.toml").with_providers(settings.providers)
        provider = catalog.profile(settings.model).provider
        if provider in _SIGNED_IN or not _needs_key(provider, settings):
            return Login()
        key = KeyVariable(provider, key_variable(provider, settings.providers))
        arguments = ("auth", "add", provider)
        return Login(key=key, arguments=arguments, command=(*own_command(self.home), *arguments))

    async def _setup(self, asked: SessionRequest) -> Setup:
        chosen = asked.chosen
        sandbox, approval = _RIGHTS.get(
            chosen.get("mode", ""), (self.options.sandbox, self.options.approval)
        )
        options = msgspec.structs.replace(
            self.options,
            cwd=asked.cwd,
            add_dirs=(*self.options.add_dirs, *asked.directories),
            model=_model_of(chosen["model"]) if "model" in chosen else self.options.model,
            effort=chosen.get("thought_level", self.options.effort),
            engine=chosen.get("engine", self.options.engine),
            sandbox=sandbox,
            approval=approval,
            yolo=self.options.yolo and "mode" not in chosen,
        )
        return await prepare(self.home, options, asked.thread)


class _Opened:
    """A thread that is open for a client."""

    def __init__(self, thread: Thread, setup: Setup, home: Home, warnings: tuple[str, ...]) -> None:
        self.thread = thread
        self.warnings = warnings
        self._setup, self._home = setup, home

    def settings(self) -> tuple[Setting, ...]:
        """Return the settings with their present values."""
        return tuple(self._settings())

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the commands that a prompt may begin with."""
        trust = TrustStore(self._setup.home)
        found = {
            "compact": SlashCommand("compact", "compact the context into a summary"),
            "init": SlashCommand("init", "let the model write AGENTS.md"),
        }
        for name, command in sorted(self._custom().items()):
            if command.of.is_trusted(trust):
                found.setdefault(name, SlashCommand(name, command.help, "arguments"))
        skills = self.thread.policy.skills
        for skill in () if skills is None else skills.look().skills:
            if skill.for_user:
                hint = skill.argument_hint or "what to do"
                found.setdefault(skill.name, SlashCommand(skill.name, skill.description, hint))
        return tuple(found.values())

    async def expand(self, name: str, arguments: str) -> tuple[UserPart, ...] | None:
        """Return what a command says to the model; None where it is no such command."""
        if name == "init":
            file = Path(self._setup.cwd, "AGENTS.md")
            return (init_request(exists=await asyncio.to_thread(file.exists)),)
        custom = (await asyncio.to_thread(self._custom)).get(name)
        if custom is None or not custom.of.is_trusted(TrustStore(self._setup.home)):
            return None
        return (custom.prompt(arguments),)

    async def history(self) -> AsyncGenerator[Entry, None]:
        """Yield the entries that people are shown, in log order."""
        shows = Transcript().shows
        entries = wanted_entries(self.thread.store, self.thread.id, None, shows)
        async with aclosing(entries) as found:
            async for entry, _ in found:
                yield entry

    async def title(self) -> str:
        """Return the name of the thread; empty before anything was said."""
        return await thread_name(self.thread.store, await self.thread.store.info(self.thread.id))

    async def missing_key(self) -> str:
        """Return why no request could be sent now; empty where one could."""
        return await missing_access(self._setup, self.thread.model)

    def _custom(self) -> dict[str, CustomCommand]:
        return find_commands(self._setup.home, self._setup.cwd)

    def _settings(self) -> Iterator[Setting]:
        yield self._model()
        yield self._mode()
        profile = self.thread.log.setup.profile
        if profile.efforts:
            effort = self._setup.settings.effort or profile.default_effort
            names = dict.fromkeys((*profile.efforts, *([effort] if effort else [])))
            choices = tuple(Choice(name, name.capitalize()) for name in names)
            told = "How long the model thinks"
            yield Setting("thought_level", "Effort", told, effort or choices[0].value, choices)
        yield self._engine()

    def _model(self) -> Setting:
        home, now = self._setup.home, self.thread.model
        kept = (each.provider for each in SecretStore(home).profiles() if each.kind == "api_key")
        catalog = self.thread.log.setup.catalog
        rows = model_rows(catalog, self._setup.settings, kept, load_reports(home))
        usable = [row for row in rows if row.key][:_MOST_MODELS]
        names = dict.fromkeys([now, *(row.model for row in usable)])
        choices = tuple(Choice(_value_of(name), name) for name in names)
        return Setting("model", "Model", "Who answers", _value_of(now), choices)

    def _mode(self) -> Setting:
        settings = self._setup.settings
        now = (settings.sandbox, settings.approval)
        found = next((name for name, rights in _RIGHTS.items() if rights == now), None)
        choices = (*MODES.values(), *(() if found else (_OTHER,)))
        told = "What commands may do, and when you are asked"
        return Setting("mode", "Rights", told, found or _OTHER.value, choices)

    def _engine(self) -> Setting:
        now = canonical_name(self._setup.settings.engine)
        names = dict.fromkeys([*(each.name for each in engine_registry().engines()), now])
        choices = tuple(Choice(name, name) for name in names)
        return Setting("engine", "Context engine", "What the model remembers", now, choices)


def own_command(home: Home) -> tuple[str, ...]:
    """Return how this program is started for a home."""
    return (sys.executable, "-P", "-m", "treadle", "--home", str(home.path))


def _value_of(model: str) -> str:
    """Return a model as clients name it, ``provider/model``: Harbor finds none by another name."""
    return model.replace(":", "/", 1)


def _model_of(value: str) -> str:
    """Return the model that a value of the setting stands for."""
    return value.replace("/", ":", 1)


def _needs_key(provider: str, settings: Settings) -> bool:
    try:
        return provider_settings(provider, providers_of(settings)).key_required is not False
    except TreadleError:
        return False  # whoever opens a session is told what is wrong
