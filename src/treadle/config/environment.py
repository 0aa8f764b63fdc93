"""Variables: ``TREADLE_MODEL`` says ``model``, and so on for every plain key.

Invariant: a variable that is nearly one of ours is an error; others are none of our
business, for Treadle's own commands are told things in such variables too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from ..core.errors import ConfigError
from .check import Key, leaves
from .settings import Settings

__all__ = ["from_environment", "variable_of"]

_PREFIX = "TREADLE_"
_TABLES = (
    "agents",
    "agents_md",
    "codex",
    "models",
    "providers",
    "prices",
    "hooks",
    "channels",
    "engines",
    "harnesses",
)
_NAMES = tuple(name for name in Settings.__struct_fields__ if name not in _TABLES)
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_ALIKE = 0.85
_MOST_DIGITS = 18
"""Of a number; one with more is left to the check, which refuses it."""


def variable_of(key: Key) -> str | None:
    """The variable that sets `key`, if one does."""
    return _PREFIX + key[0].upper() if len(key) == 1 and key[0] in _NAMES else None


def from_environment(environ: Mapping[str, str]) -> dict[Key, Any]:
    """What the variables say. Raises `ConfigError`."""
    ours = {_PREFIX + name.upper(): name for name in _NAMES}
    _check_spelling(environ, tuple(ours))
    said = {name: environ[variable] for variable, name in ours.items() if environ.get(variable)}
    table = {name: _parsed(name, text) for name, text in said.items()}
    return dict(leaves(table, lambda key: _PREFIX + key[0].upper()))


def _check_spelling(environ: Mapping[str, str], ours: tuple[str, ...]) -> None:
    for name in environ:
        if name.startswith(_PREFIX) and name not in ours and name != "TREADLE_HOME":
            import difflib

            close = difflib.get_close_matches(name, ours, n=1, cutoff=_ALIKE)
            if close:
                raise ConfigError(
                    f"the variable {name!r} sets nothing; did you mean {close[0]!r}? Unset it"
                )


def _parsed(name: str, text: str) -> Any:
    """`text` as its key's type wants it; what does not fit is left to the check."""
    hint = get_type_hints(Settings)[name]
    kinds = {hint, *get_args(hint)}
    if bool in kinds and text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    if int in kinds and text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    if name == "fallbacks":  # whose names have colons in them
        return [part for part in text.split(",") if part]
    if hint == tuple[str, ...]:
        return [part for part in text.split(os.pathsep) if part]
    return text
