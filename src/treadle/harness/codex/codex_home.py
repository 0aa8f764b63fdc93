"""The files and settings that an app-server is started with: its home and its models.

Owns the settings of a private home, the environment of the process and the edited model
catalog. `HOME` stays the user's, because commands need it. Invariants: a private home
contacts nothing but the provider of a thread; the user's own home is never written to;
secrets are in no file and no argument, and commands of the server do not inherit them;
only threads with the settings `UNLIMITED` get another window than the binary gives them.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ...core.errors import ConfigError
from ...core.files import replace_file
from ...core.redact import add_secrets, is_secret
from ...core.typed import decode_json
from ...prompt.codex_import import bundled_models
from .app_server import ServerCommand
from .errors import CodexMissing
from .server_access import PROVIDER, ProviderRoute

__all__ = [
    "UNKNOWN_MODEL",
    "UNLIMITED",
    "CodexHome",
    "ExtraModel",
    "edit_catalog",
    "has_model",
    "write_catalog",
]

_NOWHERE: dict[str, Any] = {
    "model_provider": PROVIDER,
    f"model_providers.{PROVIDER}.name": "nowhere",
    f"model_providers.{PROVIDER}.base_url": "http://127.0.0.1:9/v1",
    f"model_providers.{PROVIDER}.wire_api": "responses",
    f"model_providers.{PROVIDER}.requires_openai_auth": False,
    f"model_providers.{PROVIDER}.supports_websockets": False,
}
"""The provider of a thread without a route: a port on which nothing listens."""

_NO_SNAPSHOTS = {"features.shell_snapshot": False}
"""A snapshot of the shell would write the environment, with its keys, into a file."""

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

_QUIET: dict[str, Any] = {
    "check_for_update_on_startup": False,
    "analytics.enabled": False,
    "history.persistence": "none",
    # With plugins on, the server looks for them on the web.
    "features.plugins": False,
    "features.apps": False,
    "features.unbounded_connection_retries": False,
    # A thread that nobody follows is closed at once: others may resume or delete it.
    "thread_unload_delay_secs": 1,
}


@dataclass(frozen=True, slots=True)
class CodexHome:
    """A `CODEX_HOME`: a private one of Treadle's, or the user's own with its login and settings."""

    directory: Path
    private: bool

    @classmethod
    def below(cls, home: Path) -> CodexHome:
        """Return the private one below Treadle's home."""
        return cls(home / "codex" / "home", private=True)

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> CodexHome:
        """Return the one of the user's own Codex."""
        named = environ.get("CODEX_HOME", "")
        user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        return cls(Path(named) if named else user / ".codex", private=False)

    def prepare(
        self,
        binary: Path,
        environ: Mapping[str, str],
        routes: Iterable[ProviderRoute] = (),
        *,
        secrets: Mapping[str, str] | None = None,
        catalog: Path | None = None,
    ) -> ServerCommand:
        """Write the home and return the command of the server. It does file I/O: use a thread.

        `secrets` are the values of the routes' variables that are not in `environ`.
        Raises `ConfigError` if a variable has no value.
        """
        routes = tuple(routes)
        keys = _secret_values(routes, {**environ, **(secrets or {})})
        add_secrets(*keys.values())
        if self.private:
            # Without its proxy the server reaches nobody; its commands do not get the password.
            keys |= _proxies_with_login(environ)
        if self.private:
            self._write_config({**_QUIET, **_NO_SNAPSHOTS, **_NOWHERE})
        settings = self._process_settings(routes, sorted(keys), catalog)
        return ServerCommand(
            binary=binary,
            arguments=(*_overrides(settings), "app-server"),
            environment={**self._inherited_variables(environ), **keys, **self._home_variable()},
            directory=self.directory if self.private else None,
            secrets=tuple(keys.values()),
        )

    def has_trust_setting(self, directory: Path) -> bool:
        """Say whether the user has decided if Codex uses the settings of a directory's project."""
        projects = self._user_settings().get("projects", {})
        return isinstance(projects, dict) and any(
            str(each) in projects for each in _project_paths(directory)
        )

    def holds(self, path: str | None) -> bool:
        """Say whether a file is in this home, and not in the one that this one is a copy of."""
        real = Path(os.path.realpath(path)) if path else None
        return real is not None and real.is_relative_to(os.path.realpath(self.directory))

    def _process_settings(
        self, routes: tuple[ProviderRoute, ...], hidden: list[str], catalog: Path | None
    ) -> dict[str, Any]:
        """Return the settings of one process; all processes share the file of the home."""
        settings: dict[str, Any] = {}
        if routes and not self.private:
            settings |= _NOWHERE
        if hidden:
            exclusions = [*self._user_exclusions(), *hidden]
            settings |= {**_NO_SNAPSHOTS, "shell_environment_policy.exclude": exclusions}
        if catalog is not None:
            settings["model_catalog_json"] = str(catalog)
        return settings

    def _home_variable(self) -> dict[str, str]:
        """Return the variable of the home. Without it, Codex creates the user's home itself."""
        named = self.private or self.directory.is_dir()
        return {"CODEX_HOME": str(self.directory)} if named else {}

    def _inherited_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        if not self.private:
            return dict(environ)
        return {name: value for name, value in environ.items() if not is_secret(name, value)}

    def _write_config(self, settings: dict[str, Any]) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        text = "".join(f"{line}\n" for line in _config_lines(settings))
        place = self.directory / "config.toml"
        if not place.is_file() or place.read_text() != text:
            replace_file(place, text.encode())

    def _user_settings(self) -> dict[str, Any]:
        """Return the user's own settings, as far as they can be read."""
        if self.private:
            return {}
        try:
            return tomllib.loads((self.directory / "config.toml").read_text())
        except (OSError, ValueError):
            return {}

    def _user_exclusions(self) -> list[str]:
        policy = self._user_settings().get("shell_environment_policy", {})
        named = policy.get("exclude", []) if isinstance(policy, dict) else []
        return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _project_paths(directory: Path) -> Iterator[Path]:
    """Return the paths under which Codex knows a project: the directory and its repository."""
    yield directory
    places = (directory, *directory.parents)
    yield from itertools.islice((each for each in places if (each / ".git").exists()), 1)


def _config_lines(settings: dict[str, Any]) -> list[str]:
    # Strings, booleans and arrays are the same in JSON and TOML.
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]


def _overrides(settings: dict[str, Any]) -> tuple[str, ...]:
    return tuple(word for line in _config_lines(settings) for word in ("-c", line))


def _proxies_with_login(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of proxies whose addresses contain a password."""
    proxies = {name: value for name, value in environ.items() if name.upper() in _PROXIES}
    found = {name: value for name, value in proxies.items() if is_secret(name, value)}
    passwords = [password for value in found.values() if (password := _password(value))]
    add_secrets(*found.values(), *passwords)
    return found


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _secret_values(routes: Iterable[ProviderRoute], environ: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for route in routes:
        for name in route.variables:
            if not environ.get(name):
                raise ConfigError(
                    f"no key for the provider {route.provider!r}; run `treadle auth add "
                    f"{route.provider}`, or set {name}"
                )
            values[name] = environ[name]
    return values


_WIDEST = 100_000_000

UNLIMITED: dict[str, Any] = {
    "model_context_window": _WIDEST,
    "model_auto_compact_token_limit": _WIDEST * 9 // 10,
}
"""The `config` of a thread that Codex never compacts by itself."""


class _Model(Struct):
    slug: str


class _Catalog(Struct):
    models: list[_Model]


class ExtraModel(Struct, frozen=True, kw_only=True):
    """A model that the binary does not know, described like one that it knows."""

    slug: str
    context_window: int
    like: str = "gpt-5.5"


UNKNOWN_MODEL = ExtraModel(slug="", context_window=272_000)
"""Every model that the binary does not know: it matches models by the start of their names."""

_UNKNOWN_MODEL_DEFAULTS: dict[str, Any] = {
    "additional_speed_tiers": [],
    "apply_patch_tool_type": None,
    "comp_hash": None,
    "default_reasoning_level": None,
    "default_reasoning_summary": "auto",
    "default_verbosity": None,
    "include_apps_usage_instructions": False,
    "include_plugin_usage_instructions": False,
    "include_skills_usage_instructions": False,
    "model_messages": None,
    "service_tiers": [],
    "support_verbosity": False,
    "supported_reasoning_levels": [],
    "supports_image_detail_original": False,
    "supports_search_tool": False,
    "truncation_policy": {"mode": "bytes", "limit": 10_000},
    "web_search_tool_type": "text",
}
"""The defaults of the binary for a model that it does not know."""


def has_model(listing: bytes, slug: str) -> bool:
    """Say whether a catalog has an entry for the model `slug`, of any provider."""
    models = decode_json(listing, _Catalog).models
    return any(slug.rpartition("/")[2].startswith(each.slug) for each in models if each.slug)


async def write_catalog(binary: Path, directory: Path, extra: Iterable[ExtraModel] = ()) -> Path:
    """Write the edited catalog of `binary` to `directory`, if it is not there; return its path.

    An app-server reads its catalog once, at its start, and no thread may have a wider
    window than `max_context_window`. So that limit is raised for all models.
    """
    extra = tuple(extra)
    place = directory / f"models-{await asyncio.to_thread(_catalog_key, binary, extra)}.json"
    if not await asyncio.to_thread(place.is_file):
        catalog = edit_catalog(await bundled_models(binary), extra)
        await asyncio.to_thread(replace_file, place, catalog)
    return place


def edit_catalog(listing: bytes, extra: Iterable[ExtraModel] = ()) -> bytes:
    """Return `listing` with a raised limit for every window, and with the `extra` models."""
    try:
        catalog = msgspec.json.decode(listing)
        models = {model["slug"]: model for model in catalog["models"]}
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise ConfigError(
            "Treadle cannot read the model list of this Codex; try another version of Codex"
        ) from error
    for each in extra:
        models[each.slug] = {**_known_model(models, each.like), **_extra_members(each)}
    for model in models.values():
        model["max_context_window"] = _WIDEST
    return msgspec.json.encode({**catalog, "models": list(models.values())})


def _extra_members(extra: ExtraModel) -> dict[str, Any]:
    names = {"slug": extra.slug, "display_name": extra.slug, "upgrade": None}
    defaults = {} if extra.slug else _UNKNOWN_MODEL_DEFAULTS
    return {**names, **defaults, "context_window": extra.context_window}


def _known_model(models: dict[str, Any], slug: str) -> dict[str, Any]:
    if slug not in models:
        raise ConfigError(
            f"this Codex does not know the model {slug!r}; describe the other like one of these: "
            + ", ".join(sorted(models))
        )
    model: dict[str, Any] = models[slug]
    return model


def _catalog_key(binary: Path, extra: tuple[ExtraModel, ...]) -> str:
    try:
        facts = binary.stat()
    except OSError as error:
        raise CodexMissing.because(binary, error) from error
    key = msgspec.json.encode([str(binary), facts.st_size, facts.st_mtime_ns, extra])
    return hashlib.sha256(key).hexdigest()[:16]
