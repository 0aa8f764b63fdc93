"""Followed threads: telemetry for the threads that the command line opens.

Invariant: where it is off, nothing of it is loaded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..core.errors import ConfigError
from ..core.install import install_command

if TYPE_CHECKING:
    from ..config import Settings
    from ..thread.thread import Thread

__all__ = ["follow_thread"]


@asynccontextmanager
async def follow_thread(thread: Thread, settings: Settings) -> AsyncIterator[None]:
    """Send the turns of a thread to a collector, if the settings want it."""
    if not settings.otel.enabled:
        yield
        return
    try:
        from ..otel.collector_export import open_telemetry
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"otel.enabled needs the package {error.name!r}; {install_command('otel')} adds it"
        ) from None
    with open_telemetry(settings.otel) as telemetry:
        async with telemetry.follow(thread):
            yield
