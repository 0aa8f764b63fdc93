"""Fuzzing: hostile bytes for every parser, chosen by what they reach in it.

Owns the list of targets and their seeds. A target is a module in `targets/` with one
function, ``check(data: bytes) -> None``: it may refuse `data` with the parser's typed
error, and anything else that leaves it is a finding. `WORDS` names what such input is
made of. Seeds lie in `seeds/<target>/`; what once broke a parser stays there for good.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias, cast

from . import targets

__all__ = ["SEEDS", "Check", "check_of", "names", "seeds_of", "words_of"]

Check: TypeAlias = Callable[[bytes], None]
"""What a target offers."""

SEEDS = Path(__file__).parent / "seeds"


def names() -> list[str]:
    """Every target."""
    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def check_of(name: str) -> Check:
    """The property that the target states."""
    return cast("Check", import_module(f"{targets.__name__}.{name}").check)


def words_of(name: str) -> tuple[bytes, ...]:
    """What input of the target is made of."""
    return cast(
        "tuple[bytes, ...]",
        getattr(import_module(f"{targets.__name__}.{name}"), "WORDS", ()),
    )


def seeds_of(name: str) -> list[Path]:
    """The target's seeds, in the order of their names."""
    return sorted(path for path in (SEEDS / name).glob("*") if path.is_file())
