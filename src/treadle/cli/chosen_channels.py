"""Configured channels: where the replies of a thread go besides the screen.

Owns the way from ``[channels.NAME]`` to a channel. Invariants: only the channel that was
chosen is opened, and its secret is known to the redactor before anything could tell it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

from ..config import Settings
from ..config.settings import ChannelSettings
from ..config.validation import suggestion
from ..core.errors import ConfigError
from ..core.redact import add_secrets
from ..models.transport import AsyncTransport

if TYPE_CHECKING:
    from ..delivery.channel import Channel

__all__ = ["chosen_channel", "chosen_channels"]


def chosen_channel(settings: Settings) -> tuple[str, ChannelSettings] | None:
    """Return the chosen channel by its name. Raises `ConfigError` when there is none."""
    name = settings.channel
    if name is None:
        return None
    found = settings.channels.get(name)
    if found is None:
        known = ", ".join(sorted(settings.channels)) or "none"
        raise ConfigError(
            f"there is no channel {name!r}{suggestion(name, settings.channels)} "
            f"(configured: {known}); add [channels.{name}]"
        )
    return name, found


@asynccontextmanager
async def chosen_channels(
    settings: Settings, environ: Mapping[str, str], terminal: TextIO | None
) -> AsyncIterator[dict[str, Channel]]:
    """Open the chosen channel and yield it by its name; yield nothing when none was chosen.

    A terminal is written to `terminal`; without one it is left out, for whoever runs the
    turn shows the reply anyway.
    """
    chosen = chosen_channel(settings)
    if chosen is None:
        yield {}
        return
    name, channel = chosen
    if channel.kind == "terminal":
        yield _terminal(name, terminal)
        return
    from ..delivery.channels.webhook import WebhookChannel

    url, secret = _address(name, channel), _secret(name, channel, environ)
    transport = AsyncTransport.from_environment(environ)
    try:
        yield {name: WebhookChannel(url, secret, transport, private=channel.private)}
    finally:
        await transport.close()


def _terminal(name: str, stream: TextIO | None) -> dict[str, Channel]:
    from ..delivery.channels.terminal import TerminalChannel

    return {} if stream is None else {name: TerminalChannel(stream)}


def _address(name: str, channel: ChannelSettings) -> str:
    if channel.url is None:
        raise ConfigError(f"the webhook channels.{name} has no `url`; add it")
    return channel.url


def _secret(name: str, channel: ChannelSettings, environ: Mapping[str, str]) -> str:
    """Return the secret that signs requests; it comes from a variable, never from a file."""
    variable = channel.secret_variable
    if variable is None:
        raise ConfigError(
            f"the webhook channels.{name} has no `secret_variable`; "
            "name the variable with the secret that signs its requests"
        )
    secret = environ.get(variable, "").strip()
    if not secret:
        raise ConfigError(f"the variable {variable!r} of channels.{name} is empty; set it")
    add_secrets(secret)
    return secret
