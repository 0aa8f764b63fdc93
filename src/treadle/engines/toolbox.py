"""The toolbox: which of the tools that an engine brings a model may be offered.

Owns the judgement. Invariant: a tool that passes has a spec that can be sent, a name that
nobody else has, and something to run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from ..core.patterns import regex
from ..core.specs import spec_name
from ..tools.contract import Tool
from .words import brief, describe_error

__all__ = ["usable"]

_NAME = regex(r"[A-Za-z0-9_-]{1,64}")


def usable(brought: Iterable[Any], taken: Collection[str]) -> tuple[tuple[Tool, ...], list[str]]:
    """The tools that can be offered beside those whose names are `taken`, and what is wrong."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for tool in brought:
        try:
            name = _named(tool)
        except Exception as error:  # noqa: BLE001 - an engine's code may raise anything
            problems.append(f"a {type(tool).__name__} is no tool: {describe_error(error)}")
            continue
        if name in taken or name in tools:
            problems.append(f"the name {name!r} is taken")
        else:
            tools[name] = tool
    return tuple(tools.values()), [brief(problem) for problem in problems]


def _named(tool: Any) -> str:
    """The name of a tool that can be offered."""
    spec = tool.spec
    if not isinstance(spec, Struct) or not callable(tool.run):
        raise TypeError("it has no spec, or nothing to run")
    msgspec.json.decode(msgspec.json.encode(spec))
    name = spec_name(spec)  # type: ignore[arg-type]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("a name has letters, digits, '_' and '-', and at most 64 of them")
    return name
