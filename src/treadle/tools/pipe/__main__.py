"""`python -m treadle.tools.pipe`: the server, on standard input and output."""

from __future__ import annotations

import asyncio
import os

from ...core.home import home
from ..local import LocalExecutor
from ..local.streams import Stream
from .pipe_server import serve
from .protocol import MessagePipe

__all__ = ["main"]


async def _serve() -> None:
    # Nothing but messages may go to standard output, whatever prints by accident.
    reader, writer = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    pipe = MessagePipe(Stream(reader), Stream(writer))
    await serve(pipe, LocalExecutor(home=home()))


def main() -> None:
    """Serve until standard input ends."""
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
