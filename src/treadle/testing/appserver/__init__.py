"""A scripted app-server: speaks Codex's protocol, and misbehaves when told to.

For states the real one cannot be brought into: it dies at a named moment, falls silent,
is overloaded, talks garbage, lacks a method, is of any version. `scripted` says how to
start it in the place of `codex app-server`; `heard` what it was sent.
"""

from __future__ import annotations

from .launch import received_messages, scripted_command
from .script import AppFault, AppScript, AppStep, TurnScript

__all__ = [
    "AppFault",
    "AppScript",
    "AppStep",
    "TurnScript",
    "received_messages",
    "scripted_command",
]
