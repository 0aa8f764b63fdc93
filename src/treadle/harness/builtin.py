"""The harnesses that Treadle brings: its own loop, and Codex.

Owns whose models each of them takes. Invariant: Codex is not loaded, let alone looked
for on the machine, before a thread has chosen it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..core.errors import ConfigError
from ..core.typed import convert
from .offers import HarnessOffer, Registration, Route, Support

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store.contract import OutboxRow
    from .codex.codex_options import CodexOptions
    from .contract import Harness

__all__ = ["AUTO", "BUILT_IN", "CODEX", "TREADLE", "codex_options"]

AUTO = "auto"
"""Not a harness: leaves the choice to the model's provider."""

TREADLE = "treadle"
CODEX = "codex"
"""A harness, and the provider of the models that only it reaches."""

_CODEX_PRIORITY = 100


def codex_options(offer: HarnessOffer) -> CodexOptions:
    """The options in the table of `offer`. Raises `ConfigError`."""
    from .codex.codex_options import CodexOptions

    try:
        options = convert(dict(offer.config), CodexOptions, dec_hook=_value)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the table 'codex' cannot be used: {error}; correct it") from error
    binary = options.binary and options.binary.expanduser()
    return msgspec.structs.replace(options, binary=binary)


def _value(wanted: type, told: Any) -> Any:
    """What a file has no type for: a path is written as a string."""
    if wanted is Path and isinstance(told, str):
        return Path(told)
    raise TypeError(f"Expected `{wanted.__name__}`")


def _treadle(offer: HarnessOffer) -> Harness:
    from .loop import LoopHarness

    del offer
    return LoopHarness()


async def _codex(offer: HarnessOffer) -> Harness:
    from .codex.harness import CodexHarness
    from .codex.version import check_codex, choose_codex

    options = codex_options(offer)
    # Done now, so that nobody learns in the middle of a turn that there is none.
    binary = options.binary
    if binary is None:
        search = offer.environ.get("PATH")
        binary = await choose_codex(search, allow_newer=options.allow_newer)
    await check_codex(binary, allow_newer=options.allow_newer)
    options = msgspec.structs.replace(options, binary=binary)
    return CodexHarness(options, home=offer.home, environ=offer.environ, providers=offer.providers)


async def _delete_codex_copy(
    offer: HarnessOffer, thread: str, rows: Sequence[OutboxRow]
) -> list[str]:
    from .codex.deletion import delete_copies

    return await delete_copies(offer.home, thread, rows, erase=True)


def _reaches(route: Route) -> Support:
    """Treadle's loop runs whatever Treadle can ask."""
    reason = f"the provider {route.provider!r} is reached through a harness of its own only"
    return Support(supported=route.reachable, reason="" if route.reachable else reason)


def _own(route: Route) -> Support:
    """Codex runs its own models, and any other if it is asked to."""
    own = route.provider == CODEX
    return Support(supported=True, priority=_CODEX_PRIORITY if own else 0)


BUILT_IN = (
    Registration(
        id=TREADLE, label="Treadle's own loop", factory=_treadle, supports=_reaches, owner=TREADLE
    ),
    Registration(
        id=CODEX,
        label="Codex app-server",
        factory=_codex,
        providers=(CODEX,),
        supports=_own,
        owner=TREADLE,
        delete_stored=_delete_codex_copy,
    ),
)
