"""Activity: lines that show the user what an agent does.

Owns the words for calls, results and everything else that is no answer. Invariant: a
line is safe for a terminal and short, whatever a model or a tool wrote.
"""

from __future__ import annotations

import re
from typing import Any

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
from .output import one_line

__all__ = ["activity", "call_line", "patch_in", "result_line", "unwrap_agent"]

_WIDTH = 160
_NOTICE = 1_000
"""A notice ends with the next action, so it is not cut."""
_NAME = 40
_BEGIN, _END = "*** Begin Patch\n", "\n*** End Patch"
_PATCHED = r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$"
_EXIT = r"(?m)^(?:Process exited with code|Exit code:) (-?\d+)$"


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
            again = f"trying again in {event.delay:.1f} s ({event.attempt} of {event.most})"
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
        case TurnCompleted(status=status, error=error):
            return one_line(f"• {names} {status}" + (f": {error}" if error else ""), _WIDTH)
        case ToolStarted(name=name, arguments=arguments):
            return one_line(f"• {names} {call_line(name, arguments)}", _WIDTH)
        case _:
            return None


def call_line(name: str, arguments: str) -> str:
    """Describe a call on one line."""
    if patch := patch_in(name, arguments):
        return one_line(f"patch {', '.join(re.findall(_PATCHED, patch))}", _WIDTH)
    given = _object(arguments)
    match name:
        case "exec_command" | "shell_command" | "shell" | "local_shell":
            command = given.get("cmd") or given.get("command") or arguments
            return one_line(_command_text(command, " "), _WIDTH)
        case "write_stdin":
            typed = given.get("chars") or ""
            wrote = f"types {typed!r} into" if typed else "looks at"
            return one_line(f"{wrote} session {given.get('session_id')}", _WIDTH)
        case "update_plan":
            return one_line(f"plan: {_steps(given)}", _WIDTH)
        case "view_image":
            return one_line(f"looks at {given.get('path')}", _WIDTH)
        case _:
            return one_line(f"{name} {arguments}", _WIDTH)


def patch_in(name: str, arguments: str) -> str | None:
    """Return the patch that a call applies, directly or through a shell."""
    if name == "apply_patch":
        text = str(_object(arguments).get("input") or arguments)
    else:
        command = _object(arguments).get("cmd") or _object(arguments).get("command") or ""
        text = _command_text(command, "\n")
        if "apply_patch" not in text:
            return None
    return _whole_patch(text)


def _whole_patch(text: str) -> str | None:
    """Return the lines from the first start of a patch to the first end after it."""
    start = 0 if text.startswith(_BEGIN) else text.find(f"\n{_BEGIN}") + 1
    end = text.find(_END, start)
    return text[start : end + len(_END)] if text.startswith(_BEGIN, start) and end >= 0 else None


def _command_text(command: object, by: str) -> str:
    """Return a command as text, whatever type the model sent."""
    return by.join(map(str, command)) if isinstance(command, list) else str(command)


def result_line(event: ToolFinished) -> str:
    """Return the result of a call: its exit code if it has one, the time, the first words."""
    code = re.search(_EXIT, event.output)
    failed = not event.success or (code is not None and code[1] != "0")
    how = (f"exit {code[1]}" if code else "failed") if failed else "ok"
    said = _output_text(event.output) if failed or not code else ""
    return " · ".join(filter(None, [how, f"{event.seconds:.1f} s", one_line(said, _WIDTH)]))


def _output_text(output: str) -> str:
    """Return an output without the lines that a tool adds before it."""
    _, mark, text = output.partition("\nOutput:\n")
    return (text if mark else output).strip()


def _steps(given: dict[str, Any]) -> str:
    marks = {"completed": "✓", "in_progress": "→"}
    steps = given.get("plan")
    entries = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    return ", ".join(
        f"{marks.get(str(step.get('status')), '○')} {step.get('step', '')}" for step in entries
    )


def _object(text: str) -> dict[str, Any]:
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
