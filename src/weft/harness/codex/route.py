"""Routes: how an app-server reaches the provider of a thread.

Owns a provider's settings in Codex's words. They are given with each thread, so one
process serves any number of providers. Invariant: a route names the variables that
hold its secrets and never holds a secret itself.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from ...errors import ConfigError

__all__ = ["Route"]

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Route(Struct, frozen=True, kw_only=True):
    """A provider of Responses, as a thread is told of it.

    `env_key` names the variable of the bearer token, `env_headers` those of headers.
    The name ``OpenAI`` would switch the server's remote compaction on.
    """

    provider: str
    base_url: str
    name: str = ""
    env_key: str | None = None
    headers: dict[str, str] = {}
    env_headers: dict[str, str] = {}
    query_params: dict[str, str] = {}
    retries: int | None = None
    """Tries after the first, of a request and of a stream; the server's own number if None."""
    idle_seconds: float | None = None

    @property
    def id(self) -> str:
        """The provider's id in the app-server; its own ids cannot be redefined."""
        if not _PLAIN.fullmatch(self.provider):
            raise ConfigError(
                f"the provider {self.provider!r} cannot be named to Codex; "
                "use letters, digits, '-' and '_'"
            )
        return f"weft-{self.provider}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that hold its secrets."""
        key = () if self.env_key is None else (self.env_key,)
        return (*key, *self.env_headers.values())

    def config(self) -> dict[str, Any]:
        """What `config` of a thread's start, resume or fork says of it."""
        return {f"model_providers.{self.id}": self._settings()}

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "name": self.name or self.provider,
            "base_url": self.base_url,
            "wire_api": "responses",
            "requires_openai_auth": False,
            "supports_websockets": False,
            "env_key": self.env_key,
            "http_headers": self.headers or None,
            "env_http_headers": self.env_headers or None,
            "query_params": self.query_params or None,
            "request_max_retries": self.retries,
            "stream_max_retries": self.retries,
            "stream_idle_timeout_ms": self.idle_seconds and int(self.idle_seconds * 1000),
        }
        return {name: value for name, value in settings.items() if value is not None}
