"""Where the tools of a thread act: on this machine, or elsewhere.

Owns what follows from the host's choice and from what the log says. Invariant: a thread whose
commands ran in a container never goes on outside of it because nobody said where.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ..core.errors import ExecutorUnavailable, InvalidOption
from ..core.redact import one_line
from ..core.typed import decode_json
from ..executors.choice import ExecutorChoice, find_source
from ..prompt.prompt_context import ExecutorFacts
from ..tools.executor_life import ExecutorRecord

if TYPE_CHECKING:
    from ..context.view import View
    from ..executors import ExecutorChoice, KeptExecutor
    from ..executors.choice import OnClose
    from ..log.thread_log import ThreadLog
    from ..prompt.prompt_context import PromptContext
    from ..tools.executor import ToolExecutor
    from ..tools.executor_life import ExecutorSource
    from .options import ThreadOptions, ToolOptions

__all__ = [
    "Place",
    "check_place_of_tools",
    "find_place_of_tools",
    "host_executor",
    "read_record",
    "stored_record",
]

SETTING = "executor"
"""The thread's setting that holds the record."""
LOCAL = "local"


class Place(Protocol):
    """Where tools act, as far as it is not simply this machine."""

    @property
    def facts(self) -> ExecutorFacts:
        """What the model is told of it."""
        ...

    async def attach(self) -> ExecutorFacts:
        """Have it there before a turn. Raises `OSError`."""
        ...


def host_executor(options: ToolOptions) -> ToolExecutor | None:
    """Return the executor that the host has made itself; None where there is none."""
    chosen = options.executor
    able: object = chosen
    return chosen if hasattr(able, "patch") else None  # type: ignore[return-value]


def stored_record(log: ThreadLog) -> ExecutorRecord | None:
    """Return what the log says of where commands ran; None where they always ran here."""
    return read_record(log.view)


def read_record(view: View) -> ExecutorRecord | None:
    """Return what a view says of where commands ran; None where they always ran here."""
    stored = view.settings.get(SETTING)
    if stored is None:
        return None
    try:
        return decode_json(bytes(stored), ExecutorRecord | None)
    except msgspec.DecodeError:
        return None


async def find_place_of_tools(
    log: ThreadLog, options: ThreadOptions, tell: Callable[[str], None]
) -> KeptExecutor | HomeAgain | ToldPlace | None:
    """Return where the tools of a thread act; None for this machine, as ever.

    Raises `InvalidOption` where that was not said and cannot be known.
    """
    chosen, record = options.tools.executor, stored_record(log)
    if (made := host_executor(options.tools)) is not None:
        facts = getattr(made, "facts", None)
        return ToldPlace(facts) if isinstance(facts, ExecutorFacts) else None
    if chosen is None or getattr(chosen, "where", LOCAL) == "":
        if record is None:
            return None
        chosen = await _choice_of(log, record, chosen)
    source, on_close = _source(chosen, Path(log.setup.cwd), log.setup.settings)
    if source is None:
        return None if record is None else HomeAgain(log, record)
    from ..executors.kept_executor import KeptExecutor

    return KeptExecutor(
        source,
        thread=log.id,
        record=record,
        save=lambda made: log.configure(**{SETTING: made}),
        tell=tell,
        on_close=on_close,
    )


async def _choice_of(log: ThreadLog, record: ExecutorRecord, details: Any) -> str | ExecutorChoice:
    """Return where the thread goes on by itself: where it, or what it was forked from, was."""
    family = {span.thread for span in await log.store.lineage(log.id)}
    if record.where == LOCAL or record.owner in {log.id, *family}:
        return (
            record.where
            if details is None
            else msgspec.structs.replace(details, where=record.where)
        )
    raise InvalidOption(
        f"the commands of this thread ran in {record.where!r}; say where they run from now on: "
        f"executor {record.where!r}, or 'local' for this machine"
    )


def check_place_of_tools(options: ToolOptions, cwd: Path, settings: PromptContext) -> None:
    """Refuse a place that cannot be meant, before a thread is made. Raises `InvalidOption`."""
    if options.executor is not None and host_executor(options) is None:
        _source(options.executor, cwd, settings)


def _source(
    chosen: str | ExecutorChoice | ExecutorSource | ToolExecutor,
    cwd: Path,
    settings: PromptContext,
) -> tuple[ExecutorSource | None, OnClose]:
    if isinstance(chosen, str):
        chosen = ExecutorChoice(where=chosen)
    if not isinstance(chosen, ExecutorChoice):
        return chosen, "pause"  # type: ignore[return-value]
    source = find_source(
        chosen,
        cwd=cwd,
        network=settings.network_access,
        hosts=bool(settings.network_hosts),
    )
    return source, chosen.on_close


class ToldPlace:
    """A place that somebody else looks after: the executor of the agent's parent."""

    def __init__(self, facts: ExecutorFacts) -> None:
        self.facts = facts

    async def attach(self) -> ExecutorFacts:
        """Leave it to whoever looks after it."""
        return self.facts


class HomeAgain:
    """This machine, after another place."""

    def __init__(self, log: ThreadLog, record: ExecutorRecord) -> None:
        self._log = log
        self._is_known = record.kind == LOCAL
        self._record = record if self._is_known else _here(log, record.number + 1)

    @property
    def facts(self) -> ExecutorFacts:
        """What the model is told: that it is this machine again."""
        record = self._record
        return ExecutorFacts(
            place="",
            workspace="",
            shell=self._log.setup.shell,
            number=record.number,
            carried=record.carried,
        )

    async def attach(self) -> ExecutorFacts:
        """Write down that tools act here."""
        if not self._is_known:
            await self._log.configure(**{SETTING: self._record})
            self._is_known = True
        return self.facts


def _here(log: ThreadLog, number: int) -> ExecutorRecord:
    cwd = str(log.setup.cwd)
    return ExecutorRecord(
        kind=LOCAL, where=LOCAL, workspace=cwd, shell=log.setup.shell, owner=log.id, number=number
    )


async def attach(log: ThreadLog, place: Place) -> None:
    """Have the place of tools there, and know what to tell of it. Raises `ExecutorUnavailable`."""
    try:
        log.setup.executor = await place.attach()
    except OSError as error:
        raise ExecutorUnavailable(
            f"{one_line(str(error))}; make it reachable, or choose another place for commands"
        ) from error
