"""A stand-in for a model: it solves a task by its scripted solution, whoever asks.

Owns how a solution becomes answers that depend on a request alone. Invariant: the same request
gets the same answer, so an agent that was killed, began anew or compacted its conversation is
answered like one that did not. It looks first at how far the work is (`.steps`), as a careful
model would, and after each command it reads the mark of the step in the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from treadle.evaluation.task import Task
from treadle.testing.script import Answer, Call, Script, load_script

__all__ = ["LOOK", "Dialect", "stand_in_script", "steps_of"]

LOOK = "tail -n 1 .steps 2>/dev/null || echo '[step 0]'"
_SUMMARIES = ("Summarise the source now", "CONTEXT CHECKPOINT COMPACTION")
"""What requests for a summary say, of ours and of Codex."""


class Dialect:
    """How an agent wants its commands: the name of its tool, and of the argument."""

    def __init__(self, tool: str, argument: str, end: str = "") -> None:
        self.tool, self.argument, self.end = tool, argument, end

    def call(self, command: str) -> tuple[Call, ...]:
        """Return the call that runs a command."""
        arguments: dict[str, Any] = {self.argument: command}
        return (Call(name=self.tool, arguments=arguments),)


def steps_of(task: Task) -> list[str]:
    """Return the commands of a task's solution, in order."""
    calls = (call for answer in load_script(task.script).answers for call in answer.calls)
    return [str(call.arguments["cmd"]) for call in calls if isinstance(call.arguments, dict)]


def stand_in_script(task: Task, dialect: Dialect) -> Script:
    """Return the answers for a task; each can be given any number of times."""
    return Script(answers=tuple(_answers(steps_of(task), dialect)))


def _answers(steps: list[str], dialect: Dialect) -> Iterator[Answer]:
    yield Answer(endpoint="compact", text="The work goes on.", times=0)
    for asked in _SUMMARIES:
        yield Answer(when=asked, text="Doors were opened and files written.", times=0)
    done = f"[step {len(steps)}]"
    if dialect.end:
        yield Answer(when=done, text="Done.", calls=dialect.call(dialect.end), times=0)
    else:
        yield Answer(when=done, text="Done.", times=0)
    for number in reversed(range(len(steps))):
        command = f"{steps[number].rstrip()}\necho '[step {number + 1}]' | tee -a .steps"
        yield Answer(when=f"[step {number}]", calls=dialect.call(command), times=0)
    yield Answer(calls=dialect.call(LOOK), times=0)
