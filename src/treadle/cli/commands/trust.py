"""`treadle trust`: trust the configuration and the hooks of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from ...config import load_config
from ...config.config_file import find_project_file
from ...config.layers import host_of
from ...config.trusted_files import TrustStore
from ...core.errors import NotFound
from ...core.redact import redact
from ...hooks.configured_hooks import project_hooks
from ...skills.rules import SkillRules
from ...skills.skill_library import SkillLibrary
from ...skills.skill_trust import distrust_skills, trust_skills
from ...subagents.agent_files import find_agent_files
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import printable, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...config import Config
    from ...hooks.configured_hooks import ReadHook
    from ...skills.discovery import FoundSkills
    from ...subagents.agent_files import AgentFile

__all__ = ["command"]


@click.command(
    "trust",
    epilog=examples("treadle trust", "treadle trust --show", "treadle trust ../other --remove"),
)
@click.argument(
    "directory",
    required=False,
    default=Path(),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--remove", is_flag=True, help="Remove the trust.")
@click.option("--show", is_flag=True, help="Print what is trusted, and change nothing.")
@as_json
@click.pass_obj
def command(home: Home, directory: Path, remove: bool, show: bool, as_json: bool) -> None:
    """Trust the `.treadle/config.toml` of a project, its hooks, its agents and its skills.

    Read the files and scripts first: hooks run with your rights, and settings can send your
    keys elsewhere and weaken the sandbox; the output points such settings out. Skills tell the
    model what to do; `treadle skills trust NAME` trusts single ones. You trust all of it as it
    is now. When a part of it changes, you must trust that again.
    """
    if remove and show:
        raise click.UsageError("--remove and --show exclude each other; leave one out")
    place = directory.absolute()
    file = find_project_file(place)
    agents = tuple(
        each for each in find_agent_files(home.path, place) if each.of.source == "project"
    )
    library = SkillLibrary(home.path, SkillRules(user=False, packages=False))
    skills = library.look(place)
    if file is None and not (agents or skills.skills or skills.untrusted):
        why = "it has no .treadle/config.toml, no .treadle/agents/*.md and no skills"
        raise NotFound("configuration of the project", str(place), why)
    trust = TrustStore(home.path)
    config = None
    if file is not None and not remove:
        config = load_config(home.path, place, {}, trusting=True)
    hooks = () if config is None else tuple(hook.read() for hook in project_hooks(config))
    if remove:
        for path in filter(None, (file, *(each.of.file for each in agents))):
            trust.distrust(path)
        distrust_skills(home.path, skills)
    elif not show:
        _trust(trust, file, hooks, agents)
        trust_skills(home.path, skills.untrusted)
    notes = () if config is None else tuple(_notes(config))
    skills = library.look(place)
    _tell(_Told(file, hooks, notes, agents, skills), trust, as_json=as_json)


class _Told(Struct, frozen=True):
    """What of a project can be trusted, and what is worth a second look."""

    file: Path | None
    hooks: tuple[ReadHook, ...]
    notes: tuple[str, ...]
    agents: tuple[AgentFile, ...]
    skills: FoundSkills


def _trust(
    trust: TrustStore,
    file: Path | None,
    hooks: tuple[ReadHook, ...],
    agents: tuple[AgentFile, ...],
) -> None:
    if file is not None:
        trust.trust(file)
    for hook in hooks:
        if not hook.problem:
            hook.of.trust(trust, hook.digest)
    for agent in agents:
        if not agent.problem:
            trust.trust(agent.of.file, agent.of.body)


def _notes(config: Config) -> Iterator[str]:
    """What in the project's file deserves a second look: where keys go, and what is let loose."""
    values = {
        key: value
        for layer in config.layers
        if layer.kind == "project"
        for key, value in layer.values.items()
    }
    for key, value in values.items():
        match key:
            case ("providers", name, setting):
                yield from _provider_notes(name, setting, value)
            case ("channels", name, "url"):
                yield f"replies to the channel {name!r} go to {host_of(str(value))}"
            case ("otel", name):
                yield from _telemetry_notes(name, value)
            case (name,):
                yield from _rights_notes(name, value)
            case ("mcp", "servers", name, *rest):
                yield from _server_notes(name, rest[-1], value)
            case ("codex", name):
                yield from _codex_notes(name, value)


def _server_notes(name: str, setting: str, value: object) -> Iterator[str]:
    """What an MCP server runs, where it is, and what it may do unasked."""
    if setting == "command":
        yield f"the MCP server {name!r} runs {str(value)!r} outside the sandbox"
    elif setting == "url":
        yield f"the MCP server {name!r} is at {host_of(str(value))}"
    elif setting == "approval" and value == "approve":
        yield f"nobody is asked before calls of the MCP server {name!r}"
    elif setting == "trusted" and value:
        yield f"what the MCP server {name!r} says of its tools is believed"


def _rights_notes(name: str, value: Any) -> Iterator[str]:
    """What commands may do, and who is asked."""
    match name:
        case "sandbox" if value == "danger-full-access":
            yield "commands run without a sandbox"
        case "network" if value:
            yield f"commands reach the network: {value!r}"
        case "approval" if value == "never":
            yield "nobody is asked before a command runs"
        case "writable_roots" if value:
            yield f"commands can also write {', '.join(map(repr, value))}"


def _telemetry_notes(name: str, value: object) -> Iterator[str]:
    if name == "endpoint":
        yield f"traces and metrics of turns go to {host_of(str(value))}"
    elif name == "content" and value != "none":
        yield "traces have the texts of conversations in them"


def _codex_notes(name: str, value: object) -> Iterator[str]:
    if name == "binary":
        yield f"turns are run by the program {str(value)!r}"
    elif name == "unguarded" and value:
        yield "turns go on where hooks cannot guard the commands of Codex"


def _provider_notes(name: str, setting: str, value: Any) -> Iterator[str]:
    """What a provider's settings send away, and whom they trust."""
    match setting:
        case "base_url":
            yield f"the key of the provider {name!r} goes to {redact(str(value))}"
        case "key_variable":
            yield f"the provider {name!r} is sent the variable {value!r}"
        case "env_headers":
            names = ", ".join(map(repr, value.values()))
            yield f"the provider {name!r} is sent the variables {names}"
        case "client_certificate" | "client_key":
            yield f"the provider {name!r} is shown the certificate in {str(value)!r}"
        case "ca_file":
            yield f"the provider {name!r} may be whoever the file {str(value)!r} trusts"


def _tell(told: _Told, trust: TrustStore, *, as_json: bool) -> None:
    trusted = told.file is not None and trust.is_trusted(told.file)
    if as_json:
        hooks = [
            _hook_json(each, trusted=trusted and each.is_trusted(trust)) for each in told.hooks
        ]
        say_json(
            {
                "file": None if told.file is None else str(told.file),
                "trusted": trusted,
                "notes": told.notes,
                "hooks": hooks,
                "agents": [_agent_json(each, trust) for each in told.agents],
                "skills": _skills_json(told.skills),
            }
        )
        return
    if told.file is not None:
        say(f"{_word(trusted)}: {told.file}")
    for note in told.notes:
        say(f"  look at this: {printable(note)}")
    for hook in told.hooks:
        state = "runs" if trusted and hook.is_trusted(trust) else "does not run"
        words = " ".join(hook.of.settings.command)
        why = f" ({hook.problem})" if hook.problem else ""
        line = f"{hook.of.name} {state}: {hook.of.settings.event}, {words}{why}"
        say(f"  hook {printable(line)}")
    for agent in told.agents:
        why = f" ({agent.problem})" if agent.problem else ""
        is_trusted = not agent.problem and agent.is_trusted(trust)
        say(f"{_word(is_trusted)}: {agent.of.file}, the agent {agent.name}{why}")
    for each in _skills_json(told.skills):
        state = "counts" if each["trusted"] else f"does not count: it {each['problem']}"
        say(f"  skill {printable(str(each['name']))} {printable(state)}")


def _word(trusted: bool) -> str:
    return "trusted" if trusted else "not trusted"


def _agent_json(agent: AgentFile, trust: TrustStore) -> dict[str, object]:
    return {
        "name": agent.name,
        "file": str(agent.of.file),
        "trusted": not agent.problem and agent.is_trusted(trust),
        "problem": agent.problem or None,
    }


def _skills_json(skills: FoundSkills) -> list[dict[str, object]]:
    trusted = ((each, True, None) for each in skills.skills if each.source == "project")
    waiting = ((each.skill, False, each.why) for each in skills.untrusted)
    return [
        {"name": each.name, "file": str(each.path), "trusted": counts, "problem": problem}
        for each, counts, problem in (*trusted, *waiting)
    ]


def _hook_json(hook: ReadHook, *, trusted: bool) -> dict[str, object]:
    return {
        "name": hook.of.name,
        "event": hook.of.settings.event,
        "command": hook.of.settings.command,
        "files": [str(path) for path in hook.of.sources],
        "trusted": trusted,
        "problem": hook.problem or None,
    }
