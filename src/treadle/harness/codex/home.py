"""Where an app-server keeps its state, and what it is started with.

Owns the private home's settings and the environment of the process. `HOME` stays the
user's, because commands need it. Invariant: a private home contacts nothing but the
provider a thread names; a user's own is never written to; secrets reach neither
files nor arguments, and the commands that the server runs do not inherit them.
"""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import ConfigError
from ...core.files import replace_file
from ...core.redact import add_secrets
from ...sandbox.environment import is_secret
from .launch import ServerCommand
from .route import PROVIDER, ProviderRoute

__all__ = ["CodexHome"]

_NOWHERE: dict[str, Any] = {
    "model_provider": PROVIDER,
    f"model_providers.{PROVIDER}.name": "nowhere",
    f"model_providers.{PROVIDER}.base_url": "http://127.0.0.1:9/v1",
    f"model_providers.{PROVIDER}.wire_api": "responses",
    f"model_providers.{PROVIDER}.requires_openai_auth": False,
    f"model_providers.{PROVIDER}.supports_websockets": False,
}
"""A thread that was given no route is led to a port where nobody listens."""

_NO_SNAPSHOTS = {"features.shell_snapshot": False}
"""A snapshot of the shell would write the environment, keys included, into a file."""

_QUIET: dict[str, Any] = {
    "check_for_update_on_startup": False,
    "analytics.enabled": False,
    "history.persistence": "none",
    # With plugins on, the server looks for them on the web.
    "features.plugins": False,
    "features.apps": False,
    "features.unbounded_connection_retries": False,
}


@dataclass(frozen=True, slots=True)
class CodexHome:
    """A `CODEX_HOME`: one of Treadle's, or the user's own with its login and settings."""

    directory: Path
    private: bool

    @classmethod
    def below(cls, home: Path) -> CodexHome:
        """The private one below Treadle's home."""
        return cls(home / "codex" / "home", private=True)

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> CodexHome:
        """The one the user's own Codex has."""
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
        """Set the home up and say how the server is started. It writes files: use a thread.

        `secrets` are the values of the routes' variables that are not in `environ`.
        Raises `ConfigError` where a variable has no value.
        """
        routes = tuple(routes)
        held = _held(routes, {**environ, **(secrets or {})})
        add_secrets(*held.values())
        if self.private:
            self._write({**_QUIET, **_NO_SNAPSHOTS, **_NOWHERE})
        settings = self._settings(routes, sorted(held), catalog)
        return ServerCommand(
            binary=binary,
            arguments=(*_overrides(settings), "app-server"),
            environment={**self._kept(environ), **held, **self._named()},
            directory=self.directory if self.private else None,
            secrets=tuple(held.values()),
        )

    def _settings(
        self, routes: tuple[ProviderRoute, ...], hidden: list[str], catalog: Path | None
    ) -> dict[str, Any]:
        """What is true of one process; the file is shared by all that have this home."""
        settings: dict[str, Any] = {}
        if routes and not self.private:
            settings |= _NOWHERE
        if hidden:
            exclusions = [*self._users_exclusions(), *hidden]
            settings |= {**_NO_SNAPSHOTS, "shell_environment_policy.exclude": exclusions}
        if catalog is not None:
            settings["model_catalog_json"] = str(catalog)
        return settings

    def has_trust_setting(self, directory: Path) -> bool:
        """Whether the user has said if Codex may heed the settings of a directory's project."""
        told = self._users_settings().get("projects", {})
        return isinstance(told, dict) and any(str(each) in told for each in _projects(directory))

    def _named(self) -> dict[str, str]:
        """The variable of the home. Codex makes a user's first one itself, if nobody names it."""
        named = self.private or self.directory.is_dir()
        return {"CODEX_HOME": str(self.directory)} if named else {}

    def _kept(self, environ: Mapping[str, str]) -> dict[str, str]:
        if not self.private:
            return dict(environ)
        return {name: value for name, value in environ.items() if not is_secret(name, value)}

    def _write(self, settings: dict[str, Any]) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        text = "".join(f"{line}\n" for line in _lines(settings))
        place = self.directory / "config.toml"
        if not place.is_file() or place.read_text() != text:
            replace_file(place, text.encode())

    def _users_settings(self) -> dict[str, Any]:
        """What stands in the user's own file, as far as it can be read."""
        if self.private:
            return {}
        try:
            return tomllib.loads((self.directory / "config.toml").read_text())
        except (OSError, ValueError):
            return {}

    def _users_exclusions(self) -> list[str]:
        policy = self._users_settings().get("shell_environment_policy", {})
        named = policy.get("exclude", []) if isinstance(policy, dict) else []
        return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _projects(directory: Path) -> Iterator[Path]:
    """Under which names Codex knows the project of a directory: itself, and its repository."""
    yield directory
    places = (directory, *directory.parents)
    yield from itertools.islice((each for each in places if (each / ".git").exists()), 1)


def _lines(settings: dict[str, Any]) -> list[str]:
    # JSON's strings, booleans and arrays are TOML's, too.
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]


def _overrides(settings: dict[str, Any]) -> tuple[str, ...]:
    return tuple(word for line in _lines(settings) for word in ("-c", line))


def _held(routes: Iterable[ProviderRoute], environ: Mapping[str, str]) -> dict[str, str]:
    held: dict[str, str] = {}
    for route in routes:
        for name in route.variables:
            if not environ.get(name):
                raise ConfigError(
                    f"no key for the provider {route.provider!r}; set {name}, or run `treadle auth`"
                )
            held[name] = environ[name]
    return held
