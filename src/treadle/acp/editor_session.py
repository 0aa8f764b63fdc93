"""Sessions: threads that are open for a client, and their turns.

Owns the life of one open thread: it is opened, changed, prompted, cancelled and closed here.
Invariants: one turn at a time, in the order of the prompts; a prompt that was cancelled answers
so, whatever else happened; and whatever a turn has told is sent before its prompt is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import Any, Protocol

import msgspec
from acp.helpers import update_available_commands
from acp.schema import (
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandInput,
    ConfigOptionUpdate,
    CreateElicitationResponse,
    CurrentModeUpdate,
    ElicitationMode,
    PermissionOption,
    PromptResponse,
    RequestPermissionResponse,
    SessionInfoUpdate,
    TextContentBlock,
    ToolCallUpdate,
    UnstructuredCommandInput,
    UsageUpdate,
)

from acp import RequestError

from ..core.errors import InvalidOption, TreadleError
from ..core.redact import redact_known
from ..core.usage import TokenUsage
from ..harness.events import (
    AgentReported,
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    QuestionsAsked,
    TurnCompleted,
)
from ..prompt.input import UserPart
from .editor_questions import (
    NOBODY_ANSWERS,
    approval_call,
    approval_options,
    form,
    form_message,
    read_answers,
    read_decision,
)
from .host import AcpHost, OpenedSession, SessionRequest, Setting, SettingName
from .prompt_blocks import Block, slash_command, user_parts
from .replay import Replay
from .session_settings import config_options
from .session_updates import TurnUpdates, stop_reason, told_cost, told_usage

__all__ = ["Asks", "Session"]

_COMPACT = "compact"
_ASKED_LONG = 1800.0
"""Seconds that a question waits for its answer."""


class Asks(Protocol):
    """The client, as far as a session needs it."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Tell of something."""
        ...

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **kwargs: Any,
    ) -> RequestPermissionResponse:
        """Ask for an approval."""
        ...

    async def create_elicitation(
        self, message: str, mode: ElicitationMode, **kwargs: Any
    ) -> CreateElicitationResponse:
        """Ask the user to fill in a form."""
        ...


class _Prompt:
    """A prompt that is not answered yet."""

    def __init__(self) -> None:
        self.cancelled = False


class Session:
    """One open thread."""

    def __init__(
        self, host: AcpHost, asked: SessionRequest, client: Asks, *, takes_forms: bool
    ) -> None:
        self._host, self._asked, self._client = host, asked, client
        self._takes_forms = takes_forms
        self._opened: OpenedSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._prompts: list[_Prompt] = []
        self._turns = asyncio.Lock()
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._title = ""
        self._outdated: SessionRequest | None = None
        """How the thread is open, where the client has chosen something else since then."""

    @property
    def opened(self) -> OpenedSession:
        """The open thread."""
        assert self._opened is not None, "sessions are used while they are open"
        return self._opened

    @property
    def id(self) -> str:
        """The id of the session, which is that of its thread."""
        return self.opened.thread.id

    async def open(self) -> None:
        """Open the thread. Raises what opening it raises."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._task = asyncio.create_task(self._stay_open(ready))
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            await self._close_thread()
            raise
        self._asked = msgspec.structs.replace(self._asked, thread=self.id)

    async def close(self) -> None:
        """Cancel what runs, close the thread, and forget one in which nothing was said."""
        self.cancel()
        async with self._turns:
            thread = self._opened.thread.id if self._opened is not None else None
            await self._close_thread()
        if thread is not None:
            await self._host.forget_if_empty(thread)

    async def set(self, name: SettingName, value: str) -> None:
        """Change a setting, from the next turn on. Raises `InvalidOption`."""
        known = {each.name: each for each in await asyncio.to_thread(self.settings)}
        setting = known.get(name)
        if setting is None or value not in {each.value for each in setting.choices}:
            told = "" if setting is None else ", ".join(each.value for each in setting.choices)
            raise InvalidOption(f"{name!r} cannot be {value!r}; choose one of: {told or 'none'}")
        before = self._asked
        self._asked = msgspec.structs.replace(before, chosen={**before.chosen, name: value})
        self._outdated = self._outdated or before
        if not self._turns.locked():
            async with self._turns:
                await self._bring_up_to_date()

    def settings(self) -> tuple[Setting, ...]:
        """Return the settings, with what was chosen for the next turn. Blocks on files."""
        chosen = self._asked.chosen if self._outdated is not None else {}
        return tuple(
            msgspec.structs.replace(each, value=chosen.get(each.name, each.value))
            for each in self.opened.settings()
        )

    async def announce(self) -> None:
        """Tell of the commands, and of what is not as the client wanted it."""
        commands = await asyncio.to_thread(self.opened.commands)
        known = [
            AvailableCommand(
                name=each.name,
                description=each.description,
                input=AvailableCommandInput(UnstructuredCommandInput(hint=each.hint))
                if each.hint
                else None,
            )
            for each in commands
        ]
        await self._tell(update_available_commands(known))
        for warning in self.opened.warnings:
            await self._think(warning)

    async def replay(self) -> None:
        """Tell everything that people are shown of the thread."""
        replay = Replay(str(self.opened.thread.log.setup.cwd))
        async with aclosing(self.opened.history()) as entries:
            async for entry in entries:
                for update in replay.of(entry):
                    await self._tell(update)

    def cancel(self) -> None:
        """Cancel all prompts that are not answered yet."""
        for prompt in self._prompts:
            prompt.cancelled = True
        if self._opened is not None and self._prompts:
            self._opened.thread.interrupt()

    async def prompt(self, blocks: list[Block]) -> PromptResponse:
        """Run a turn on what the client says."""
        prompt = _Prompt()
        self._prompts.append(prompt)
        try:
            async with self._turns:
                if not prompt.cancelled:
                    await self._bring_up_to_date()
                    return await self._answer(prompt, blocks)
        except (TreadleError, RequestError):
            if not prompt.cancelled:
                raise
        finally:
            self._prompts.remove(prompt)
        return PromptResponse(stop_reason="cancelled")

    async def _stay_open(self, ready: asyncio.Future[None]) -> None:
        """Hold the thread open, in a task of its own: it is closed where it was opened."""
        try:
            async with self._host.open_session(self._asked) as opened:
                self._opened = opened
                ready.set_result(None)
                await self._leave.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            self._opened = None

    async def _close_thread(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        self._leave.set()
        await asyncio.wait((task,))

    async def _bring_up_to_date(self) -> None:
        """Open the thread again, as it was asked for last; where that fails, as before."""
        before, self._outdated = self._outdated, None
        if before is None:
            return
        await self._close_thread()
        try:
            await self.open()
        except TreadleError:
            self._asked = before
            await self.open()
            raise

    async def _answer(self, prompt: _Prompt, blocks: list[Block]) -> PromptResponse:
        if missing := await self.opened.missing_key():
            raise RequestError(-32000, missing)
        command = slash_command(blocks)
        if command == (_COMPACT, ""):
            await self.opened.thread.compact()
            return PromptResponse(stop_reason="end_turn")
        parts: tuple[UserPart, ...] | None = None
        if command is not None:
            parts = await self.opened.expand(*command)
        done, usage = await self._run_turns(prompt, parts or user_parts(blocks))
        await self._tell_state(done)
        if prompt.cancelled:
            return PromptResponse(stop_reason="cancelled", usage=told_usage(usage))
        if done.status == "failed":
            raise RequestError(-32603, redact_known(done.error or "the turn failed"))
        return PromptResponse(stop_reason=stop_reason(done), usage=told_usage(usage))

    async def _run_turns(
        self, prompt: _Prompt, parts: tuple[UserPart, ...]
    ) -> tuple[TurnCompleted, TokenUsage]:
        """Run the turn, and those that its agents start when they have something to tell."""
        thread = self.opened.thread
        updates = TurnUpdates(str(thread.log.setup.cwd))
        done = await self._run_turn(prompt, updates, *parts)
        usage = done.usage
        while done.status == "completed" and not prompt.cancelled and await thread.expects():
            done = await self._run_turn(prompt, updates)
            usage += done.usage
        return done, usage

    async def _run_turn(
        self, prompt: _Prompt, updates: TurnUpdates, *parts: UserPart
    ) -> TurnCompleted:
        done: TurnCompleted | None = None
        try:
            async with aclosing(self.opened.thread.run(*parts)) as events:
                async for event in events:
                    if prompt.cancelled:
                        # It was cancelled before there was anything to interrupt.
                        self.opened.thread.interrupt()
                    self._ask_what(event, updates)
                    for update in updates.of(event):
                        await self._tell(update)
                    if isinstance(event, TurnCompleted):
                        done = event
        finally:
            for question in tuple(self._questions):
                self._withdraw(question)
        assert done is not None, "a turn always ends with its end"
        return done

    def _ask_what(self, event: Event, updates: TurnUpdates) -> None:
        """Ask the user what an event asks, also one of an agent."""
        who = ""
        while isinstance(event, AgentReported):
            who, event = event.nickname, event.event
        match event:
            case ApprovalRequested():
                # The client knows the calls of the thread itself, and not those of its agents.
                call = approval_call(event.id, event.call, who=who)
                if not who and (shown := updates.contents(event.call_id)) is not None:
                    call = approval_call(event.call_id, event.call, shown)
                self._ask(event.id, self._ask_approval(event, call))
            case QuestionsAsked():
                self._ask(event.id, self._ask_questions(event))
            case ApprovalWithdrawn(id=question):
                self._withdraw(question)

    def _ask(self, question: str, asking: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(asking)
        self._questions[question] = task
        task.add_done_callback(lambda _: self._questions.pop(question, None))

    def _withdraw(self, question: str) -> None:
        task = self._questions.pop(question, None)
        if task is not None:
            task.cancel()

    async def _ask_approval(self, event: ApprovalRequested, call: ToolCallUpdate) -> None:
        ask, decision = event.call, NOBODY_ANSWERS
        with suppress(RequestError, ConnectionError, TimeoutError, ValueError):
            async with asyncio.timeout(_ASKED_LONG):
                answer = await self._client.request_permission(self.id, call, approval_options(ask))
            decision = read_decision(ask, answer)
        self.opened.thread.answer(event.id, decision)

    async def _ask_questions(self, event: QuestionsAsked) -> None:
        answers = None
        with suppress(RequestError, ConnectionError, TimeoutError, ValueError):
            if self._takes_forms:
                async with asyncio.timeout(_ASKED_LONG):
                    answer = await self._client.create_elicitation(
                        form_message(event.questions), form(self.id, event.questions)
                    )
                answers = read_answers(event.questions, answer)
        self.opened.thread.answer(event.id, answers)

    async def _tell_state(self, done: TurnCompleted) -> None:
        """Tell how full the window is, what the turn cost, and what the thread is called."""
        requests = self.opened.thread.log.requests
        window = self.opened.thread.log.setup.profile.effective_window
        if window:
            cost = told_cost((await self.opened.thread.usage()).cost)
            await self._tell(
                UsageUpdate(
                    session_update="usage_update",
                    used=requests.occupied,
                    size=window,
                    cost=cost,
                )
            )
        title = await self.opened.title()
        if title != self._title:
            self._title = title
            await self._tell(SessionInfoUpdate(session_update="session_info_update", title=title))
        if done.limit is not None:
            await self._think(done.limit.text)

    async def tell_settings(self) -> None:
        """Tell the settings, after one of them was changed."""
        options = config_options(await asyncio.to_thread(self.settings))
        await self._tell(
            ConfigOptionUpdate(session_update="config_option_update", config_options=options)
        )

    async def tell_mode(self, mode: str) -> None:
        """Tell the mode, after it was chosen as a setting."""
        update = CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
        await self._tell(update)

    async def _think(self, text: str) -> None:
        chunk = TextContentBlock(type="text", text=f"{redact_known(text)}\n")
        await self._tell(AgentThoughtChunk(session_update="agent_thought_chunk", content=chunk))

    async def _tell(self, update: Any) -> None:
        with suppress(ConnectionError):
            await self._client.session_update(self.id, update)
