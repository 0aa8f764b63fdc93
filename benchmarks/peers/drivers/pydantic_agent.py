"""Pydantic AI: streamed runs over the Responses API; the host keeps the messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import common
from common import ANSWER, INSTRUCTIONS, MODEL, QUESTION, Job, Scenarios, drive
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def tick(number: int) -> int:
    """Counts."""
    return common.tick(number)


def run_command(command: str) -> str:
    """Runs a command."""
    return common.run_command(command)


class Messages:
    """An agent and what was said, which the host passes in."""

    def __init__(self, base: str, messages: list[ModelMessage]) -> None:
        provider = OpenAIProvider(base_url=base, api_key="none")
        model = OpenAIResponsesModel(MODEL, provider=provider)
        self.agent = Agent(model, instructions=INSTRUCTIONS, tools=[tick, run_command])
        self.messages = messages

    async def turn(self, said: str) -> None:
        """A streamed run."""
        limits = UsageLimits(request_limit=None)
        async with self.agent.run_stream(
            said, message_history=self.messages, usage_limits=limits
        ) as running:
            async for _ in running.stream_text(delta=True, debounce_by=None):
                pass
            self.messages = running.all_messages()

    async def seed(self, turns: int) -> None:
        """Messages of a past."""
        for number in range(turns):
            said = UserPromptPart(f"{QUESTION} ({number}).")
            self.messages = [
                *self.messages,
                ModelRequest([said], instructions=INSTRUCTIONS),
                ModelResponse([TextPart(ANSWER)]),
            ]


@asynccontextmanager
async def opened(job: Job, script: str, name: str) -> AsyncIterator[Messages]:
    """A conversation whose messages are kept in a file, as the documentation has it."""
    kept = job.scratch / f"{name}.json"
    past = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else []
    conversation = Messages(job.base(script), past)
    yield conversation
    if job.scenario == "resume":
        kept.write_bytes(ModelMessagesTypeAdapter.dump_json(conversation.messages))


if __name__ == "__main__":
    drive("pydantic-ai-slim", Scenarios(opened))
