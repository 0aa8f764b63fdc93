"""The three questions of `treadle setup`: the model, its key, the rights.

Owns their words and what each answer means. Invariant: what is not understood is asked
again, and a key is never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from msgspec import Struct

from ..config import Settings
from ..policy.auth import ApiKey, profile_id
from .cli_home import Home
from .output import printable
from .profiles import credentials_of
from .user_questions import Read
from .ways_in import DEMO, find_local_servers, recommended_models

__all__ = ["ModelOffer", "RightsChoice", "SetupQuestions", "model_offers"]

_MOST_MODELS = 3
"""So many models of one server are offered."""


class ModelOffer(Struct, frozen=True):
    """A model that can be chosen, and what it needs."""

    model: str
    means: str


class RightsChoice(Struct, frozen=True):
    """A choice of rights, and what it means."""

    sandbox: str
    approval: str
    means: str


_RIGHTS = (
    RightsChoice("workspace-write", "on-request", "write in the project, ask for anything beyond"),
    RightsChoice("read-only", "on-request", "only read, ask before every change"),
    RightsChoice("danger-full-access", "never", "do everything that you can, without asking"),
)


async def model_offers(settings: Settings, home: Home) -> list[ModelOffer]:
    """Return the models to choose from: those with a key, those of this machine, the others."""
    servers = await find_local_servers(settings)
    local = [
        ModelOffer(model, f"on your machine, at {server.base_url}")
        for server in servers
        for model in server.models[:_MOST_MODELS]
    ]
    known = recommended_models(settings, home)
    ready = [ModelOffer(model, "its key is there") for model, has_key in known if has_key]
    others = [
        ModelOffer(model, "needs a key")
        for model, has_key in known
        if not has_key and model.partition(":")[0] not in ("ollama", "lmstudio")
    ]
    return [*ready, *local, *others, ModelOffer(DEMO, "a script, to look around without a key")]


class SetupQuestions:
    """Asks the user; `read` reads a line, `read_secret` one that is not shown."""

    def __init__(self, read: Read, read_secret: Callable[[str], str]) -> None:
        self._read = read
        self._read_secret = read_secret

    async def ask_model(self, offers: Sequence[ModelOffer]) -> str:
        """Ask which model to use."""
        _say("1 of 3. Which model?", [f"{offer.model}: {offer.means}" for offer in offers])
        while True:
            said = (await self._read(f"1 to {len(offers)}, or PROVIDER:MODEL [1] > ")).strip()
            if ":" in said:
                return said
            of_provider = [each.model for each in offers if each.model.startswith(f"{said}:")]
            if said and of_provider:
                return of_provider[0]
            if (at := _number(said, len(offers))) is not None:
                return offers[at].model
            _explain(said, f"1 to {len(offers)}, or a name like {offers[0].model!r}")

    def ask_key(self, home: Home, settings: Settings, provider: str) -> bool:
        """Ask for the key of `provider` and store it; return whether there was one."""
        _say(f"2 of 3. The key of {provider}?", ["it is stored as `treadle auth add` does"])
        key = self._read_secret(f"Key of {provider} (Enter: later)").strip()
        if not key:
            return False
        credentials = credentials_of(home, settings)
        own = profile_id(provider, "default")
        credentials.secrets.put(own, ApiKey(provider=provider, key=key), "auto")
        credentials.state.forget(own)
        return True

    async def ask_rights(self) -> RightsChoice:
        """Ask what the agent may do."""
        _say("3 of 3. What may the agent do?", [choice.means for choice in _RIGHTS])
        while True:
            said = (await self._read(f"1 to {len(_RIGHTS)} [1] > ")).strip()
            if (at := _number(said, len(_RIGHTS))) is not None:
                return _RIGHTS[at]
            _explain(said, f"1 to {len(_RIGHTS)}")


def _number(said: str, most: int) -> int | None:
    """Return the place of a choice by its number; the first for nothing, None for others."""
    if not said:
        return 0
    return int(said) - 1 if said.isdecimal() and 1 <= int(said) <= most else None


def _explain(said: str, accepted: str) -> None:
    click.echo(f"{printable(repr(said))} is none of these; say {accepted}", err=True)


def _say(question: str, choices: Sequence[str]) -> None:
    click.secho(question, bold=True, err=True)
    for number, choice in enumerate(choices, 1):
        mark = f"{number:>2}  " if len(choices) > 1 else "    "
        click.echo(f"{mark}{printable(choice)}", err=True)
