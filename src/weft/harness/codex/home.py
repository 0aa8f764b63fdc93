"""Where an app-server keeps its state, and what it is started with.

Owns the private home's settings and the environment of the process. `HOME` stays the
user's, because commands need it. Invariant: a private home contacts nothing but the
provider a thread names; a user's own is never written to; secrets reach neither
files nor arguments, and the commands that the server runs do not inherit them.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...sandbox.environment import is_secret
from .launch import Launch
from .route import Route

__all__ = ["CodexHome"]

# A thread that names no provider is led to a port where nobody listens. Without
# `plugins` off the server looks for plugins on the web; a snapshot of the shell
# would write the environment, keys included, into a file.
_CONFIG = """\
model_provider = "weft-nowhere"
check_for_update_on_startup = false
{catalog}
[model_providers.weft-nowhere]
name = "nowhere"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[history]
persistence = "none"

[features]
plugins = false
apps = false
shell_snapshot = false
unbounded_connection_retries = false

[shell_environment_policy]
exclude = {hidden}
"""


@dataclass(frozen=True, slots=True)
class CodexHome:
    """A `CODEX_HOME`: one of Weft's, or the user's own with its login and settings."""

    directory: Path
    private: bool

    @classmethod
    def below(cls, home: Path) -> CodexHome:
        """The private one below Weft's home."""
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
        routes: Iterable[Route] = (),
        *,
        secrets: Mapping[str, str] | None = None,
        catalog: Path | None = None,
    ) -> Launch:
        """Set the home up and say how the server is started. It writes files: use a thread.

        `secrets` are the values of the routes' variables that are not in `environ`.
        Raises `ConfigError` where a variable has no value.
        """
        held = _held(routes, {**environ, **(secrets or {})})
        if self.private:
            self._write(sorted(held), catalog)
        kept = {
            name: value
            for name, value in environ.items()
            if not (self.private and is_secret(name, value))
        }
        return Launch(
            binary=binary,
            arguments=(*self._overrides(sorted(held), catalog), "app-server"),
            environment={**kept, **held, "CODEX_HOME": str(self.directory)},
            directory=self.directory if self.private else None,
            secrets=tuple(held.values()),
        )

    def _write(self, hidden: list[str], catalog: Path | None) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        named = "" if catalog is None else f"model_catalog_json = {json.dumps(str(catalog))}\n"
        text = _CONFIG.format(catalog=named, hidden=json.dumps(hidden))
        place = self.directory / "config.toml"
        if not place.is_file() or place.read_text() != text:
            draft = place.with_suffix(f".{os.getpid()}")
            draft.write_text(text)
            draft.replace(place)

    def _overrides(self, hidden: list[str], catalog: Path | None) -> tuple[str, ...]:
        if self.private:
            return ()
        settings: dict[str, Any] = {}
        if catalog is not None:
            settings["model_catalog_json"] = str(catalog)
        if hidden:
            settings["features.shell_snapshot"] = False
            settings["shell_environment_policy.exclude"] = [*self._users_exclusions(), *hidden]
        pairs = (("-c", f"{name}={json.dumps(value)}") for name, value in settings.items())
        return tuple(word for pair in pairs for word in pair)

    def _users_exclusions(self) -> list[str]:
        try:
            config = tomllib.loads((self.directory / "config.toml").read_text())
        except (OSError, tomllib.TOMLDecodeError):
            return []
        policy = config.get("shell_environment_policy", {})
        named = policy.get("exclude", []) if isinstance(policy, dict) else []
        return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _held(routes: Iterable[Route], environ: Mapping[str, str]) -> dict[str, str]:
    held: dict[str, str] = {}
    for route in routes:
        for name in route.variables:
            if not environ.get(name):
                raise ConfigError(
                    f"no key for the provider {route.provider!r}; set {name}, or run `weft auth`"
                )
            held[name] = environ[name]
    return held
