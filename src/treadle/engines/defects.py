"""Defects: whether what a factory made is a context engine, and its tools are tools.

Owns the list of defects, and which turns an engine can expect. Invariants: every defect is
found in one go, nothing of an engine is called but `tools`, and no candidate makes a check
raise; a tool that passes has a spec that can be sent, a name of its own and something to run.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ..core.redact import describe_error, one_line
from ..core.specs import spec_name
from ..tools.contract import Tool
from .contract import (
    CAPABILITIES,
    HOST_PARAMS,
    EngineInfo,
    MaintenanceMode,
    Operation,
    Requirement,
    TranscriptPromise,
)

__all__ = [
    "POWERS",
    "Guarantee",
    "defects",
    "delivery_promise",
    "guarantee",
    "optional_powers",
    "usable_tools",
]

Guarantee: TypeAlias = Literal["exactly once", "at least once"]

_REQUIRED = ("ingest", "assemble", "compact")
_WITH_PARAMS = (
    "bootstrap",
    "maintain",
    "ingest_batch",
    "after_turn",
    "commit_turn",
    "intercept_compaction",
    "prepare_subagent_spawn",
    "on_subagent_ended",
    "thread_reset",
)
POWERS: Final = (*_WITH_PARAMS, "tools", "dispose")
"""The optional powers of an engine, in the order of the contract."""

_MODES: tuple[str, ...] = get_args(MaintenanceMode)
_OPERATIONS: tuple[str, ...] = get_args(Operation)
_FENCES = ("before-current-turn-entry-v1",)
_ADVANCEMENTS = ("atomic-idempotent-v1",)
_TOOL_NAME = r"[A-Za-z0-9_-]{1,64}"
_ABSENT: Final = object()


def defects(candidate: object) -> tuple[str, ...]:
    """Return everything that is wrong with `candidate`; nothing when it is an engine."""
    if candidate is None:
        return ("the factory returned nothing; return the engine",)
    if isinstance(candidate, type):
        return (f"the factory returned the class {candidate.__name__!r}; return an instance",)
    return (*_info_defects(candidate), *_method_defects(candidate))


def optional_powers(engine: object) -> tuple[str, ...]:
    """Return the optional powers that an engine has, in the order of the contract."""
    return tuple(name for name in POWERS if _is_there(_read(engine, name)[0]))


def guarantee(engine: object) -> Guarantee:
    """Return how often an accepted turn reaches the engine."""
    return "exactly once" if "commit_turn" in optional_powers(engine) else "at least once"


def delivery_promise(engine: object) -> str:
    """Return the guarantee as a sentence for people."""
    if guarantee(engine) == "exactly once":
        return "every accepted turn advances it exactly once, in order"
    return (
        "every accepted turn reaches it at least once; after a crash one may come again, "
        "under the same entry ids"
    )


def usable_tools(
    tools: Iterable[Any], taken: Collection[str]
) -> tuple[tuple[Tool, ...], list[str]]:
    """Return the tools that can be offered beside those whose names are `taken`, and problems."""
    usable: dict[str, Tool] = {}
    problems: list[str] = []
    for tool in tools:
        try:
            name = _tool_name(tool)
        except Exception as error:  # noqa: BLE001 - an engine's code may raise anything
            problems.append(f"a {type(tool).__name__} is no tool: {describe_error(error)}")
            continue
        if name in taken or name in usable:
            problems.append(f"the name {name!r} is taken")
        else:
            usable[name] = tool
    return tuple(usable.values()), [one_line(problem) for problem in problems]


def _tool_name(tool: Any) -> str:
    """Return the name of a tool that can be offered. Raises where it cannot."""
    spec = tool.spec
    if not isinstance(spec, Struct) or not callable(tool.run):
        raise TypeError("it has no spec, or nothing to run")
    msgspec.json.decode(msgspec.json.encode(spec))
    name = spec_name(spec)  # type: ignore[arg-type]
    if not isinstance(name, str) or not re.fullmatch(_TOOL_NAME, name):
        raise ValueError("a name has letters, digits, '_' and '-', and at most 64 of them")
    return name


def _is_there(attribute: object) -> bool:
    """Whether there is such a power; a class takes an inherited one back by setting it to None."""
    return attribute is not _ABSENT and attribute is not None


def _read(candidate: object, name: str) -> tuple[Any, str | None]:
    """Return an attribute, `_ABSENT` where there is none, and why it could not be read."""
    try:
        return getattr(candidate, name, _ABSENT), None
    except Exception as error:  # noqa: BLE001 - a property can raise anything
        return _ABSENT, f"reading {name!r} raises {describe_error(error)}"


def _method_defects(candidate: object) -> Iterator[str]:
    for name in _REQUIRED:
        method, unreadable = _read(candidate, name)
        if unreadable:
            yield unreadable
        elif not _is_there(method):
            yield f"{name!r} is missing"
        else:
            yield from _call_defects(name, method, given=1, awaits=True)
    for name in POWERS:
        method, unreadable = _read(candidate, name)
        if unreadable:
            yield unreadable
        elif _is_there(method):
            yield from _call_defects(
                name, method, given=1 if name in _WITH_PARAMS else 0, awaits=name != "tools"
            )


def _call_defects(name: str, method: object, *, given: int, awaits: bool) -> Iterator[str]:
    if not callable(method):
        yield f"{name!r} is no method but {_kind(method)}"
        return
    if _is_async(method) != awaits:
        yield f"{name!r} must {'' if awaits else 'not '}be an `async def`"
    if not _takes(method, given):
        wanted = "one positional argument" if given else "no arguments"
        yield f"{name!r} must be callable with {wanted}"


def _is_async(method: Any) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(type(method).__call__)


def _takes(method: Any, given: int) -> bool:
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return True  # it does not say, so only a call could tell
    try:
        signature.bind(*[None] * given)
    except TypeError:
        return False
    return True


def _info_defects(candidate: object) -> Iterator[str]:
    info, unreadable = _read(candidate, "info")
    if unreadable:
        yield unreadable
    elif info is _ABSENT:
        yield "'info' is missing"
    elif not isinstance(info, EngineInfo):
        yield f"'info' is no EngineInfo but {_kind(info)}"
    else:
        # A struct does not check what it is made of, so nothing is known of its fields.
        yield from _identity_defects(info)
        yield from _host_defects(info)
        yield from _transcript_defects(info.transcript, candidate)
        yield from _passive_defects(info, candidate)


def _identity_defects(info: Any) -> Iterator[str]:
    for name, value in (("id", info.id), ("name", info.name)):
        if not isinstance(value, str):
            yield f"info.{name} is no string but {_kind(value)}"
        elif not value.strip():
            yield f"info.{name} is blank"
    if not isinstance(info.version, str):
        yield f"info.version is no string but {_kind(info.version)}"
    if not isinstance(info.owns_compaction, bool):
        yield f"info.owns_compaction is neither true nor false but {_kind(info.owns_compaction)}"
    if not isinstance(info.passive, bool):
        yield f"info.passive is neither true nor false but {_kind(info.passive)}"
    if info.turn_maintenance_mode not in _MODES:
        yield _unknown("info.turn_maintenance_mode", info.turn_maintenance_mode, _MODES)


def _host_defects(info: Any) -> Iterator[str]:
    if info.accepted_host_params is not None:
        yield from _name_defects(
            "info.accepted_host_params", info.accepted_host_params, HOST_PARAMS
        )
    if not isinstance(info.host_requirements, Mapping):
        yield f"info.host_requirements is no mapping but {_kind(info.host_requirements)}"
        return
    for operation, requirement in info.host_requirements.items():
        if operation not in _OPERATIONS:
            yield _unknown("info.host_requirements", operation, _OPERATIONS)
        place = f"info.host_requirements[{_describe(operation)}]"
        yield from _requirement_defects(place, requirement)


def _requirement_defects(place: str, requirement: Any) -> Iterator[str]:
    if not isinstance(requirement, Requirement):
        yield f"{place} is no Requirement but {_kind(requirement)}"
        return
    yield from _name_defects(f"{place}.capabilities", requirement.capabilities, CAPABILITIES)
    message: object = requirement.message
    if not isinstance(message, str):
        yield f"{place}.message is no string but {_kind(message)}"


def _transcript_defects(transcript: Any, candidate: object) -> Iterator[str]:
    if not isinstance(transcript, TranscriptPromise):
        yield f"info.transcript is no Transcript but {_kind(transcript)}"
        return
    fence, advancement = transcript.current_turn_fence, transcript.turn_advancement
    if fence not in (None, *_FENCES):
        yield _unknown("info.transcript.current_turn_fence", fence, _FENCES)
    if advancement not in (None, *_ADVANCEMENTS):
        yield _unknown("info.transcript.turn_advancement", advancement, _ADVANCEMENTS)
    elif advancement is not None and "commit_turn" not in optional_powers(candidate):
        yield "info.transcript.turn_advancement is declared, but there is no 'commit_turn'"


def _passive_defects(info: Any, candidate: object) -> Iterator[str]:
    if info.passive is True:
        powers = [name for name in optional_powers(candidate) if name in _WITH_PARAMS]
        if info.owns_compaction is True:
            yield "info.passive is declared, but so is info.owns_compaction"
        for name in powers:
            yield f"info.passive is declared, but there is {name!r}, which would never be called"


def _name_defects(place: str, names: object, known: frozenset[Any]) -> Iterator[str]:
    """Return what is wrong with a list of names of a closed set."""
    if not isinstance(names, tuple | list | set | frozenset):
        yield f"{place} is no tuple but {_kind(names)}"
        return
    for name in names:
        if not isinstance(name, str) or name not in known:
            yield _unknown(place, name, known)


def _unknown(place: str, value: object, known: Any) -> str:
    return f"{place} has {_describe(value)}, which is none of {', '.join(sorted(known))}"


def _describe(value: object) -> str:
    return repr(value) if isinstance(value, str) else _kind(value)


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__!r}"
