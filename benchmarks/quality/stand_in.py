"""A stand-in for a model: an OpenAI-compatible server that reads well and remembers nothing.

Owns what it answers: a question from the request alone, where its answer stands there; else it
searches once, where it has the tool; else it does not know. Its summaries say nothing of any
fact. Invariant: it knows no fact that the request does not show, so its figures say what a
model could have known, not how well one reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treadle.core.loopback import LoopbackRequest
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script

from .spoken import Fact

__all__ = ["StandIn"]

SUMMARY = "Several parts of a program were looked at, and a few things about them were settled."
UNKNOWN = "I do not know."
SEARCH = "recall_search"


class StandIn:
    """Answers the questions of one talk; enter its `server` to start it."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._facts = facts
        self.server = FakeServer(Script(), apis=("chat",), on_request=self._prepare)

    def _prepare(self, request: LoopbackRequest) -> None:
        if request.method == "POST":
            self.server.play(Script(answers=(self._answer(request.payload),)))

    def _answer(self, asked: Mapping[str, Any]) -> Answer:
        messages = [(message["role"], _text(message)) for message in asked["messages"]]
        found = self._question(messages)
        if found is None:
            return Answer(text=SUMMARY)
        at, fact = found
        shown = "\n".join(text for number, (_, text) in enumerate(messages) if number != at)
        if fact.is_in(shown):
            return Answer(text=f"It was {fact.needed.split('|')[0]}.")
        has_search = any(tool["function"]["name"] == SEARCH for tool in asked.get("tools", ()))
        if has_search and all(role != "tool" for role, _ in messages[at:]):
            return Answer(calls=(Call(name=SEARCH, arguments={"query": fact.question}),))
        return Answer(text=UNKNOWN)

    def _question(self, messages: Sequence[tuple[str, str]]) -> tuple[int, Fact] | None:
        """Return where the newest question stands, and its fact; None if there is none."""
        for at, (role, text) in reversed(list(enumerate(messages))):
            if role == "user":
                # Summaries are asked for in messages that only quote what was said.
                facts = [fact for fact in self._facts if text.strip() == fact.question]
                return (at, facts[0]) if facts else None
        return None


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)
