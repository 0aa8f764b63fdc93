"""The routes of the API that act: only with `--control`.

Owns what may be asked and what each body says. Invariants: a thread is written by whoever holds
it: here only while a turn runs or a change is made; and what another process writes is sent
to its inbox, never forced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..context.cuts import step_boundary
from ..core.errors import NotFound, NothingToSend, ThreadBusy
from ..core.typed import decode_json
from ..harness.events import ApprovalRequested
from ..sandbox.approval_forms import named_decision, shown_prefix
from ..sandbox.approvals import Ask, Decision
from ..store.contract import Holder
from ..subagents import post_message
from .api_answers import NotAllowed, WrongValue, answers, say
from .controlled_turns import ControlledTurns
from .inspector import Inspector
from .thread_list import living_holder

__all__ = ["acting_routes"]

_NO_CONTROL = "this inspector only looks; start it with `treadle web --control` to act"
_MOST_TEXT = 400_000
_TRIES = 100
_MOMENT = 0.05

T = TypeVar("T")
_Act = Callable[["_Acting", Request], Awaitable[Response]]


class _Said(Struct, frozen=True, forbid_unknown_fields=True):
    text: str


class _NewThread(Struct, frozen=True, forbid_unknown_fields=True):
    cwd: str
    text: str
    model: str | None = None


class _Answer(Struct, frozen=True, forbid_unknown_fields=True):
    decision: str | None = None
    note: str = ""
    answers: dict[str, tuple[str, ...]] | None = None


class _Rewind(Struct, frozen=True, forbid_unknown_fields=True):
    turn: int
    """The first turn to take back."""
    what: str = "both"
    overwrite: bool = False


class _Fork(Struct, frozen=True, forbid_unknown_fields=True):
    at: int | None = None
    """The last entry to share."""
    turn: int | None = None
    """Or the first turn not to share."""
    title: str = ""


class _Nothing(Struct, frozen=True):
    pass


class _Acting:
    """Does what is asked for."""

    def __init__(self, inspector: Inspector, turns: ControlledTurns) -> None:
        self._inspector, self._turns = inspector, turns

    async def new_thread(self, request: Request) -> Response:
        asked = await _body(request, _NewThread)
        text, cwd = _text(asked.text), await asyncio.to_thread(_directory, asked.cwd)
        turn = await self._turns.start(None, text, cwd=cwd, model=asked.model or None)
        return say({"thread": turn.thread}, 201)

    async def say(self, request: Request) -> Response:
        """Say something: to the turn that runs, to whoever writes the thread, or in a new turn."""
        thread, asked = await self._thread(request), await _body(request, _Said)
        text = _text(asked.text)
        for _ in range(_TRIES):
            if (said := await self._say(thread, text)) is not None:
                return say({"thread": thread, **said}, 202)
            # It is being opened or closed just now, which takes a moment.
            await asyncio.sleep(_MOMENT)
        raise ThreadBusy(thread, "somebody who has not said who")

    async def _say(self, thread: str, text: str) -> dict[str, bool] | None:
        """Return how it was said; None where it cannot be said at this moment."""
        turn = self._turns.find(thread)
        if turn is not None and not turn.active:
            await turn.wait()
        elif turn is not None:
            with suppress(NothingToSend, NotFound):
                await turn.steer(text)
                return {"posted": False, "steered": True}
            return None
        try:
            await self._turns.start(thread, text)
        except ThreadBusy:
            if await self._holder(thread) is None:
                return None
            async with self._turns.home.open_store() as store:
                await post_message(store, thread, text)
            return {"posted": True, "steered": False}
        return {"posted": False, "steered": False}

    async def _holder(self, thread: str) -> Holder | None:
        found = await self._inspector.home.store.holders([thread])
        return living_holder(found.get(thread))

    async def interrupt(self, request: Request) -> Response:
        thread = await self._thread(request)
        await _body(request, _Nothing)
        turn = self._turns.find(thread)
        if turn is None or not turn.active:
            holder = await self._holder(thread)
            who = f"{holder} runs it; interrupt it there" if holder else "no turn of it runs"
            raise NothingToSend(f"thread {thread!r} cannot be interrupted from here: {who}")
        turn.interrupt()
        return say({"thread": thread}, 202)

    async def questions(self, request: Request) -> Response:
        turn = self._turns.find(await self._thread(request))
        shown = []
        for name, (agent, news) in (turn.questions if turn else {}).items():
            asked: dict[str, Any] = {"id": name, "agent": agent or None}
            if isinstance(news, ApprovalRequested):
                readable = news.call.prefix if shown_prefix(news.call) else None
                shown.append({**asked, "call": replace(news.call, prefix=readable)})
            else:
                shown.append({**asked, "questions": news.questions})
        return say({"questions": shown})

    async def answer(self, request: Request) -> Response:
        thread, name = await self._thread(request), request.path_params["question"]
        asked = await _body(request, _Answer)
        turn = self._turns.find(thread)
        if turn is None or name not in turn.questions:
            raise NothingToSend(f"question {name!r} does not wait any more")
        _, news = turn.questions[name]
        if isinstance(news, ApprovalRequested):
            turn.answer(name, _decision(asked, news.call))
        else:
            turn.answer(name, asked.answers)
        return say({"thread": thread}, 202)

    async def rewind(self, request: Request) -> Response:
        thread, asked = await self._thread(request), await _body(request, _Rewind)
        if asked.what not in {"both", "conversation", "files"}:
            raise WrongValue(f"what must be both, conversation or files, not {asked.what!r}")
        first = (await self._inspector.home.store.turn(thread, asked.turn)).first
        if (turn := self._turns.find(thread)) is not None and not turn.active:
            await turn.wait()
        async with self._turns.home.open_thread(thread) as opened:
            plan = await opened.rewinds.plan(to=first - 1)
            done = await opened.rewinds.apply(
                plan,
                conversation=asked.what != "files",
                files=asked.what != "conversation",
                overwrite=asked.overwrite,
            )
        return say(
            {
                "thread": thread,
                "entry": done.entry,
                "first": done.cut if done.entry is not None else None,
                "restored": done.restored,
                "left": done.left,
                "kept": [{"path": each.path, "reason": each.reason} for each in done.kept],
            }
        )

    async def fork(self, request: Request) -> Response:
        thread, asked = await self._thread(request), await _body(request, _Fork)
        home = self._inspector.home
        info = await home.thread(thread)
        wanted = info.last if asked.at is None else asked.at
        if asked.turn is not None:
            wanted = (await home.store.turn(thread, asked.turn)).first - 1
        async with self._turns.home.open_store() as store:
            cut = await step_boundary(store, thread, await home.registry(), wanted)
            made = await store.fork(thread, cut, title=asked.title.strip())
        return say({"thread": made.id, "parent": thread, "at": cut}, 201)

    async def _thread(self, request: Request) -> str:
        return (await self._inspector.home.thread(request.path_params["id"])).id


def _decision(asked: _Answer, call: Ask) -> Decision:
    decision = named_decision(asked.decision, call, asked.note)
    if decision is None:
        raise WrongValue(
            "decision must be once, thread, no, stop, or prefix where one is offered, "
            f"not {asked.decision!r}"
        )
    return decision


def _directory(given: str) -> Path:
    try:
        place = Path(given).expanduser()
        if place.is_absolute() and place.is_dir():
            return place
    except (OSError, RuntimeError, ValueError):
        pass  # nothing of that name can be
    raise WrongValue(f"cwd must be a directory by its whole path, not {given!r}")


def _text(text: str) -> str:
    if not text.strip() or len(text) > _MOST_TEXT:
        raise WrongValue(f"text must have 1 to {_MOST_TEXT:,} characters")
    return text


async def _body(request: Request, kind: type[T]) -> T:
    try:
        return decode_json(await request.body(), kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WrongValue(f"the body is not what is expected here: {error}") from None


def acting_routes(inspector: Inspector, turns: ControlledTurns | None) -> list[Route]:
    """Return the routes that act; without control each says how to get it."""
    acting = _Acting(inspector, turns) if turns is not None else None
    thread = "/api/threads/{id}"
    table: dict[str, tuple[str, _Act]] = {
        "/api/threads": ("POST", _Acting.new_thread),
        f"{thread}/turns": ("POST", _Acting.say),
        f"{thread}/steer": ("POST", _Acting.say),
        f"{thread}/interrupt": ("POST", _Acting.interrupt),
        f"{thread}/questions": ("GET", _Acting.questions),
        f"{thread}/answers/{{question}}": ("POST", _Acting.answer),
        f"{thread}/rewind": ("POST", _Acting.rewind),
        f"{thread}/fork": ("POST", _Acting.fork),
    }
    return [
        Route(path, answers(_handler(acting, act)), methods=[method])
        for path, (method, act) in table.items()
    ]


def _handler(acting: _Acting | None, act: _Act) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        if acting is None:
            raise NotAllowed(_NO_CONTROL)
        return await act(acting, request)

    return handle
