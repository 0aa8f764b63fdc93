"""System-call filters: they take away what no mount or namespace can.

Owns a small classic-BPF program, as bytes. Invariant: a call made in another architecture's
numbering never reaches the kernel, so 32-bit code cannot get around the filter.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from ..core.errors import SandboxUnavailable

__all__ = ["command_filter"]

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD, _FOURTH = 0, 4, 16, 24, 32, 40
_ALLOW = 0x7FFF0000
_NOT_PERMITTED = 0x00050000 | 1
_NO_SUCH_CALL = 0x00050000 | 38

_FOREIGN_CALLS = 0x40000000
"""Where x86-64 numbers its x32 calls."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _TYPE_BITS = 1, 5, 0xF
_SET_ID = 0o6000
"""The bits of a mode that let a file run as its owner or its group."""
_OPEN_HOW = 437
"""`openat2`: it has its mode in memory, where no filter can look."""
_CHMOD_AT_2 = 452


class _Machine(Struct, frozen=True):
    """How one architecture numbers the calls that matter here."""

    audit: int
    socket: int
    socketpair: int
    keyrings: tuple[int, ...]
    modes: tuple[tuple[int, int], ...]
    """Calls that set the mode of a file, and where in the call it is."""
    openings: tuple[tuple[int, int, int], ...]
    """Calls that may make a file, and where their flags and their mode are."""
    creating: int
    """Flags with which they do: O_CREAT and O_TMPFILE."""
    io_uring: tuple[int, ...] = (425, 426, 427)


def _generic(audit: int) -> _Machine:
    """Return the numbers that newer architectures share."""
    modes = ((52, _SECOND), (53, _THIRD), (_CHMOD_AT_2, _THIRD), (33, _THIRD))
    openings = ((56, _THIRD, _FOURTH),)
    return _Machine(audit, 198, 199, (217, 218, 219), modes, openings, 0o20000100)


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        41,
        53,
        (248, 249, 250),
        (
            *((90, _SECOND), (91, _SECOND), (268, _THIRD), (_CHMOD_AT_2, _THIRD)),
            *((85, _SECOND), (133, _SECOND), (259, _THIRD)),
        ),
        ((2, _SECOND, _THIRD), (257, _THIRD, _FOURTH)),
        0o20000100,
    ),
    "aarch64": _generic(0xC00000B7),
    "riscv64": _generic(0xC00000F3),
}

_Step = tuple[int, int, int, int]


@cache
def command_filter(*, local_sockets: bool, machine: str | None = None) -> bytes:
    """Return the filter for a command, as the kernel takes it.

    Kernel keyrings are always refused: no namespace separates them. So is io_uring, which
    opens sockets that no filter sees, and a mode with which a file runs as its owner or its
    group: mounts keep such a file from working in the sandbox, but it would stay outside.
    Sockets are IPv4, IPv6 and netlink only, with the network on too: unix sockets lead out
    through the file system, to whatever runs commands for its user (a terminal multiplexer,
    an agent of keys, a display), and vsock leads out of a virtual machine.
    """
    name = machine or platform.machine()
    calls = _MACHINES.get(name)
    if calls is None:
        raise SandboxUnavailable(
            f"no system-call filter is known for {name!r} machines; use one of "
            f"{', '.join(_MACHINES)}, or run without a sandbox: --sandbox danger-full-access"
        )
    steps = [*_same_machine(calls), *_refuse(calls.keyrings + calls.io_uring)]
    # Whoever knows this call knows how to do without it, on the kernels that lack it.
    steps += _refuse((_OPEN_HOW,), _NO_SUCH_CALL)
    families = (_INET, _INET6, _NETLINK, *((_UNIX,) if local_sockets else ()))
    steps += _only(calls.socket, _FIRST, None, families)
    if not local_sockets:
        # A datagram pair can be pointed at any address; a connected stream cannot.
        steps += _only(calls.socketpair, _SECOND, _TYPE_BITS, (_STREAM, _SEQPACKET))
    for number, flags, mode in calls.openings:
        steps += _no_set_id(number, mode, only_with=(flags, calls.creating))
    for number, mode in calls.modes:
        steps += _no_set_id(number, mode)
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


def _refuse(numbers: Sequence[int], answer: int = _NOT_PERMITTED) -> list[_Step]:
    pairs = [[(_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer)] for number in numbers]
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


def _no_set_id(number: int, mode: int, *, only_with: tuple[int, int] | None = None) -> list[_Step]:
    """Return steps that refuse a call whose mode has one of the bits.

    With `only_with`, the mode counts only if an argument has one of some flags.
    """
    body: list[_Step] = []
    if only_with is not None:
        argument, flags = only_with
        body += [(_LOAD, 0, 0, argument), (_ANY_BIT, 1, 0, flags), (_RETURN, 0, 0, _ALLOW)]
    body += [
        (_LOAD, 0, 0, mode),
        (_ANY_BIT, 0, 1, _SET_ID),
        (_RETURN, 0, 0, _NOT_PERMITTED),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(body), number), *body]
