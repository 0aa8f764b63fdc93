"""The run of an agent: its thread, its share of the executor, and its task from start to end.

Owns which turn comes next, so that a start, a resumption after a crash and a late message
are one thing. Invariants: the first entry of an agent's own log says who started it; a
message that a run accepts is read in this run; and closing a shared executor ends the
processes that were started through it, and no others.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from ..context.view import CACHE_KEY
from ..core.aio import finish_uncancelled
from ..core.entries import SettingsChange, control_draft
from ..core.errors import NotFound
from ..core.items import Message
from ..core.redact import redact
from ..core.wire import Json, json_bytes
from ..harness.events import AgentReported, TurnCompleted
from ..log.thread_log import ThreadLog
from ..prompt.input import user_message
from ..prompt.prompt_context import ExecutorFacts
from ..store.contract import ENDED_STATES, Change, InboxDraft, Store
from ..tools.executor import Bounds, Process, ProcessSpec, ToolExecutor, find_place
from .mail import parent_provenance
from .records import LINEAGE, AgentRecord, AgentTask, AgentThread, Lineage, OpenAgent

if TYPE_CHECKING:
    from ..sandbox.place import CommandPlace

__all__ = ["AgentRun", "SharedExecutor", "create_agent"]

_LONGEST_KEY = 64
"""Characters of a prompt-cache key that OpenAI takes; it refuses a request with a longer one."""


async def create_agent(parent: ThreadLog, record: AgentRecord, depth: int) -> str:
    """Create the thread of an agent, empty or as a fork of `parent`; return its id."""
    store = parent.store
    if record.forked:
        child = await parent.fork(title=record.nickname)
    else:
        child = (await store.create(cwd=str(parent.setup.cwd), title=record.nickname)).id
    lease = await store.acquire(child)
    try:
        settings = SettingsChange(_first_settings(parent, record, child, depth))
        await store.commit(lease, Change(entries=(control_draft(settings),)))
    finally:
        await lease.release()
    return child


def _first_settings(
    parent: ThreadLog, record: AgentRecord, child: str, depth: int
) -> dict[str, Json]:
    lineage = Lineage(
        thread=child,
        parent=parent.id,
        depth=depth,
        nickname=record.nickname,
        agent_type=record.agent_type,
        forked=record.forked,
    )
    settings: dict[str, Json] = {LINEAGE: Raw(json_bytes(lineage))}
    if not record.forked:
        # Agents of one type share a cache, whichever thread of the family started them.
        root = parent.view.cache_key.partition("/")[0]
        settings[CACHE_KEY] = Raw(json_bytes(_cache_key(root, record.agent_type)))
    return settings


def _cache_key(root: str, kind: str) -> str:
    """Return the prompt-cache key of the agents of one type, as long as a provider takes."""
    key = f"{root}/{kind}"
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{root}/{hashlib.blake2b(kind.encode(), digest_size=8).hexdigest()}"


class _NextTurn(Struct, frozen=True):
    """A turn to run: on a message, or on what is in the agent's inbox."""

    id: str | None = None
    message: Message | None = None


class AgentRun:
    """An agent that works on a task."""

    def __init__(
        self,
        task: AgentTask,
        parent: str,
        store: Store,
        open_agent: OpenAgent,
        on_report: Callable[[AgentReported], None],
    ) -> None:
        self.task = task
        self.failure = ""
        """Why it could not go on, if it could not."""
        self.runner: asyncio.Task[None] | None = None
        """Runs it; done when its end was announced."""
        self.thread: AgentThread | None = None
        """The agent's thread while it is open."""
        self._parent = parent
        self._store = store
        self._open_agent = open_agent
        self._on_report = on_report
        self._is_stopped = False
        self._is_over = False
        self._deciding = asyncio.Lock()
        """Held from the look at the inbox to the decision that nothing is left to do."""

    async def run(self) -> None:
        """Do the task; store an error in `failure`."""
        try:
            if await self._next_turn() is not None:
                async with self._open_agent(self.task.child) as self.thread:
                    await self._run_turns(self.thread)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent is told
            self.failure = redact(str(error)) or type(error).__name__
        finally:
            self.thread, self._is_over = None, True

    async def has_turn(self) -> bool:
        """Return whether there is a turn to run."""
        try:
            return await self._find_turn() is not None
        except NotFound:
            return False

    async def send(self, message: InboxDraft, *, interrupt: bool) -> bool:
        """Post a message that this run will read; return False when the run is over."""
        async with self._deciding:
            if self._is_over:
                return False
            if interrupt and self.thread is not None:
                # Before the message is there, so that the turn cannot read it.
                self.thread.interrupt()
            await finish_uncancelled(self._store.post(self.task.child, message))
            return True

    def stop(self) -> None:
        """Stop the run; a running turn ends as interrupted."""
        self._is_stopped = True
        if self.thread is not None:
            self.thread.interrupt()

    async def _run_turns(self, thread: AgentThread) -> None:
        while (turn := await self._next_turn()) is not None:
            messages = () if turn.message is None else (turn.message,)
            provenance = parent_provenance(self._parent, self.task.tool) if messages else None
            running = thread.run(*messages, turn_id=turn.id, provenance=provenance)
            async with aclosing(running) as events:
                async for event in events:
                    self._on_report(
                        AgentReported(
                            thread=self.task.child, nickname=self.task.nickname, event=event
                        )
                    )
                    if isinstance(event, TurnCompleted) and event.status == "failed":
                        self.failure = event.error or "its turn failed"

    async def _next_turn(self) -> _NextTurn | None:
        async with self._deciding:
            found = None if self._is_ending else await self._find_turn()
            # Checked again: while the log was read there was no turn to interrupt.
            turn = None if self._is_ending else found
            self._is_over = turn is None
            return turn

    @property
    def _is_ending(self) -> bool:
        return self._is_stopped or bool(self.failure)

    async def _find_turn(self) -> _NextTurn | None:
        """Return the turn to run next, from the log of the agent."""
        turns = {turn.id: turn for turn in await self._store.turns(self.task.child)}
        first = turns.get(self.task.turn)
        if first is None or first.state not in ENDED_STATES:
            return _NextTurn(self.task.turn, user_message(self.task.message))
        newest = list(turns.values())[-1]
        if newest.state not in ENDED_STATES:
            return _NextTurn(newest.id)
        waiting = await self._store.inbox(self.task.child)
        return _NextTurn() if any(message.kind == "input" for message in waiting) else None


class SharedExecutor:
    """An executor of the host that an agent may use."""

    def __init__(self, executor: ToolExecutor) -> None:
        self.executor = executor
        self._started: list[Process] = []

    @property
    def facts(self) -> ExecutorFacts | None:
        """Return what the model is told of where it is; None for what was told to nobody."""
        facts = getattr(self.executor, "facts", None)
        return facts if isinstance(facts, ExecutorFacts) else None

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a process."""
        process = await self.executor.start(spec)
        self._started.append(process)
        return process

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a regular file."""
        return await self.executor.read(path, bounds=bounds, limit=limit)

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file."""
        await self.executor.write(path, data, bounds=bounds)

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch."""
        return await self.executor.patch(text, cwd=cwd, bounds=bounds)

    def find_place(self, cwd: Path, *, bounds: Bounds) -> CommandPlace | None:
        """Return what the directory and the search path of a command lead to."""
        return find_place(self.executor, cwd, bounds)

    async def close(self) -> None:
        """Kill every process that was started here and still runs."""
        started, self._started = self._started, []
        for process in started:
            await process.kill()
