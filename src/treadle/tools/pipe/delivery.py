"""Delivery: how the far end gets to where a command leads, and starts there.

Owns the little program that a shell there is given: it finds a Python that is new enough,
reads the archive from its standard input, checks its digest and runs it from memory. Invariant:
it leaves no file behind, and what follows the archive on the input is for the far end.
"""

from __future__ import annotations

import base64
import shlex
import zlib

from .archive import archive_digest, far_archive

__all__ = ["far_command", "shell_line"]

_FIND = """\
for p in python3 python3.14 python3.13 python3.12 python3.11; do
command -v "$p" >/dev/null 2>&1 && exec "$p" -Ic "$0" "$0"; done
echo 'there is no Python 3.11 or newer here; install one, or use an image that has it' >&2
exit 127"""
"""Runs the first Python that is found; one that is too old looks for another."""

_LOAD = """\
import os, sys
if sys.version_info < (3, 11):
    for minor in (14, 13, 12, 11):
        name = 'python3.%d' % minor
        try:
            os.execvp(name, [name, '-Ic', sys.argv[1], sys.argv[1]])
        except OSError:
            pass
    sys.exit('there is no Python 3.11 or newer here, only %d.%d; install one, or use an image '
             'that has it' % sys.version_info[:2])
import hashlib, runpy
left, parts = {size}, []
while left:
    part = os.read(0, min(left, 65536))
    if not part:
        sys.exit('the input ended before the far end had arrived')
    parts.append(part)
    left -= len(part)
data = b''.join(parts)
if hashlib.sha256(data).hexdigest() != {digest!r}:
    sys.exit('the far end arrived damaged: something on the way changes bytes')
file = os.memfd_create('treadle-far-end')
os.write(file, data)
sys.argv, sys.dont_write_bytecode = ['treadle-far-end'], True
runpy.run_path('/proc/self/fd/%d' % file, run_name='__main__')
"""
"""Reads the archive and runs it; the descriptor stays open, and so does the file."""


def far_command() -> tuple[str, ...]:
    """Return the command that runs the far end, once the archive is written to its input."""
    program = _LOAD.format(size=len(far_archive()), digest=archive_digest())
    # In one line of plain letters: it passes through shells that we do not know.
    packed = base64.b64encode(zlib.compress(program.encode(), 9)).decode()
    loader = f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
    return ("sh", "-c", _FIND, loader)


def shell_line(command: tuple[str, ...]) -> str:
    """Return a command as one line for a POSIX shell, as ssh wants it."""
    return shlex.join(command)
