"""Questions to a server about its models: which there are, and how wide their windows are.

Owns what is asked of which kind of server. Invariants: nothing that costs anything is asked, and
no model is loaded for it; a key goes to its own provider only; what a server does not say for
certain is left out.
"""

from __future__ import annotations

import os
from typing import Any

from ..core.errors import ConfigError
from ..core.wire import json_bytes
from .model_lists import (
    ListedModels,
    read_llamacpp_window,
    read_ollama,
    read_ollama_windows,
    read_server_list,
)
from .providers import ProviderAccess, key_headers
from .transport import AsyncTransport, Timeouts, TransportError

__all__ = ["ServerQuestions", "listing_headers"]

_TIMEOUTS = Timeouts(connect=10.0, idle=30.0, total=60.0)
_MOST_BYTES = 64 << 20


def listing_headers(place: ProviderAccess) -> dict[str, str]:
    """Return the headers with which a provider is asked for its models."""
    shown = key_headers(place.api, place.key, place.key_header)
    told = {name: os.environ[variable] for name, variable in place.env_headers.items()}
    return {"accept": "application/json", **shown, **place.headers, **told}


class ServerQuestions:
    """One server, and what it can be asked."""

    def __init__(
        self,
        provider: str,
        place: ProviderAccess,
        transport: AsyncTransport,
        timeouts: Timeouts = _TIMEOUTS,
    ) -> None:
        self._provider, self._place = provider, place
        self._transport, self._timeouts = transport, timeouts
        self._headers = listing_headers(place)
        if not place.key:
            self._headers.pop("authorization", None)
        self._root = place.base_url.removesuffix("/v1")

    async def models(self) -> ListedModels:
        """Return all of its models. Raises `ConfigError`."""
        if self._provider == "ollama":
            listed = read_server_list(await self._ask(f"{self._root}/api/tags"))
            loaded = read_ollama_windows(await self._ask(f"{self._root}/api/ps"))
            return {slug: await self._ollama_facts(slug, loaded.get(slug)) for slug in listed}
        if self._provider == "lmstudio":
            return read_server_list(await self._ask(f"{self._root}/api/v0/models"))
        more = "?limit=1000" if self._place.api == "messages" else ""
        return read_server_list(await self._ask(f"{self._place.base_url}/models{more}"))

    async def facts(self, slug: str) -> dict[str, Any]:
        """Return what is certain of one model now, mostly its window. Raises `ConfigError`."""
        if self._provider == "ollama":
            loaded = read_ollama_windows(await self._ask(f"{self._root}/api/ps"))
            window = _of_tag(loaded, slug)
            return _without_guess(await self._ollama_facts(slug, window), window)
        listed = await self.models()
        # Who serves a single model takes any name for it.
        only = next(iter(listed.values())) if len(listed) == 1 else {}
        facts = dict(listed.get(slug, only))
        if self._provider == "lmstudio":
            return _without_guess(facts, None)
        if self._provider == "llamacpp" or "context_window" not in facts:
            facts |= await self._llamacpp_facts()
        return facts

    async def _ollama_facts(self, slug: str, loaded: int | None) -> dict[str, Any]:
        shown = await self._ask(f"{self._root}/api/show", json_bytes({"model": slug}))
        return read_ollama(shown, loaded)

    async def _llamacpp_facts(self) -> dict[str, Any]:
        """Return the window of one slot: the server may divide its own among several."""
        try:
            window = read_llamacpp_window(await self._ask(f"{self._root}/props"))
        except ConfigError:  # another kind of server
            return {}
        return {} if window is None else {"context_window": window}

    async def _ask(self, url: str, body: bytes | None = None) -> bytes:
        try:
            response = await (
                self._transport.get(url, self._headers, timeouts=self._timeouts)
                if body is None
                else self._transport.post(url, body, self._headers, timeouts=self._timeouts)
            )
            async with response:
                if response.status != 200:
                    raise ConfigError(
                        f"{url} answered {response.status}; check the address and the key"
                    )
                return await response.read(_MOST_BYTES)
        except TransportError as error:
            raise ConfigError(f"{url} did not answer: {error}") from error


def _of_tag(loaded: dict[str, int], slug: str) -> int | None:
    """Return the window of a model that is loaded; Ollama lists it with its tag."""
    return loaded.get(slug) or loaded.get(f"{slug}:latest")


def _without_guess(facts: dict[str, Any], loaded: int | None) -> dict[str, Any]:
    """Return the facts without a window that is only the widest possible one.

    A model that is not loaded yet gets the window that the server was started with.
    """
    if loaded is None and facts.get("context_window") == facts.get("max_context_window"):
        return {name: value for name, value in facts.items() if name != "context_window"}
    return facts
