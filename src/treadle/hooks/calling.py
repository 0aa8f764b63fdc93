"""Calling a hook: until it answers, fails, or its time is up.

Invariant: whatever a hook does, its caller gets an answer or `HookFailed` in time; a hook
whose time is up was cancelled, and one that will not hear of that is left to itself.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from ..core.aio import start_now
from ..core.errors import HookFailed
from ..core.redact import redact, redact_known
from .answers import Answer, Hook
from .payloads import Payload

__all__ = ["called"]

_TO_CLEAN_UP = 5.0
"""Seconds in which a cancelled hook can put things in order."""


async def called(
    hook: Hook, payload: Payload, seconds: float, *, grace: float = _TO_CLEAN_UP
) -> Answer | None:
    """What `hook` answers within `seconds`; `grace` is for its tidying. Raises `HookFailed`."""
    task = start_now(_answer(hook, payload), name=f"hook for {_tag(payload)}")
    try:
        if not task.done():
            await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await _ended(task, grace)
        raise
    if not task.done():
        await _ended(task, grace)
        raise HookFailed(f"a hook for {_tag(payload)!r} did not answer within {seconds:g} s")
    if task.cancelled():
        raise HookFailed(f"a hook for {_tag(payload)!r} gave up")
    return task.result()


async def _answer(hook: Hook, payload: Payload) -> Answer | None:
    try:
        answer: object = await hook(payload)
    except HookFailed:
        raise
    except Exception as error:
        what = redact(f"{type(error).__name__}: {error}")
        raise HookFailed(f"a hook for {_tag(payload)!r} failed: {what}") from error
    if answer is None:
        return None
    if isinstance(answer, Answer):
        return _blanked(answer)
    raise HookFailed(
        f"a hook for {_tag(payload)!r} answered {type(answer).__name__!r}; return an Answer or None"
    )


def _blanked(answer: Answer) -> Answer:
    """`answer` without secrets of ours: it is kept, and told to the model."""
    said = {name: getattr(answer, name) for name in ("block", "output", "context")}
    return replace(answer, **{name: redact_known(text) for name, text in said.items() if text})


async def _ended(task: asyncio.Future[Answer | None], grace: float) -> None:
    task.cancel()
    await asyncio.wait((task,), timeout=grace)
    if task.done() and not task.cancelled():
        # Nobody asks any more; unread, it would be told as if it were lost.
        task.exception()


def _tag(payload: Payload) -> str:
    return str(payload.__struct_config__.tag)
