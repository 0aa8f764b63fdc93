"""Routes: how an app-server reaches the provider of a thread.

Owns a provider's settings in Codex's words. From 0.166 on a process runs turns of one
provider id only, but a thread may say what that id means to it: so all routes have one
id, and one process serves any number of them. Invariant: a route names the variables
that hold its secrets and never holds a secret itself.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["PROVIDER", "ProviderRoute"]

PROVIDER = "treadle"
"""The one provider id that every thread of ours has."""


class ProviderRoute(Struct, frozen=True, kw_only=True):
    """A provider of Responses, as a thread is told of it.

    `env_key` names the variable of the bearer token, `env_headers` those of headers.
    The name ``OpenAI`` would switch the server's remote compaction on.
    """

    provider: str
    base_url: str
    name: str = ""
    env_key: str | None = None
    uses_account: bool = False
    """Whether it is paid for by the account that the server is signed in with."""
    headers: dict[str, str] = {}
    env_headers: dict[str, str] = {}
    query_params: dict[str, str] = {}
    retries: int | None = None
    """Tries after the first, of a request and of a stream; the server's own number if None."""
    idle_seconds: float | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that hold its secrets."""
        key = () if self.env_key is None else (self.env_key,)
        return (*key, *self.env_headers.values())

    def config(self) -> dict[str, Any]:
        """What `config` of a thread's start, resume or fork says of it."""
        return {f"model_providers.{PROVIDER}": self._settings()}

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "name": self.name or self.provider,
            "base_url": self.base_url,
            "wire_api": "responses",
            "requires_openai_auth": self.uses_account,
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
