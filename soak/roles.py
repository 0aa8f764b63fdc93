"""Roles: who takes part in a soak, and what may happen to each.

Owns the values that the conductor hands to workers. Invariant: everything that a worker
does follows from its role, its seed and what the conductor tells it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["ROLES", "SHORT", "Blow", "Life", "Role", "Stint"]

Blow: TypeAlias = Literal[
    "kill", "kill the app-server", "interrupt", "hang up", "fill the disk", "forbid", "jump"
]


class Role(Struct, frozen=True, kw_only=True):
    """A sort of worker: what it runs, and how often it is struck."""

    name: str
    harness: Literal["treadle", "codex"] = "treadle"
    home: str = "common"
    """Workers of one home write one log."""
    slots: int = 4
    """Threads that run at once."""
    blows: dict[Blow, float] = {}
    """What happens to it, and about how many seconds pass in between."""
    stranger: bool = False
    """Runs as a user that is not root, so that permissions hold for it."""
    terminal: bool = False
    """Runs commands in terminals in place of threads of its own."""
    steady: bool = False
    """Never struck; its memory is measured."""
    reckless: bool = False
    """Says much at a time, and kills itself where that hurts most: with a call open while its
    view is nearly full, or right after a turn was admitted."""


class Life(Struct, frozen=True, kw_only=True):
    """A thread that a worker goes on with."""

    thread: str
    engine: Literal["linear", "lossless"]
    harness: Literal["treadle", "codex"]
    model: str
    turns: int = 0
    asked: tuple[str, str] | None = None
    """The id and the text of a turn whose end nobody heard."""


class Stint(Struct, frozen=True, kw_only=True):
    """What a worker is told when it starts."""

    role: Role
    seed: str
    home: str
    project: str
    base_url: str
    keys: dict[str, str]
    lives: dict[int, Life] = {}
    """By their slots."""
    settle: bool = False
    """Only open each life, run one turn, and end."""


ROLES: tuple[Role, ...] = (
    Role(name="steady", steady=True, slots=4),
    Role(name="loop", slots=6, blows={"kill": 11, "interrupt": 19, "hang up": 23}),
    Role(name="codex", harness="codex", slots=4, blows={"kill": 23, "kill the app-server": 9}),
    Role(name="terminal", terminal=True, slots=2, blows={"kill": 41}),
    Role(name="full", home="full", slots=3, blows={"fill the disk": 9, "kill": 29}),
    Role(
        name="full-codex",
        harness="codex",
        home="full-codex",
        slots=2,
        blows={"fill the disk": 13, "kill the app-server": 31},
    ),
    Role(name="forbidden", home="forbidden", stranger=True, blows={"forbid": 9, "kill": 31}),
    Role(name="clock", home="clock", slots=3, blows={"jump": 4, "kill": 23}),
    Role(name="reckless", home="reckless", slots=3, reckless=True),
)
"""The cast of a whole soak."""

SHORT: tuple[Role, ...] = (
    Role(name="steady", steady=True, slots=2),
    Role(name="loop", slots=4, blows={"kill": 4, "interrupt": 9, "hang up": 9}),
    Role(name="codex", harness="codex", slots=2, blows={"kill": 11, "kill the app-server": 5}),
    Role(name="full", home="full", slots=2, blows={"fill the disk": 5}),
    Role(name="forbidden", home="forbidden", stranger=True, slots=2, blows={"forbid": 5}),
    Role(name="clock", home="clock", slots=2, blows={"jump": 2}),
    Role(name="reckless", home="reckless", slots=2, reckless=True),
)
"""The cast of a soak of a few seconds."""
