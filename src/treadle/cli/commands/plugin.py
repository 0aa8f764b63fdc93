"""`treadle plugin`: take over parts of plug-in directories that were made for other agents."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from ...config.config_file import ConfigFile
from ...config.mcp_settings import McpServerSettings
from ...core.errors import ConfigError
from ...hooks.plugin_hooks import PLUGIN_ROOTS, own_hook
from ...mcp.server_files import read_json, without_secrets
from ...skills.plugin_directory import (
    PluginDirectory,
    add_plugin,
    added_plugins,
    read_plugin,
    remove_plugin,
)
from ...skills.rules import SkillRules
from ...skills.skill_library import SkillLibrary
from ...skills.skill_trust import distrust_skills, trust_skills
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..mcp.server_tables import add_server
from ..output import counted, one_line, printable, say, say_json
from ..settings_tables import append_table

__all__ = ["command"]

_RULES = SkillRules(project=False, packages=False)
_LONGEST_LINE = 500

_directory = click.argument(
    "directory", type=click.Path(exists=True, file_okay=False, path_type=Path)
)


@click.group(
    "plugin",
    invoke_without_command=True,
    epilog=examples(
        "treadle plugin show ./their-plugin",
        "treadle plugin add ./their-plugin",
        "treadle plugin add ./their-plugin --mcp --commands",
    ),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Use parts of plug-in directories made for other agents; alone, list those you added.

    A directory may bring skills, commands, agents, MCP servers and hooks. `add` takes its
    skills; everything else only where you ask for it.
    """
    if ctx.invoked_subcommand is not None:
        return
    known = added_plugins(ctx.obj.path)
    if as_json:
        say_json([{"name": name, "directory": str(each)} for name, each in known.items()])
        return
    for name, each in known.items():
        say(f"{name}: {each}")
    if not known:
        say("no plug-ins; `treadle plugin add DIRECTORY` adds one")


@command.command("show", epilog=examples("treadle plugin show ./their-plugin"))
@_directory
@as_json
def show(directory: Path, as_json: bool) -> None:
    """Show what a directory brings. Nothing is run, taken or changed."""
    plugin = read_plugin(directory)
    servers = _server_names(plugin)
    if as_json:
        say_json({**msgspec.to_builtins(plugin, enc_hook=str), "servers": servers})
        return
    say(printable(" ".join(filter(None, [plugin.name, plugin.version, plugin.description]))))
    parts = {
        "skills": plugin.skills,
        "commands": plugin.commands,
        "agents": plugin.agents,
        "MCP servers": servers,
    }
    for what, names in parts.items():
        if names:
            say(f"{what}: {printable(', '.join(names))}")
    for hook in plugin.hooks:
        say(f"hook: {printable(hook.text)}")


def _server_names(plugin: PluginDirectory) -> tuple[str, ...]:
    return tuple(each.name for each in read_json(plugin.servers)) if plugin.servers else ()


@command.command(
    "add", epilog=examples("treadle plugin add ./their-plugin --mcp --commands --agents")
)
@_directory
@click.option("--mcp", is_flag=True, help="Also add its MCP servers to your settings.")
@click.option("--commands", is_flag=True, help="Also copy its commands.")
@click.option("--agents", is_flag=True, help="Also copy its agents.")
@click.option("--hooks", is_flag=True, help="Also add its hooks to your settings.")
@as_json
@click.pass_obj
def add(
    home: Home,
    directory: Path,
    *,
    mcp: bool,
    commands: bool,
    agents: bool,
    hooks: bool,
    as_json: bool,
) -> None:
    """Trust the skills of a directory as they are now, and take the parts that you name.

    Read it first: the model follows skills and commands; a hook, and an MCP server that is a
    command, runs outside the sandbox with your rights. When a skill changes, add the directory
    again.
    """
    plugin = read_plugin(directory)
    add_plugin(home.path, plugin)
    found = SkillLibrary(home.path, _RULES).look(home.path)
    mine = [each for each in found.untrusted if each.skill.owner == plugin.name]
    left = trust_skills(home.path, mine)
    lines = [f"cannot be trusted: {each.skill.name} {each.why}" for each in left]
    lines += _add_servers(home, plugin) if mcp else []
    lines += _copy(home, plugin, "commands", plugin.commands) if commands else []
    lines += _copy(home, plugin, "agents", plugin.agents) if agents else []
    lines += _add_hooks(home, plugin) if hooks else []
    if as_json:
        say_json({"name": plugin.name, "skills": plugin.skills, "notes": lines})
        return
    say(f"added {plugin.name}: {counted(len(plugin.skills), 'skill')}")
    for line in lines:
        say(f"  {one_line(line, _LONGEST_LINE)}")
    if plugin.hooks and not hooks:
        count = counted(len(plugin.hooks), "hook")
        say(f"  not taken: {count}; `treadle plugin show` prints what they run, --hooks takes them")


def _add_servers(home: Home, plugin: PluginDirectory) -> list[str]:
    lines: list[str] = []
    for found in read_json(plugin.servers, cwd=str(plugin.directory)) if plugin.servers else ():
        problem, variables = found.problem, tuple[str, ...]()
        if not problem:
            settings, variables = without_secrets(found)
            try:
                add_server(home.path, found.name, _with_root(settings, plugin.directory))
            except ConfigError as error:
                problem, variables = str(error), ()
        lines.append(f"MCP server {found.name}: {problem or 'added'}")
        lines += [f"set the variable {name}: its value was not copied" for name in variables]
    return lines


def _add_hooks(home: Home, plugin: PluginDirectory) -> list[str]:
    """Write each hook that can be one of ours into the settings; none is written twice."""
    file = ConfigFile.read(home.path / "config.toml")
    known = file.table.get("hooks", {}) if file else {}
    lines: list[str] = []
    for number, hook in enumerate(plugin.hooks, 1):
        name = f"{plugin.name}-{number}"
        try:
            settings = own_hook(hook, plugin.directory)
        except ConfigError as error:
            lines.append(f"hook not taken: {hook.text}: {error}")
            continue
        if name in known:
            lines.append(f"hook {name} exists and was left as it is")
            continue
        table = msgspec.to_builtins(settings)
        append_table(home.path, ("hooks", name), {k: v for k, v in table.items() if v})
        lines.append(f"hook {name}: {settings.event} runs {shlex.join(settings.command)}")
    return lines


def _with_root(settings: McpServerSettings, directory: Path) -> McpServerSettings:
    """Return settings with the directory in the places of the variables that stand for it."""

    def fill(text: str) -> str:
        for root in PLUGIN_ROOTS:
            text = text.replace(root, str(directory))
        return text

    return msgspec.structs.replace(
        settings,
        command=None if settings.command is None else fill(settings.command),
        args=tuple(map(fill, settings.args)),
        env={name: fill(value) for name, value in settings.env.items()},
    )


def _copy(home: Home, plugin: PluginDirectory, kind: str, names: tuple[str, ...]) -> list[str]:
    """Copy files into the home, so that what was read stays; none is replaced."""
    target = home.path / kind
    target.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for name in names:
        copy = target / f"{name}.md"
        if copy.exists():
            lines.append(f"{kind}: {copy} exists and was left as it is")
            continue
        shutil.copyfile(plugin.directory / kind / f"{name}.md", copy)
        lines.append(f"{kind}: copied to {copy}")
    return lines


@command.command("remove", epilog=examples("treadle plugin remove their-plugin"))
@click.argument("name")
@as_json
@click.pass_obj
def remove(home: Home, name: str, as_json: bool) -> None:
    """Take the skills of a directory out of use. What was copied or added stays.

    Hooks and MCP servers of it that stay are named, for they run.
    """
    found = SkillLibrary(home.path, _RULES).look(home.path)
    mine = [each.name for each in found.skills if (each.source, each.owner) == ("plugin", name)]
    directory = remove_plugin(home.path, name)
    if mine:
        distrust_skills(home.path, found, mine)
    left = _list_left(home, str(directory))
    if as_json:
        say_json({"removed": name, "left": left})
        return
    say(f"removed {name}: {directory}")
    for line in left:
        say(f"  still there: {one_line(line, _LONGEST_LINE)}")


def _list_left(home: Home, directory: str) -> list[str]:
    """Return what the settings still run of a directory, and how to end that."""
    file = ConfigFile.read(home.path / "config.toml")
    table = file.table if file else {}

    def naming(found: Mapping[str, object]) -> list[str]:
        return [name for name, each in found.items() if directory in str(each)]

    servers = naming(table.get("mcp", {}).get("servers", {}))
    lines = [f"MCP server {name}; `treadle mcp remove {name}` removes it" for name in servers]
    hooks = naming(table.get("hooks", {}))
    path = home.path / "config.toml"
    return lines + [f"hook {name}; [hooks.{name}] in {path} is its table" for name in hooks]
