"""Threads for scripts: the same conversation without `await`.

Owns an event loop in a thread of its own for each conversation. Invariant: however a
loop over events is left (its end, a `break`, Ctrl-C), the turn is over and durable
before the next line of the script runs.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, UnsetType

from .context.head import Choices
from .core.provenance import InputProvenance, InternalEvent
from .core.wire import Json
from .prompt.prompt_context import CollaborationMode, ContextValue
from .skills.rules import SkillRules
from .subagents import AgentLimits
from .thread.options import (
    AgentOptions,
    EngineOptions,
    HarnessOptions,
    Limits,
    PromptOptions,
    Rights,
    Routing,
    ToolOptions,
)
from .thread.thread import Thread as AsyncThread

if TYPE_CHECKING:
    from .context.preview import NextRequest
    from .core.items import Message
    from .core.specs import ToolSpec
    from .core.usage import ThreadUsage
    from .delivery.channel import Channel, ReplyOrigin, ReplyPolicy
    from .engines.compaction import CompactionOutcome
    from .engines.contract import ContextEngine
    from .harness.contract import Harness
    from .harness.events import Event
    from .hooks import Hooks
    from .models.contract import Model
    from .policy.turn_plan import TurnPlan
    from .prompt.announcements import UserShellCommand
    from .prompt.input import UserPart
    from .sandbox.approvals import Decision
    from .store.contract import Index, Store
    from .thread.rewinding import RewindPlan, Rewound
    from .thread.rewinds import ThreadRewinds
    from .tools.contract import Answers, Tool
    from .tools.local.running import RunningCommand

__all__ = ["Thread"]

T = TypeVar("T")


class _Loop:
    """An event loop that runs beside the script."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="treadle", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Let `work` run in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives; Ctrl-C cancels it."""
        future = self.begin(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """What `function` gives when the loop calls it."""

        async def run() -> T:
            return function()

        return self.wait(run())

    def close(self) -> None:
        """Stop, once everything that still runs has been cancelled."""
        self.wait(_cancel_others())
        self.wait(self._loop.shutdown_asyncgens())
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Thread:
    """A conversation that this process writes, for code that does not await."""

    def __init__(self, thread: AsyncThread, loop: _Loop) -> None:
        self._thread, self._loop = thread, loop

    @classmethod
    @contextmanager
    def open(
        cls,
        thread: str | None = None,
        *,
        model: str | Model | None = None,
        cwd: Path | str | None = None,
        home: Path | str | None = None,
        title: str = "",
        tools: Sequence[Tool | ToolSpec] | ToolOptions | None = None,
        hooks: Hooks | None = None,
        choices: Choices | None = None,
        rights: Rights | None = None,
        engine: str | ContextEngine | EngineOptions = "linear",
        harness: str | Harness | HarnessOptions = "auto",
        routing: Routing | None = None,
        prompt: PromptOptions | None = None,
        agents: AgentLimits | AgentOptions | None = None,
        skills: SkillRules | None = None,
        limits: Limits | None = None,
        channel: Channel | Mapping[str, Channel] | None = None,
        replies: ReplyPolicy | None = None,
        store: Store | str | None = None,
        index: Index | None = None,
    ) -> Iterator[Thread]:
        """Open a thread for writing, or make a new one; options as of `treadle.Thread.open`."""
        loop = _Loop()
        try:
            opening = AsyncThread.open(
                thread,
                model=model,
                cwd=cwd,
                home=home,
                title=title,
                tools=tools,
                hooks=hooks,
                choices=choices,
                rights=rights,
                engine=engine,
                harness=harness,
                routing=routing,
                prompt=prompt,
                agents=agents,
                skills=skills,
                limits=limits,
                channel=channel,
                replies=replies,
                store=store,
                index=index,
            )
            opened = loop.wait(opening.__aenter__())
            try:
                yield cls(opened, loop)
            finally:
                loop.wait(_close(opening))
        finally:
            loop.close()

    @property
    def id(self) -> str:
        """The id of the thread; use it to open the thread again."""
        return self._thread.id

    def run(
        self,
        *said: UserPart | Message,
        turn_id: str | None = None,
        schema: Json | Mapping[str, Any] | UnsetType = UNSET,
        provenance: InputProvenance | None = None,
        events: Sequence[InternalEvent] = (),
        origin: ReplyOrigin | None = None,
        mode: str | CollaborationMode | UnsetType | None = UNSET,
        personality: str | UnsetType | None = UNSET,
        context: Mapping[str, str | ContextValue] | UnsetType = UNSET,
        limits: Limits | None = None,
    ) -> Iterator[Event]:
        """Run a turn and hear what happens; options as of `treadle.Thread.run`.

        Leaving the loop early, also by Ctrl-C, interrupts the turn.
        """
        heard: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        running = self._thread.run(
            *said,
            turn_id=turn_id,
            schema=schema,
            provenance=provenance,
            events=events,
            origin=origin,
            mode=mode,
            personality=personality,
            context=context,
            limits=limits,
        )

        async def listen() -> None:
            try:
                async for event in running:
                    heard.put(event)
            finally:
                heard.put(None)

        turn = self._loop.begin(listen())
        try:
            while (event := heard.get()) is not None:
                yield event
            turn.result()
        finally:
            if not turn.done():
                self.interrupt()
                self._drain(heard)

    def steer(self, *said: UserPart) -> str:
        """Add input to the current turn; return the key of the message."""
        return self._loop.wait(self._thread.steer(*said))

    def send(
        self, thread: str, *said: UserPart, channel: str | None = None, key: str | None = None
    ) -> str:
        """Leave a message in the inbox of another thread; options as of `treadle.Thread.send`."""
        return self._loop.wait(self._thread.send(thread, *said, channel=channel, key=key))

    def wait_for_engine(self, seconds: float) -> None:
        """Wait, at most `seconds`, for the engine's background work."""
        self._loop.wait(self._thread.wait_for_engine(seconds))

    def usage(self) -> ThreadUsage:
        """Return what the thread has cost so far, as its providers counted it."""
        return self._loop.wait(self._thread.usage())

    def expects(self) -> bool:
        """Return whether `run` without input has, or will have, something to do."""
        return self._loop.wait(self._thread.expects())

    def interrupt(self) -> None:
        """Break the turn off; harmless when nothing runs."""
        self._loop.call(self._thread.interrupt)

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer an approval or a question, by the id of its event."""
        self._loop.call(lambda: self._thread.answer(question, answer))

    def foresee(self) -> TurnPlan:
        """The plan of a turn that began now; nothing is sent or recorded."""
        return self._loop.wait(self._thread.foresee())

    def run_command(self, line: str) -> UserShellCommand:
        """Run a command of the user's own, and tell the model what came of it."""
        return self._loop.wait(self._thread.run_command(line))

    def preview(
        self,
        *said: UserPart | Message,
        schema: Json | Mapping[str, Any] | UnsetType = UNSET,
        mode: str | CollaborationMode | UnsetType | None = UNSET,
        personality: str | UnsetType | None = UNSET,
        context: Mapping[str, str | ContextValue] | UnsetType = UNSET,
    ) -> NextRequest:
        """The first request of a turn that began now; its `body`, byte for byte. Sends nothing."""
        own = {"schema": schema, "mode": mode, "personality": personality, "context": context}
        return self._loop.wait(self._thread.preview(*said, **own))  # type: ignore[arg-type]

    def compact(self) -> CompactionOutcome:
        """Compact the view into a summary now."""
        return self._loop.wait(self._thread.compact())

    def fork(self, at: int | None = None, *, title: str = "") -> str:
        """A new thread that shares this one up to entry `at`; its id."""
        return self._loop.wait(self._thread.fork(at, title=title))

    def rollback(self, turns: int = 1) -> None:
        """Hide the last `turns` turns."""
        self._loop.wait(self._thread.rollback(turns))

    @property
    def rewinds(self) -> Rewinds:
        """Takes back turns, and the files that they changed."""
        return Rewinds(self._thread.rewinds, self._loop)

    def processes(self) -> list[RunningCommand]:
        """Return the commands that it has running, the oldest first."""
        return self._loop.wait(self._thread.processes.list())

    def stop_process(self, pid: int) -> None:
        """Kill a command that it has running, and all that it started."""
        self._loop.wait(self._thread.processes.stop(pid))

    def reset(self) -> None:
        """Start from an empty view. The log keeps everything."""
        self._loop.wait(self._thread.reset())

    def use(self, model: str | None = None, *, harness: str | None = None) -> None:
        """Use another model or another harness from the next turn on."""
        self._loop.call(lambda: self._thread.use(model, harness=harness))

    @staticmethod
    def _drain(heard: queue.SimpleQueue[Event | None]) -> None:
        """Wait for the end of a turn that nobody listens to any more."""
        while heard.get() is not None:
            pass


class Rewinds:
    """Takes back turns of a thread, and the files that they changed."""

    def __init__(self, rewinds: ThreadRewinds, loop: _Loop) -> None:
        self._rewinds, self._loop = rewinds, loop

    def plan(self, turns: int = 1, *, to: int | None = None) -> RewindPlan:
        """Return what `apply` would hide and restore; nothing is changed."""
        return self._loop.wait(self._rewinds.plan(turns, to=to))

    def plan_undo(self) -> RewindPlan:
        """Return what undoes the newest rewind."""
        return self._loop.wait(self._rewinds.plan_undo())

    def apply(
        self,
        plan: RewindPlan,
        *,
        conversation: bool = True,
        files: bool = True,
        overwrite: bool = False,
    ) -> Rewound:
        """Do what was planned: hide the conversation, restore the files, or both."""
        work = self._rewinds.apply(
            plan, conversation=conversation, files=files, overwrite=overwrite
        )
        return self._loop.wait(work)


async def _close(opening: Any) -> None:
    await opening.__aexit__(None, None, None)
