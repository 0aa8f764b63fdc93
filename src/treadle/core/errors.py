"""Errors.

TreadleError
├── ConfigError            a setting or file of the user's: names it and what is accepted
│   ├── InvalidOption      a value that a caller gave; nothing was written or sent
│   ├── FragmentError      two fragments under one id, or one that cannot be recognised
│   ├── EngineConflict     two owners claim one engine id; `.existing` has it
│   ├── HarnessConflict    two owners claim one harness id; `.existing` has it
│   ├── MissingHarness     an InvalidOption: no harness has that name; `.known` do
│   └── UnsupportedHarness a harness cannot run the requested model
├── NotFound               no such thread, entry, turn or blob
├── StoreError             the log could not be read or made durable: the turn stops here
│   ├── StoreFull          the disk is full
│   ├── StoreReadOnly      the directory or file cannot be written
│   ├── StoreCorrupt       the file is not a sound database
│   ├── StoreReplaced      the file was deleted or replaced while it was open
│   ├── StoreTooNew        a newer Treadle wrote it
│   ├── StoreBusy          another process kept the database locked for too long
│   ├── StoreUnreachable   the server of the database does not answer, or refuses us
│   ├── OutcomeUnknown     the server was lost after it was told to commit; it may have
│   └── StoreClosed        used after `close`
├── ThreadBusy             someone else is writing this thread; `.holder` says who
├── LeaseLost              this writer was replaced by a newer one
├── TurnConflict           one turn id, two different inputs
├── IllegalCut             a rollback, fork or recipe that would split what belongs together
├── CannotCompact          compacting would not make the view smaller
├── TooLong                a request for a summary does not fit the window
├── CompletionFailed       a model did not answer an engine; `.kind` says why
├── HookFailed             a hook hung, crashed or gave an invalid answer
├── EngineFailed           a context engine did the same; `.operation` says where; the turn goes on
├── StaleEpoch             a recipe was planned for a view that has moved on
├── SearchRefused          a regular expression that cannot be searched for
├── SandboxUnavailable     commands cannot be confined here, so none is run
├── ExecutorUnavailable    what commands should run in cannot be reached or made
├── NothingToSend          a thread without input has no request
└── TurnLeft               a turn was handed back, open, for another process to go on with

Every message names the cause and the next action. Failures of models and tools
are items in the log, not exceptions.
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "CannotCompact",
    "CompletionFailed",
    "ConfigError",
    "EngineConflict",
    "EngineFailed",
    "ExecutorUnavailable",
    "FragmentError",
    "HarnessConflict",
    "HookFailed",
    "IllegalCut",
    "InvalidOption",
    "LeaseLost",
    "MissingHarness",
    "NotFound",
    "NothingToSend",
    "OutcomeUnknown",
    "SandboxUnavailable",
    "SearchRefused",
    "StaleEpoch",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreReplaced",
    "StoreTooNew",
    "StoreUnreachable",
    "ThreadBusy",
    "TooLong",
    "TreadleError",
    "TurnConflict",
    "TurnLeft",
    "UnsupportedHarness",
    "WorktreeRefused",
]


class TreadleError(Exception):
    """The base class of all errors of Treadle."""


class ConfigError(TreadleError):
    """A setting or a file of the user is not valid."""


class InvalidOption(ConfigError):
    """A value that a caller gave cannot be used; nothing was written or sent."""


class FragmentError(ConfigError):
    """A fragment type cannot be registered."""


class EngineConflict(ConfigError):
    """An engine id belongs to someone else; the first owner keeps it."""

    def __init__(self, engine: str, existing: str, claimant: str) -> None:
        self.engine, self.existing, self.claimant = engine, existing, claimant
        super().__init__(_conflict(f"context engine {engine!r}", existing, claimant))


class HarnessConflict(ConfigError):
    """A harness id belongs to someone else; the first owner keeps it."""

    def __init__(self, harness: str, existing: str, claimant: str) -> None:
        self.harness, self.existing, self.claimant = harness, existing, claimant
        super().__init__(_conflict(f"harness {harness!r}", existing, claimant))


def _conflict(what: str, existing: str, claimant: str) -> str:
    if existing == claimant:
        return f"{existing!r} has registered {what} before; pass refresh=True to replace it"
    return (
        f"{what} belongs to {existing!r}, so {claimant!r} cannot register it; "
        "choose another id, or remove one of the two"
    )


class MissingHarness(InvalidOption):
    """No harness has the requested name, or it cannot be loaded."""

    def __init__(self, harness: str, known: tuple[str, ...], why: str = "") -> None:
        self.harness, self.known = harness, known
        cause = f"harness {harness!r} cannot be used: {why}" if why else f"no harness {harness!r}"
        super().__init__(f"{cause}; there are {', '.join(map(repr, known))}, and 'auto' chooses")


class UnsupportedHarness(ConfigError):
    """A harness cannot run the requested model."""

    def __init__(self, harness: str, model: str, reason: str) -> None:
        self.harness, self.model, self.reason = harness, model, reason
        super().__init__(
            f"harness {harness!r} cannot run {model!r}: {reason or 'it says so'}; "
            "choose another harness or model"
        )


class NotFound(TreadleError):
    """Nothing is stored under that name."""

    def __init__(self, what: str, name: object, hint: str = "") -> None:
        self.what, self.name = what, name
        super().__init__(f"no {what} {name!r}" + (f"; {hint}" if hint else ""))


class StoreError(TreadleError):
    """The log could not be read or made durable."""


class StoreFull(StoreError):
    """The disk is full; nothing was written."""


class StoreReadOnly(StoreError):
    """The store's directory or file cannot be written."""


class StoreCorrupt(StoreError):
    """The file is damaged, or it is no database."""


class StoreReplaced(StoreError):
    """The file was deleted or replaced while it was open."""


class StoreTooNew(StoreError):
    """A newer version of Treadle wrote this store."""


class StoreBusy(StoreError):
    """Another process kept the database locked for too long."""


class StoreUnreachable(StoreError):
    """The server of the database does not answer, or refuses the connection."""


class OutcomeUnknown(StoreError):
    """The server was lost after it was told to commit, and nobody could be asked since.

    The one error after which the change may be there: whole, or not at all. The lease is
    given up; open the thread again and read.
    """


class StoreClosed(StoreError):
    """The store was used after `close`."""


class ThreadBusy(TreadleError):
    """Another process or task has the thread's lease."""

    def __init__(self, thread: str, holder: str) -> None:
        self.thread, self.holder = thread, holder
        super().__init__(
            f"thread {thread!r} is being written by {holder}; "
            "wait for it to finish, or send it a message through its inbox"
        )


class LeaseLost(TreadleError):
    """A newer writer has taken the thread over; nothing was appended."""

    def __init__(self, thread: str) -> None:
        self.thread = thread
        super().__init__(f"another writer took over thread {thread!r}; open it again to go on")


class TurnConflict(TreadleError):
    """A turn id was admitted before, with another input."""


class IllegalCut(TreadleError):
    """A cut would part a call from its result, or lies outside the visible log."""


class StaleEpoch(TreadleError):
    """A recipe was planned for a view that has moved on; plan it again."""


class SearchRefused(TreadleError):
    """A regular expression is invalid, or cannot be searched for in bounded time."""


class ExecutorUnavailable(TreadleError):
    """What commands should run in cannot be reached or made."""


class SandboxUnavailable(TreadleError):
    """A command cannot be confined as its policy asks; it was not run."""


class WorktreeRefused(TreadleError):
    """A git worktree could not be made, or may not be removed."""


class NothingToSend(TreadleError):
    """The thread has no input yet."""


class TurnLeft(TreadleError):
    """A turn was handed back: it stays open, and whoever opens the thread next goes on with it."""

    def __init__(self, thread: str) -> None:
        self.thread = thread
        super().__init__(f"the turn of thread {thread!r} was handed back; run it again to go on")


class CannotCompact(TreadleError):
    """A compaction would not make the view smaller."""


class TooLong(TreadleError):
    """A request for a summary does not fit the model's window."""


class CompletionFailed(TreadleError):
    """A model did not answer an engine's request outside the conversation.

    `kind` is ``auth`` when the credentials must be fixed first, ``limit`` when waiting
    helps, and ``other`` when asking again may.
    """

    def __init__(self, message: str, kind: Literal["auth", "limit", "other"] = "other") -> None:
        super().__init__(message)
        self.kind = kind


class HookFailed(TreadleError):
    """A hook hung, crashed or gave an invalid answer."""


class EngineFailed(TreadleError):
    """A context engine raised, hung or gave an invalid answer."""

    def __init__(self, engine: str, operation: str, reason: str) -> None:
        self.engine, self.operation, self.reason = engine, operation, reason
        super().__init__(f"context engine {engine!r} failed at {operation}: {reason}")
