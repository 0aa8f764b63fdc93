"""Arguments: what a client may say when it calls a tool.

Owns each tool's arguments as a struct, and how they are read. Invariant: an argument that no
tool knows is refused with its name, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from ..core.errors import InvalidOption
from ..core.typed import convert
from ..sandbox.approvals import ApprovalPolicy
from ..store.contract import SearchMode

__all__ = [
    "ExpandArguments",
    "ReplyArguments",
    "RunArguments",
    "SandboxName",
    "SearchArguments",
    "ShowArguments",
    "ThreadsArguments",
    "TurnArguments",
    "read_arguments",
    "schema_of",
]

SandboxName: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]

T = TypeVar("T", bound=Struct)


class _Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one tool."""


class TurnArguments(_Arguments, frozen=True, kw_only=True):
    """What `run` and `reply` have in common."""

    prompt: Annotated[str, Meta(min_length=1, description="What the agent is to do.")]
    model: Annotated[
        str | None, Meta(description="The model, such as openai:gpt-5.5; left out: the usual one.")
    ] = None
    sandbox: Annotated[
        SandboxName | None,
        Meta(description="What commands may do; never more than the server was started with."),
    ] = None
    approval: Annotated[
        ApprovalPolicy | None,
        Meta(description="When the user is asked; never less than the server was started with."),
    ] = None


class RunArguments(TurnArguments, frozen=True, kw_only=True):
    """A turn of a new thread."""

    cwd: Annotated[
        str | None,
        Meta(description="The absolute path of the directory to work in; left out: the server's."),
    ] = None
    title: Annotated[str, Meta(description="A title for the thread.")] = ""


class ReplyArguments(TurnArguments, frozen=True, kw_only=True):
    """A turn of a thread that there is."""

    thread: Annotated[str, Meta(min_length=1, description="The id of the thread, thr_….")]


class ThreadsArguments(_Arguments, frozen=True, kw_only=True):
    """Which threads to list."""

    limit: Annotated[int, Meta(ge=1, le=200, description="At most this many.")] = 20


class ShowArguments(_Arguments, frozen=True, kw_only=True):
    """Which thread to read, and how much of it."""

    thread: Annotated[str, Meta(min_length=1, description="The id of the thread, or its title.")]
    limit: Annotated[int, Meta(ge=1, le=500, description="Only the newest N entries.")] = 50


class SearchArguments(_Arguments, frozen=True, kw_only=True):
    """What to search for in all threads."""

    query: Annotated[
        str,
        Meta(min_length=1, max_length=10_000, description="Words; entries with more come first."),
    ]
    threads: Annotated[
        tuple[str, ...], Meta(description="Only these threads, by id or title.")
    ] = ()
    roles: Annotated[
        tuple[str, ...], Meta(description="Only entries of these roles: user, assistant, tool …")
    ] = ()
    tools: Annotated[
        tuple[str, ...], Meta(description="Only calls of these tools and their outputs.")
    ] = ()
    since: Annotated[
        str | None, Meta(description="Only entries since this time: 2026-11-15T09:30 (UTC).")
    ] = None
    until: Annotated[str | None, Meta(description="Only entries until this time.")] = None
    mode: Annotated[
        SearchMode, Meta(description="How to read the query; with the last two, newest first.")
    ] = "words"
    limit: Annotated[int, Meta(ge=1, le=100, description="At most this many results.")] = 10


class ExpandArguments(_Arguments, frozen=True, kw_only=True):
    """Which entries to read whole."""

    ids: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            max_length=100,
            description="Ids that recall_search gave (thr_…:12), ranges (thr_…:12-40), summaries.",
        ),
    ]
    tokens: Annotated[
        int, Meta(ge=1, le=100_000, description="At most about this many tokens.")
    ] = 4_000


def read_arguments(given: Mapping[str, Any] | None, kind: type[T]) -> T:
    """Return the arguments of a call. Raises `InvalidOption`, which names what is wrong."""
    try:
        return convert(dict(given or {}), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidOption(
            f"the arguments cannot be used: {error}; the tool's input schema has the right ones"
        ) from None


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of a struct, an object at its top."""
    _, definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    top = definitions.pop(kind.__name__)
    return {**_plain(top), **({"$defs": _plain(definitions)} if definitions else {})}


def _plain(node: Any) -> Any:
    """Return a schema without titles, which only repeat names."""
    if isinstance(node, list | tuple):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _plain(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
