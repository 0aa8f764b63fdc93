"""Logged events: what a turn does, as log records for who runs many of them.

Owns which events are told, and at which level. Invariant: a record has names and figures in it,
never a word of a conversation, of a command or of its output.
"""

from __future__ import annotations

import logging

from ..harness.events import (
    AgentReported,
    AttemptFailed,
    CompactionFinished,
    Event,
    LimitReached,
    Retrying,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UsageReported,
)
from ..thread.thread import Thread
from .thread_setup import TURNS_LOG

__all__ = ["log_turns"]

_log = logging.getLogger(TURNS_LOG)


def log_turns(thread: Thread) -> None:
    """Log the turns of a thread, if anybody reads such records."""
    if not _log.isEnabledFor(logging.INFO):
        return

    def observe(event: Event) -> None:
        of, named = event, thread.id
        while isinstance(of, AgentReported):
            named, of = of.thread, of.event
        if (told := _log_line(of)) is not None:
            level, text = told
            _log.log(level, "%s %s", named, text)

    thread.observers.append(observe)


def _log_line(event: Event) -> tuple[int, str] | None:
    match event:
        case TurnStarted():
            return logging.INFO, (
                f"turn {event.turn} started: {event.model} on {event.harness}, "
                f"sandbox {event.sandbox}"
            )
        case TurnCompleted():
            usage = event.usage
            why = f", {event.tried[-1].reason}" if event.tried else ""
            return logging.INFO, (
                f"turn {event.turn} {event.status}: {usage.input_tokens} tokens in, "
                f"{usage.cached_input_tokens or 0} of them cached, {usage.output_tokens} out{why}"
            )
        case LimitReached(limit=limit, most=most):
            return logging.INFO, f"the limit of {limit} is reached: {most:g}"
        case AttemptFailed(tried=tried, next=following):
            return logging.INFO, f"{tried.model} failed ({tried.reason}), asking {following.model}"
        case CompactionFinished():
            done = "failed" if event.error else "done"
            return logging.INFO, (
                f"compaction by {event.by} {done}: {event.tokens_before} tokens before, "
                f"{event.tokens_after} after"
            )
        case _:
            text = _detail(event)
            return None if text is None else (logging.DEBUG, text)


def _detail(event: Event) -> str | None:
    match event:
        case StepStarted():
            why = f", new prefix: {event.reason}" if event.reason else ""
            return f"step {event.step}: {event.size} bytes, {event.shared} of them shared{why}"
        case UsageReported(usage=usage):
            return (
                f"answer: {usage.input_tokens} tokens in, {usage.cached_input_tokens or 0} of them "
                f"cached, {usage.output_tokens} out, window {event.occupied} of {event.window}"
            )
        case ToolStarted():
            return f"call {event.call_id} of {event.name} started"
        case ToolFinished():
            done = "ok" if event.success else "failed"
            return f"call {event.call_id} of {event.name} {done}, {event.seconds:.3f} s"
        case Retrying():
            return f"retry {event.attempt} of {event.most} in {event.delay:.1f} s"
        case _:
            return None
