"""A Treadle process with an app-server in the middle of a turn, waiting to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from treadle.harness.codex.app_server import AppServer
from treadle.harness.codex.protocol.client_requests import StartThread, StartTurn, TextInput
from treadle.harness.codex.protocol.notifications import ItemStartedNotification
from treadle.harness.codex.protocol.server_requests import ClientReply, ServerRequest
from treadle.harness.codex.protocol.types import CommandItem, parse_item
from treadle.harness.codex.server_access import ProviderRoute

from .real_servers import real_command


async def nobody(ask: ServerRequest) -> ClientReply:
    raise AssertionError(f"nothing should be asked, but was: {ask.method}")


async def main(directory: Path, base_url: str) -> None:
    route = ProviderRoute(provider="fake", base_url=base_url)
    server = AppServer(real_command(directory, route))
    connection = await server.connection()
    start = StartThread(
        cwd=str(directory), model="any", sandbox="danger-full-access", config=route.config()
    )
    opened, events = await connection.open_thread(start, nobody)
    await connection.call(StartTurn(thread_id=opened.thread.id, input=(TextInput(text="hi"),)))
    async for event in events:
        if isinstance(event, ItemStartedNotification) and isinstance(
            parse_item(event.item), CommandItem
        ):
            print(server.pid, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
