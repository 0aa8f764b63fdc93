"""`python -m treadle.executors.ssh_client`: an ssh client for machines that have none.

Owns the part of ssh's command line that `SshSource` uses, over asyncssh (the extra
``executors``). Invariants: the user's ssh configuration, keys and known hosts hold as they do
for ssh; a host that is not known is refused, and nothing is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["main"]

_KEEP_ALIVE = 15


def main() -> None:
    """Run a command on a host, with our standard streams."""
    parser = argparse.ArgumentParser(prog="treadle-ssh")
    parser.add_argument("-T", action="store_true")
    parser.add_argument("-F", metavar="CONFIG", default="~/.ssh/config")
    parser.add_argument("-o", metavar="OPTION", action="append", default=[])
    parser.add_argument("host")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    try:
        config = Path(asked.F).expanduser()
        known = [str(config)] if config.exists() else []
        code = asyncio.run(_run(asked.host, " ".join(asked.command), known))
    except OSError as error:
        code = _fail(f"{asked.host}: {error}")
    raise SystemExit(code)


def _fail(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 255


async def _run(host: str, command: str, config: list[str]) -> int:
    try:
        import asyncssh
    except ImportError:
        return _fail("there is no ssh on the search path; install OpenSSH, or asyncssh")
    options: dict[str, Any] = {"config": config}
    user, _, name = host.rpartition("@")
    if user:
        options["username"] = user
    try:
        connection = await asyncssh.connect(name, keepalive_interval=_KEEP_ALIVE, **options)
    except asyncssh.Error as error:
        return _fail(f"{name}: {error.reason}")
    async with connection:
        process = await connection.create_process(
            command,
            stdin=os.dup(0),
            stdout=os.dup(1),
            stderr=os.dup(2),
            encoding=None,
        )
        done = await process.wait()
    return 255 if done.exit_status is None else done.exit_status


if __name__ == "__main__":
    main()
