"""The client of the SDK, as a connection uses it.

Owns everything that a connection needs of the SDK, which takes a second to load. Invariant: it is
imported by a connection that is being made, in a thread, and by nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING

from mcp.client.subscriptions import ListenNotSupportedError
from mcp_types import Implementation

from mcp import Client

from ..core.redact import one_line
from .tasks import TasksExtension
from .transports import open_transport

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ElicitationFnT

__all__ = ["listen_for_changes", "make_client", "open_transport"]

_PAUSE = 1.0
"""Seconds before a stream of changes that broke is asked for again."""
_log = logging.getLogger(__name__)


def make_client(
    transport: AbstractAsyncContextManager[TransportStreams],
    *,
    legacy: bool,
    elicit: ElicitationFnT,
    changed: asyncio.Event,
) -> Client:
    """Return a client over `transport`, which sets `changed` when the list of tools changes."""
    _keep_from_terminal()

    async def hear(message: object) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            changed.set()

    return Client(
        transport,
        mode="legacy" if legacy else "auto",
        message_handler=hear,
        elicitation_callback=elicit,
        client_info=Implementation(name="treadle", version=import_module("treadle").__version__),
        extensions=(TasksExtension(),),
        cache=None,
    )


def _keep_from_terminal() -> None:
    """Keep what the SDK logs of an odd server from being printed where a host logs nothing.

    What of it matters is told by the call that fails.
    """
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


async def listen_for_changes(client: Client, changed: asyncio.Event) -> None:
    """Hear of changes from a server without a handshake, which tells only who subscribes."""
    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    for _ in range(3):
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _event in events:
                    changed.set()
        except ListenNotSupportedError:
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a hint is lost, nothing else
            _log.debug("changes are not told: %s", one_line(str(error)))
        await asyncio.sleep(_PAUSE)
