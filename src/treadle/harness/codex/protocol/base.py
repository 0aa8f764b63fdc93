"""What all messages have in common.

Owns the base struct, the names of the wire (`camelCase`) and the link from a request
to its answer. Invariant: nothing here knows how messages travel.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

__all__ = [
    "ClientRequest",
    "CodexApprovalPolicy",
    "CodexSandboxMode",
    "EmptyResult",
    "RequestId",
    "WireStruct",
]

R = TypeVar("R")

RequestId: TypeAlias = int | str
"""Ours and the server's live in spaces of their own."""

CodexApprovalPolicy: TypeAlias = Literal["untrusted", "on-request", "never"]
CodexSandboxMode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]


class WireStruct(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A value of the wire."""


class EmptyResult(WireStruct, frozen=True):
    """An answer that says no more than that it is one."""


class ClientRequest(WireStruct, Generic[R], frozen=True, kw_only=True):
    """The parameters of a request, which knows its method and what answers it."""

    method: ClassVar[str]
    result_type: ClassVar[type[Any]]
