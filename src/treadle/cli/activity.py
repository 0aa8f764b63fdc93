"""Activity: lines that show the user what an agent does.

Owns the words for calls, results and everything else that is no answer. Invariant: a
line is safe for a terminal and short, whatever a model or a tool wrote.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from ..core.typed import decode_json
from ..harness.events import (
    AgentReported,
    AttemptFailed,
    CompactionFinished,
    CompactionStarted,
    Event,
    NoticeRaised,
    Retrying,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
)
from ..policy.fallback import Attempt, Tried
from ..tools.call_text import call_text
from .output import one_line

__all__ = [
    "activity",
    "call_line",
    "missing_answer",
    "output_tail",
    "result_line",
    "unwrap_agent",
]

_WIDTH = 160
_NOTICE = 1_000
"""A notice ends with the next action, so it is not cut."""
_NAME = 40
_TAIL_LINES = 3
"""Lines of an output that are shown when a command has ended."""
_EXIT = r"(?m)^(?:Process exited with code|Exit code:) (-?\d+)$"


class _UserAnswer(Struct):
    answers: list[str]


class _UserAnswers(Struct):
    answers: dict[str, _UserAnswer]


def activity(event: Event) -> str | None:
    """Return the line for an event; None for an event that is not shown."""
    match event:
        case AgentReported():
            return _of_agent(event)
        case ToolStarted(name=name, arguments=arguments):
            return f"• {call_line(name, arguments)}"
        case ToolFinished():
            return f"  {result_line(event)}"
        case Retrying():
            # Codex does not say how long it waits.
            when = f" in {event.delay:.1f} s" if event.delay else ""
            again = f"trying again{when} ({event.attempt} of {event.most})"
            return f"! {one_line(event.reason, _WIDTH)}; {again}"
        case AttemptFailed(tried=tried, next=following):
            failed = f"{_candidate(tried)}: {tried.error or tried.reason}"
            return f"! {one_line(failed, _WIDTH)}; asking {one_line(_candidate(following), _WIDTH)}"
        case CompactionStarted(tokens=tokens):
            return f"• compacting about {tokens:,} tokens into a summary"
        case CompactionFinished(error=None):
            return f"  from about {event.tokens_before:,} tokens to {event.tokens_after:,}"
        case CompactionFinished(error=error):
            return f"! not compacted: {one_line(error or '', _WIDTH)}"
        case NoticeRaised(level=level, text=text):
            return f"{'·' if level == 'info' else '!'} {one_line(text, _NOTICE)}"
        case _:
            return None


def missing_answer(event: TurnCompleted) -> str:
    """Return what a person is told of a turn that ended without a word; else nothing."""
    if event.status != "completed" or event.text.strip():
        return ""
    return "the model ended the turn without an answer"


def _candidate(each: Attempt | Tried) -> str:
    return f"{each.model} with {each.profile}" if each.profile else each.model


def unwrap_agent(event: AgentReported) -> tuple[str, Event]:
    """Return the names of the agents that passed an event on, in brackets, and the event."""
    names: list[str] = []
    news: Event = event
    while isinstance(news, AgentReported):
        names.append(f"[{one_line(news.nickname, _NAME)}]")
        news = news.event
    return " ".join(names), news


def _of_agent(event: AgentReported) -> str | None:
    """Return the line for an event of an agent: its calls, and its end."""
    names, news = unwrap_agent(event)
    match news:
        case TurnCompleted(status=status, error=error, limit=limit):
            why = limit.text if limit is not None else error
            return one_line(f"• {names} {status}" + (f": {why}" if why else ""), _WIDTH)
        case ToolStarted(name=name, arguments=arguments):
            return one_line(f"• {names} {call_line(name, arguments)}", _WIDTH)
        case _:
            return None


def call_line(name: str, arguments: str) -> str:
    """Describe a call on one line."""
    return one_line(call_text(name, arguments), _WIDTH)


def result_line(event: ToolFinished) -> str:
    """Return the result of a call: its exit code if it has one, the time, the first words."""
    code = re.search(_EXIT, event.output)
    failed = not event.success or (code is not None and code[1] != "0")
    how = (f"exit {code[1]}" if code else "failed") if failed else "ok"
    said = _call_text(event) if failed or not code else ""
    return " · ".join(filter(None, [how, f"{event.seconds:.1f} s", one_line(said, _WIDTH)]))


def output_tail(event: ToolFinished) -> str:
    """Return the last lines of what a command printed; nothing where `result_line` has them."""
    code = re.search(_EXIT, event.output)
    if code is None or code[1] != "0":
        return ""
    lines = [line for line in _output_text(event.output).split("\n") if line.strip()]
    shown = [f"  {one_line(line, _WIDTH)}" for line in lines[-_TAIL_LINES:]]
    left = len(lines) - len(shown)
    return "\n".join(([f"  … {left} lines before"] if left else []) + shown)


def _call_text(event: ToolFinished) -> str:
    """Return what a call has said; what a user has answered, without its JSON."""
    if event.name != "request_user_input":
        return _output_text(event.output)
    try:
        given = decode_json(event.output, _UserAnswers).answers
    except msgspec.DecodeError:
        return _output_text(event.output)
    return "; ".join(", ".join(each.answers) for each in given.values())


def _output_text(output: str) -> str:
    """Return an output without the lines that a tool adds before it."""
    _, mark, text = output.partition("\nOutput:\n")
    return (text if mark else output).strip()
