"""System-call filters: they take away what no mount or namespace can.

Owns a small classic-BPF program, as bytes. Invariant: a call made in another architecture's
numbering never reaches the kernel, so 32-bit code cannot get around the filter.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence

from msgspec import Struct

from ..core.errors import SandboxUnavailable

__all__ = ["socket_filter"]

_LOAD, _EQUAL, _AT_LEAST, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_ALLOW = 0x7FFF0000
_NOT_PERMITTED = 0x00050000 | 1
_NO_SUCH_CALL = 0x00050000 | 38

_FOREIGN_CALLS = 0x40000000
"""Where x86-64 numbers its x32 calls."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _TYPE_BITS = 1, 5, 0xF


class _Machine(Struct, frozen=True):
    """How one architecture numbers the calls that matter here."""

    audit: int
    socket: int
    socketpair: int
    keyrings: tuple[int, ...]
    io_uring: tuple[int, ...] = (425, 426, 427)


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 53, (248, 249, 250)),
    "aarch64": _Machine(0xC00000B7, 198, 199, (217, 218, 219)),
    "riscv64": _Machine(0xC00000F3, 198, 199, (217, 218, 219)),
}

_Step = tuple[int, int, int, int]


def socket_filter(*, network: bool, local_sockets: bool, machine: str | None = None) -> bytes:
    """Return the filter for a command, as the kernel takes it.

    Kernel keyrings are always refused: no namespace separates them. So is io_uring, which
    opens sockets that no filter sees. Without `network`, sockets are IPv4, IPv6 (of a
    loopback of the command's own) and netlink only: unix sockets lead out through the file
    system, and vsock leads out of a virtual machine.
    """
    name = machine or platform.machine()
    calls = _MACHINES.get(name)
    if calls is None:
        raise SandboxUnavailable(
            f"no system-call filter is known for {name!r} machines; use one of "
            f"{', '.join(_MACHINES)}, or run without a sandbox: --sandbox danger-full-access"
        )
    steps = [*_same_machine(calls), *_refuse(calls.keyrings + calls.io_uring)]
    if not network:
        families = (_INET, _INET6, _NETLINK, *((_UNIX,) if local_sockets else ()))
        steps += _only(calls.socket, _FIRST, None, families)
        if not local_sockets:
            # A datagram pair can be pointed at any address; a connected stream cannot.
            steps += _only(calls.socketpair, _SECOND, _TYPE_BITS, (_STREAM, _SEQPACKET))
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _same_machine(calls: _Machine) -> list[_Step]:
    """Return steps that answer calls of other architectures with "no such call".

    They leave the number of the call loaded.
    """
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, calls.audit),
        (_RETURN, 0, 0, _NO_SUCH_CALL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _FOREIGN_CALLS),
        (_RETURN, 0, 0, _NO_SUCH_CALL),
    ]


def _refuse(numbers: Sequence[int]) -> list[_Step]:
    pairs = [[(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOT_PERMITTED)] for number in numbers]
    return [step for pair in pairs for step in pair]


def _only(number: int, argument: int, mask: int | None, accepted: Sequence[int]) -> list[_Step]:
    """Return steps that refuse a call unless its argument is one of `accepted`."""
    body: list[_Step] = [(_LOAD, 0, 0, argument)]
    if mask is not None:
        body.append((_MASK, 0, 0, mask))
    for value in accepted:
        body += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    body.append((_RETURN, 0, 0, _NOT_PERMITTED))
    return [(_EQUAL, 0, len(body), number), *body]
