"""Figures: what the turns of this process did, as text that Prometheus reads.

Owns the names of the figures. Invariants: they only grow, but for the gauge of running turns; and
no label has more than a few values, none of them a word of a conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..core.entries import Reason
from ..harness.events import (
    AgentReported,
    Event,
    StepStarted,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    UsageReported,
)

__all__ = ["FIGURES_TYPE", "TurnFigures"]

FIGURES_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HELP = {
    "turns_total": "Turns that have ended, by how.",
    "requests_total": "Requests to models.",
    "request_bytes_total": "Bytes of requests.",
    "shared_bytes_total": "Bytes of requests that began like the request before.",
    "tokens_total": "Tokens that providers counted; cached ones are part of the input.",
    "prefix_breaks_total": "Requests that changed the cached prefix, by the reason.",
    "tool_calls_total": "Calls of tools, by whether they succeeded.",
    "tool_seconds_total": "Seconds that calls took.",
    "cost_total": "What turns cost where prices are known, without their agents.",
}


class TurnFigures:
    """Counts what turns report."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, str]] = Counter()
        self._running = 0

    def add(self, event: Event) -> None:
        """Count an event; those of agents count, too."""
        while isinstance(event, AgentReported):
            event = event.event
        match event:
            case TurnStarted():
                self._running += 1
            case TurnCompleted():
                self._end(event)
            case StepStarted():
                self._count("requests_total", 1)
                self._count("request_bytes_total", event.size)
                self._count("shared_bytes_total", event.shared)
                if event.reason not in (None, Reason.START):
                    self._count("prefix_breaks_total", 1, reason=event.reason)
            case UsageReported(usage=usage):
                self._count("tokens_total", usage.input_tokens, kind="input")
                self._count("tokens_total", usage.cached_input_tokens or 0, kind="cached")
                self._count("tokens_total", usage.output_tokens, kind="output")
            case ToolFinished():
                self._count("tool_calls_total", 1, success=str(event.success).lower())
                self._count("tool_seconds_total", event.seconds)

    def text(self) -> str:
        """Return all figures in the exposition format."""
        return "".join(f"{line}\n" for line in self._lines())

    def _end(self, event: TurnCompleted) -> None:
        self._running = max(self._running - 1, 0)
        self._count("turns_total", 1, status=event.status)
        for currency, amount in event.cost.amounts.items():
            self._count("cost_total", amount, currency=currency)

    def _count(self, name: str, amount: float, **labels: str) -> None:
        told = ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items())
        self._counted[name, f"{{{told}}}" if told else ""] += amount  # type: ignore[assignment]

    def _lines(self) -> Iterator[str]:
        yield "# HELP treadle_turns_running Turns that run now."
        yield "# TYPE treadle_turns_running gauge"
        yield f"treadle_turns_running {self._running}"
        for name, meaning in _HELP.items():
            yield f"# HELP treadle_{name} {meaning}"
            yield f"# TYPE treadle_{name} counter"
            for (counted, labels), amount in sorted(self._counted.items()):
                if counted == name:
                    yield f"treadle_{name}{labels} {amount:.15g}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
