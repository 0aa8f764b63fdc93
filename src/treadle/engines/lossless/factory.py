"""The factory: a lossless engine from its table in the configuration.

Owns the keys of ``[engines.lossless]``. Invariant: a wrong key or value is named, with
what would be accepted, before anything is opened.
"""

from __future__ import annotations

import msgspec

from ...core.errors import ConfigError
from ..offers import EngineContext
from .engine import LosslessEngine
from .library import Library
from .plan import Measures

__all__ = ["FILE", "lossless"]

FILE = "lossless.db"
"""The library's file in the engine's home."""


def lossless(context: EngineContext) -> LosslessEngine:
    """The engine; where it has no home its summaries end with it. Raises `ConfigError`."""
    path = None if context.home is None else context.home / FILE
    return LosslessEngine(Library(path), measures_from(context.config))


def measures_from(config: dict[str, object]) -> Measures:
    """The water marks and sizes that a table asks for."""
    known = Measures.__struct_fields__
    if unknown := sorted(set(config) - set(known)):
        raise ConfigError(
            f"[engines.lossless] has no key {unknown[0]!r}; it knows {', '.join(known)}"
        )
    try:
        measures = msgspec.convert(config, Measures)
    except msgspec.ValidationError as error:
        raise ConfigError(f"[engines.lossless] cannot be used: {error}; mend the value") from error
    if not 0 < measures.prepare <= measures.high <= measures.hard <= 1:
        raise ConfigError(
            "[engines.lossless] needs 0 < prepare <= high <= hard <= 1; "
            f"they are {measures.prepare}, {measures.high} and {measures.hard}"
        )
    if not 0 < measures.low < measures.high:
        raise ConfigError(
            f"[engines.lossless] needs low below high; they are {measures.low} and {measures.high}"
        )
    return measures
