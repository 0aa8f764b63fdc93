"""Ways in: which models can be asked from here, and what is missing for the others.

Owns what is looked for: keys, a login of Codex, servers on this machine. Invariant: looking
costs nothing, asks only addresses of this machine, and takes a moment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from ..config import Settings
from ..core.errors import TreadleError
from ..models.catalog import Catalog
from ..models.contract import AuthFailed
from ..models.known_models import RECOMMENDED
from ..models.model_lists import read_server_list
from ..models.providers import provider_access, provider_settings
from ..models.server_questions import listing_headers
from ..models.transport import AsyncTransport, Timeouts, TransportError
from .cli_home import Home
from .codex_state import missing_codex_login
from .profile_test import listing_url
from .profiles import credentials_of
from .thread_setup import Setup, providers_of

__all__ = [
    "DEMO",
    "LocalServer",
    "find_local_servers",
    "missing_access",
    "missing_server",
    "recommended_models",
]

DEMO = "scripted:demo"

_LOCAL = {
    "ollama": "Ollama",
    "lmstudio": "the server of LM Studio",
    "llamacpp": "llama-server",
    "vllm": "vLLM",
    "local": "it",
}
"""The providers whose servers people run themselves, and what to start."""
_TIMEOUTS = Timeouts(connect=0.3, idle=1.0, total=2.0)
_MOST_BYTES = 1 << 20
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class LocalServer(Struct, frozen=True):
    """A server of models on this machine."""

    provider: str
    base_url: str
    models: tuple[str, ...]
    """Their full names."""


async def missing_access(setup: Setup, model: str | None = None) -> str:
    """Return why a model cannot be asked, and the remedy; empty if it can.

    Without a `model` it is that of a new thread; one that exists has been answered before.
    """
    model = model or setup.model
    if model is None:
        return ""
    catalog = await asyncio.to_thread(Catalog.load, setup.home / "models.toml")
    provider, slug = catalog.with_providers(setup.settings.providers).split(model)
    if not slug:
        return ""  # who opens it says that it names no model
    if provider == "codex" and setup.settings.harness == "treadle":
        return ""  # who opens it says that this harness cannot run it
    if provider == "codex":
        return "" if setup.profile else missing_codex_login(os.environ)
    provider = provider or catalog.profile(model).provider
    credentials = credentials_of(Home(setup.home), setup.settings)
    if credentials.profiles(provider):
        return ""
    config = provider_settings(provider, providers_of(setup.settings))
    try:
        provider_access(provider, config, os.environ)
    except AuthFailed as error:
        return str(error)
    except TreadleError:
        return ""  # those who open it otherwise need no key, or say what is wrong
    return ""


async def missing_server(setup: Setup) -> str:
    """Return that the model's server of this machine does not run; empty where it may."""
    provider = (setup.model or "").partition(":")[0]
    if provider not in _LOCAL:
        return ""
    try:
        config = provider_settings(provider, providers_of(setup.settings))
        base_url = provider_access(provider, config, os.environ).base_url
        place = urlsplit(base_url)
        if place.hostname not in _LOOPBACK:
            return ""
        async with asyncio.timeout(_TIMEOUTS.connect):
            _, line = await asyncio.open_connection(place.hostname, place.port or 80)
    except ConnectionRefusedError:
        return f"no server listens at {base_url}; start {_LOCAL[provider]}, or check the port"
    except (TreadleError, OSError, ValueError):
        return ""  # the turn will say what is wrong
    line.close()
    return ""


def recommended_models(settings: Settings, home: Home) -> list[tuple[str, bool]]:
    """Return the model to begin with at each provider, and whether it has a key."""
    credentials = credentials_of(home, settings)
    named = [(f"{name}:{slug}", bool(credentials.profiles(name))) for name, slug in
             RECOMMENDED.items()]  # fmt: skip
    return sorted(named, key=lambda each: not each[1])


async def find_local_servers(settings: Settings) -> list[LocalServer]:
    """Return the servers of models that answer on this machine."""
    async with AsyncTransport.from_environment(os.environ) as transport:
        asked = (_ask(provider, settings, transport) for provider in _LOCAL)
        found = [server for server in await asyncio.gather(*asked) if server is not None]
    return _without_repeats(found)


async def _ask(provider: str, settings: Settings, transport: AsyncTransport) -> LocalServer | None:
    try:
        config = provider_settings(provider, providers_of(settings))
        place = provider_access(provider, config, os.environ)
        if urlsplit(place.base_url).hostname not in _LOOPBACK:
            return None
        async with await transport.get(
            listing_url(place), listing_headers(place), timeouts=_TIMEOUTS
        ) as response:
            if response.status != 200:
                return None
            listed = read_server_list(await response.read(_MOST_BYTES))
    except (TransportError, TreadleError, ValueError):
        return None
    models = tuple(f"{provider}:{slug}" for slug in listed)
    return LocalServer(provider, place.base_url, models) if models else None


def _without_repeats(found: Sequence[LocalServer]) -> list[LocalServer]:
    """Return each server once: two providers have the same usual address."""
    return list({server.base_url: server for server in reversed(found)}.values())[::-1]
