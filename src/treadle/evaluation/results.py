"""Results: what is known of an attempt when it is over, as the files of a run keep it.

Owns the values. Invariant: what nobody measured is None, and never 0.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from ..core.money import Bill

__all__ = ["AttemptFigures", "AttemptResult", "AttemptState", "HowItEnded", "Sitting", "Verdict"]

HowItEnded: TypeAlias = Literal["completed", "failed", "limit", "interrupted"]


class Sitting(Struct, frozen=True):
    """A time in which a process worked at an attempt, in milliseconds since 1970."""

    began: int
    ended: int | None = None
    """None where the process died, or still works."""


class AttemptState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far an attempt has come; each change is durable before the next step begins."""

    prepared: bool = False
    """Whether the workspace has all of its files."""
    thread: str = ""
    sittings: tuple[Sitting, ...] = ()


class AttemptFigures(Struct, frozen=True, kw_only=True):
    """What the log and the ledger say of an attempt, its agents' tokens included."""

    requests: int = 0
    sent_bytes: int | None = None
    """None where the harness sends the requests and only it knows."""
    shared_bytes: int | None = None
    """Bytes with which requests began like the one before."""
    breaks: dict[str, int] = {}
    """Requests that changed the prefix, by the reason that the log gives."""
    unexplained: int = 0
    """Requests that changed it without a reason: defects."""
    input_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    cost: Bill = Bill()

    @property
    def broken(self) -> int:
        """Return how many requests changed the prefix."""
        return sum(self.breaks.values()) + self.unexplained

    @property
    def cached_share(self) -> float | None:
        """Return the part of the input that the provider served from its cache."""
        if self.cached_tokens is None or not self.input_tokens:
            return None
        return self.cached_tokens / self.input_tokens


class Verdict(Struct, frozen=True, kw_only=True):
    """What the tests of a task say."""

    reward: float | None = None
    """None where they said nothing that can be read; `error` says why."""
    rewards: dict[str, float] = {}
    """Each of several, where there are several."""
    error: str = ""
    seconds: float = 0.0


class AttemptResult(Struct, frozen=True, kw_only=True):
    """One attempt at one task, over."""

    task: str
    attempt: int
    thread: str
    ended: HowItEnded
    error: str = ""
    """Why it failed, or which limit it reached."""
    solved: bool = False
    """Whether the tests gave the whole reward."""
    reward: float | None = None
    rewards: dict[str, float] = {}
    verifier_error: str = ""
    seconds: float
    """In which processes worked at it; nobody worked between two sittings."""
    verifier_seconds: float
    sittings: int
    """How many processes worked at it: more than one where one was stopped or killed."""
    figures: AttemptFigures
    patch_bytes: int | None = None
    """The size of what it changed, as a patch; None without git."""
