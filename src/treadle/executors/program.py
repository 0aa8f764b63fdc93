"""Programs that make and end containers: run to their end, and heard.

Owns how a program such as ``docker`` is called. Invariant: a failure is told with what the
program said, and never with more than a line of it.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec

from ..core.redact import one_line

__all__ = ["ProgramFailed", "run_program"]


class ProgramFailed(OSError):
    """A program did not do what it was asked for; `said` is what it complained about."""

    def __init__(self, argv: tuple[str, ...], code: int, said: str) -> None:
        self.said = said
        super().__init__(f"`{argv[0]} {argv[1]}` failed: {said or f'exit code {code}'}")


async def run_program(*argv: str, data: bytes = b"", seconds: float = 120.0) -> bytes:
    """Run a program to its end with `data` as its input; return its output.

    Raises `ProgramFailed`, and `OSError` where there is no such program.
    """
    try:
        program = await create_subprocess_exec(
            *argv, stdin=PIPE if data else DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except FileNotFoundError as error:
        raise OSError(f"there is no program {argv[0]!r} on the search path; install it") from error
    try:
        async with asyncio.timeout(seconds):
            out, complaints = await program.communicate(data or None)
    except TimeoutError as error:
        raise OSError(f"`{argv[0]} {argv[1]}` did not end in {seconds:.0f} seconds") from error
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    if program.returncode:
        said = one_line(complaints.decode(errors="replace").strip())
        raise ProgramFailed(argv, program.returncode, said)
    return out
