"""Run a scripted app-server: ``python -m treadle.testing.appserver --script FILE``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from .app_script import AppScript, load_script
from .scripted_server import ScriptedServer

_LONGEST_LINE = 1 << 30


def main() -> None:
    """Serve standard input and output until the input ends."""
    parser = argparse.ArgumentParser(prog="treadle.testing.appserver", allow_abbrev=False)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--record", type=Path, default=Path(os.devnull))
    parser.add_argument("--version", action="store_true")
    arguments, _ = parser.parse_known_args()
    script = AppScript() if arguments.script is None else load_script(arguments.script)
    if arguments.version:
        sys.stdout.write(f"codex-cli {script.version}\n")
        return
    if script.stderr:
        sys.stderr.write(f"{script.stderr}\n")
        sys.stderr.flush()
    state = Path(os.environ.get("CODEX_HOME", "."))
    asyncio.run(_serve(ScriptedServer(script, arguments.record, state)))


async def _serve(server: ScriptedServer) -> None:
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        await server.handle_line(line.rstrip(b"\n"))


if __name__ == "__main__":
    main()
