"""Programs that make and end containers: run to their end, and heard.

Owns how a program such as ``docker`` is found and called. Invariants: none is taken from below
the working directory, where a command could have put it; a failure is told with what the program
said, and never with more than a line of it.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec

from ..core.redact import one_line
from ..core.search_path import explain_missing, find_program

__all__ = ["ProgramFailed", "command_here", "run_program"]


class ProgramFailed(OSError):
    """A program did not do what it was asked for; `said` is what it complained about."""

    def __init__(self, argv: tuple[str, ...], code: int, said: str) -> None:
        self.said = said
        super().__init__(f"`{argv[0]} {argv[1]}` failed: {said or f'exit code {code}'}")


async def command_here(*argv: str) -> tuple[str, ...]:
    """Return a command with the path of its program on this machine. Raises `OSError`."""
    if "/" in argv[0]:
        return argv
    program = await asyncio.to_thread(find_program, argv[0])
    if program is None:
        raise OSError(explain_missing(argv[0], f"{argv[0]!r}"))
    return (str(program), *argv[1:])


async def run_program(*argv: str, data: bytes = b"", seconds: float = 120.0) -> bytes:
    """Run a program to its end with `data` as its input; return its output.

    Raises `ProgramFailed`, and `OSError` where there is no such program.
    """
    command = await command_here(*argv)
    program = await create_subprocess_exec(
        *command, stdin=PIPE if data else DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
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
