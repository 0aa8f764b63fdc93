"""Server files of others: `.mcp.json`, Claude's settings, Codex's `config.toml`.

Owns how their entries become settings of ours. Invariants: an entry that cannot be used is named
with the reason, and costs no other; a secret that stands in a file is read from there and written
nowhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..config.mcp_settings import McpOAuthSettings, McpServerSettings, McpToolSettings
from ..core.errors import ConfigError
from ..core.files import is_there, read_bounded
from ..core.typed import convert
from ..core.wire import UNREADABLE, json_bytes
from .program_files import read_program_files
from .server_settings import McpServer, ProgramFile, check_server, shows_secret

__all__ = [
    "FoundServer",
    "find_project_servers",
    "read_claude",
    "read_codex",
    "read_json",
    "without_secrets",
]

_LARGEST = 1 << 20
_LARGEST_CLAUDE = 64 << 20
"""Claude keeps histories in the file that has its servers."""
_PROJECT_FILE = ".mcp.json"


class FoundServer(Struct, frozen=True, kw_only=True):
    """An entry of a file; `problem` says why it cannot be used."""

    name: str
    file: Path
    digest: str
    settings: McpServerSettings = McpServerSettings()
    programs: tuple[ProgramFile, ...] | None = None
    """The files of the project that its command names; None in a file of the user's."""
    problem: str = ""

    @property
    def server(self) -> McpServer:
        """Return it as a server."""
        return McpServer(
            name=self.name, settings=self.settings, origin=str(self.file), programs=self.programs
        )

    @property
    def trust_name(self) -> str:
        """Return the name under which its digest is trusted."""
        return f"mcp:{self.name}"


def find_project_servers(cwd: Path) -> tuple[FoundServer, ...]:
    """Return the servers of the `.mcp.json` around `cwd`: the nearest, not above its root.

    Raises `ConfigError` for a file that cannot be read.
    """
    line = [cwd, *cwd.parents]
    depth = next((i for i, place in enumerate(line) if is_there(place / ".git")), 0)
    for place in line[: depth + 1]:
        if is_there(place / _PROJECT_FILE):
            return read_json(place / _PROJECT_FILE, cwd=str(place))
    return ()


def read_json(file: Path, *, cwd: str | None = None) -> tuple[FoundServer, ...]:
    """Return the servers of a file with the key `mcpServers`. Raises `ConfigError`."""
    return _servers_in(_decode(file, _LARGEST), file, cwd)


def read_claude(file: Path, place: Path) -> tuple[FoundServer, ...]:
    """Return the servers of Claude's user, then those that it has for the directory `place`.

    Raises `ConfigError`.
    """
    told = _decode(file, _LARGEST_CLAUDE)
    projects = told.get("projects") if isinstance(told, dict) else None
    own = projects.get(str(place)) if isinstance(projects, dict) else None
    here = (_started_in(each, place) for each in _servers_in(own, file, None))
    return (*_servers_in(told, file, None), *here)


def _started_in(found: FoundServer, place: Path) -> FoundServer:
    settings = found.settings
    if settings.command is None or settings.cwd is not None:
        return found
    return replace(found, settings=replace(settings, cwd=str(place)))


def _decode(file: Path, most: int) -> Any:
    try:
        return msgspec.json.decode(_read(file, most))
    except UNREADABLE as error:
        raise ConfigError(f"{str(file)!r} is no JSON: {error}; correct or remove it") from error


def _servers_in(told: Any, file: Path, cwd: str | None) -> tuple[FoundServer, ...]:
    found = told.get("mcpServers") if isinstance(told, dict) else None
    entries = found if isinstance(found, dict) else {}
    return tuple(_read_entry(name, entry, file, _of_json, cwd) for name, entry in entries.items())


def read_codex(file: Path) -> tuple[FoundServer, ...]:
    """Return the servers of Codex's `config.toml`. Raises `ConfigError`."""
    import tomllib

    try:
        told = tomllib.loads(_read(file).decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{str(file)!r} is no TOML: {error}; correct it") from error
    entries = told.get("mcp_servers")
    found = entries if isinstance(entries, dict) else {}
    return tuple(_read_entry(name, entry, file, _of_codex, None) for name, entry in found.items())


def without_secrets(found: FoundServer) -> tuple[McpServerSettings, tuple[str, ...]]:
    """Return settings that may be written, and the variables that must be set for them."""
    wanted: list[str] = []

    def hide(values: Mapping[str, str], prefix: str) -> dict[str, str]:
        hidden = {}
        for name, text in values.items():
            hidden[name] = text
            if shows_secret(name, text):
                variable = re.sub(r"\W", "_", f"{prefix}{name}").upper()
                hidden[name] = f"${{{variable}}}"
                wanted.append(variable)
        return hidden

    own = found.settings
    safe = replace(own, env=hide(own.env, ""), headers=hide(own.headers, f"{found.name}_"))
    return safe, tuple(wanted)


def _read(file: Path, most: int = _LARGEST) -> bytes:
    try:
        return read_bounded(file, most)
    except OSError as error:
        raise ConfigError(f"cannot read {str(file)!r}: {error.strerror}; check it") from error


def _read_entry(
    name: str, entry: Any, file: Path, settings_of: Any, cwd: str | None
) -> FoundServer:
    body = msgspec.json.encode([name, entry], order="deterministic")
    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    found = FoundServer(name=name, file=file, digest=digest)
    if not isinstance(entry, dict):
        return replace(found, problem="it is no table")
    try:
        settings = settings_of(entry)
        if cwd is not None and settings.command is not None and settings.cwd is None:
            settings = replace(settings, cwd=cwd)
        check_server(McpServer(name=name, settings=settings))
        programs = None if cwd is None else read_program_files(settings, Path(cwd))
    except (ConfigError, OSError, TypeError, ValueError) as error:
        return replace(found, problem=" ".join(str(error).split()))
    if programs:
        digest = "sha256:" + hashlib.sha256(json_bytes((digest, programs))).hexdigest()
    return replace(found, settings=settings, programs=programs, digest=digest)


def _of_json(entry: Mapping[str, Any]) -> McpServerSettings:
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    if kind not in ("stdio", "http", "streamable-http"):
        raise ConfigError(f"its transport {kind!r} is not spoken; use stdio or http")
    if "headersHelper" in entry:
        raise ConfigError("it has a 'headersHelper', which is not run; use headers")
    own = McpServerSettings(
        command=_text(entry, "command"),
        args=_texts(entry, "args"),
        env=_table(entry, "env"),
        url=_text(entry, "url"),
        headers=_table(entry, "headers"),
        load="direct" if entry.get("alwaysLoad") is True else "auto",
        enabled=entry.get("disabled") is not True,
    )
    if isinstance(oauth := entry.get("oauth"), dict):
        own = replace(own, oauth=_oauth(oauth, "clientId", "callbackPort"))
    limit = entry.get("timeout")
    return replace(own, timeout=limit / 1000) if isinstance(limit, int) and limit > 0 else own


_CODEX_PLAIN = {
    "command": "command", "url": "url", "cwd": "cwd", "enabled": "enabled", "required": "required",
    "startup_timeout_sec": "start_timeout", "tool_timeout_sec": "timeout",
    "bearer_token_env_var": "bearer_token_variable", "http_headers": "headers",
    "env_http_headers": "env_headers", "env": "env", "supports_parallel_tool_calls": "parallel",
    "default_tools_approval_mode": "approval",
}  # fmt: skip
_CODEX_LISTS = ("args", "env_vars", "enabled_tools", "disabled_tools")


def _of_codex(entry: Mapping[str, Any]) -> McpServerSettings:
    if "http_headers_helper" in entry:
        raise ConfigError("it has an 'http_headers_helper', which is not run; use headers")
    told = {ours: entry[theirs] for theirs, ours in _CODEX_PLAIN.items() if theirs in entry}
    told |= {key: _texts(entry, key) for key in _CODEX_LISTS if key in entry}
    tools = dict(_codex_tools(entry.get("tools")))
    settings: McpServerSettings = convert({**told, "tools": tools}, McpServerSettings)
    table = entry.get("oauth")
    oauth = _oauth(table if isinstance(table, dict) else {}, "client_id", "callback_port")
    return replace(settings, oauth=replace(oauth, scopes=_texts(entry, "scopes")))


def _oauth(table: Mapping[str, Any], client: str, port: str) -> McpOAuthSettings:
    """Return how to log in, from the two keys that others have for it."""
    told = {"client_id": table.get(client), "callback_port": table.get(port)}
    settings: McpOAuthSettings = convert(told, McpOAuthSettings)
    return settings


def _codex_tools(tools: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in (tools if isinstance(tools, dict) else {}).items():
        if isinstance(each, dict) and "approval_mode" in each:
            yield name, msgspec.to_builtins(McpToolSettings(approval=each["approval_mode"]))


def _text(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if not isinstance(value, str | None):
        raise ConfigError(f"its {key!r} is no text")
    return value


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"its {key!r} is no list of texts")
    return tuple(value)


def _table(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ConfigError(f"its {key!r} is no table of texts")
    return value
