"""A scripted app-server: it speaks Codex's protocol, and misbehaves when the script says so.

For states that the real one cannot be brought into: it dies at a given moment, stays
silent, is overloaded, sends garbage, lacks a method, has any version. `scripted_command`
returns the command that starts it instead of `codex app-server`; `received_messages`
returns what it was sent.
"""

from __future__ import annotations

from .app_script import (
    AppFault,
    AppScript,
    AppStep,
    TurnScript,
    received_messages,
    scripted_command,
)

__all__ = [
    "AppFault",
    "AppScript",
    "AppStep",
    "TurnScript",
    "received_messages",
    "scripted_command",
]
