"""Lifelines: a command runs only if its Treadle is alive when all are tied to it.

The tools that end a command with its parent ask the kernel for it only after they have
started, so a parent that died before that is never noticed. Owns a pipe that nobody but
this process can read, and the words of a shell that write to it from within, when
the last tie is made. Invariant: the command itself holds no end of the pipe.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

__all__ = ["Lifeline", "lifeline", "moved_up"]

_LOWEST = 10
# The shell stays to collect the dead, and does not say how they died.
_KNOCK = 'echo >&9 && exec 9>&- 8>&2 2>/dev/null && (exec "$@" 2>&8 8>&-); exit $?'


class Lifeline(NamedTuple):
    """The end of a pipe that a sandbox inherits, but not the command in it."""

    descriptor: int

    @property
    def take(self) -> str:
        """A step outside the sandbox that makes the pipe ready for `knock`."""
        # Some shells know descriptors of one digit only. Opening such a pipe never waits.
        return f"exec 9>/proc/self/fd/{self.descriptor}"

    @property
    def hide(self) -> tuple[str, ...]:
        """Keeps bubblewrap from handing the pipe on under its own number."""
        # It would read there until it may go on; nothing can be read, so it only closes it.
        return ("--block-fd", str(self.descriptor))

    @property
    def knock(self) -> tuple[str, ...]:
        """Goes before the command, as the first process of its namespace.

        Being that very process, it comes after every tie, not only probably.
        """
        return ("/bin/sh", "-c", _KNOCK, "sh")


@contextmanager
def lifeline() -> Iterator[Lifeline]:
    """A lifeline that holds until the end of the block, or of this process."""
    with ExitStack() as stack:
        ours, theirs = os.pipe()
        stack.callback(os.close, ours)
        theirs = moved_up(theirs)
        stack.callback(os.close, theirs)
        yield Lifeline(theirs)


def moved_up(descriptor: int) -> int:
    """`descriptor` under a number that no shell step uses; the old one is closed."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST)
    finally:
        os.close(descriptor)
