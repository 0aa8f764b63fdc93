"""The OpenAI Agents SDK: streamed runs over the Responses API, a session in a SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import common
from agents import Agent, Runner, SQLiteSession, function_tool
from agents.models.openai_responses import OpenAIResponsesModel
from common import ANSWER, INSTRUCTIONS, MODEL, QUESTION, Job, Scenarios, drive
from openai import AsyncOpenAI


@function_tool
def tick(number: int) -> int:
    """Counts."""
    return common.tick(number)


@function_tool
def run_command(command: str) -> str:
    """Runs a command."""
    return common.run_command(command)


class Session:
    """An agent and its session."""

    def __init__(self, client: AsyncOpenAI, session: SQLiteSession) -> None:
        self.session = session
        model = OpenAIResponsesModel(model=MODEL, openai_client=client)
        tools = [tick, run_command]
        self.agent = Agent(name="coder", instructions=INSTRUCTIONS, tools=tools, model=model)

    async def turn(self, said: str) -> None:
        """A streamed run."""
        running = Runner.run_streamed(self.agent, said, session=self.session, max_turns=100)
        async for _ in running.stream_events():
            pass

    async def seed(self, turns: int) -> None:
        """Items of a past."""
        for number in range(turns):
            await self.session.add_items(
                [
                    {"role": "user", "content": f"{QUESTION} ({number})."},
                    {
                        "type": "message",
                        "role": "assistant",
                        "id": f"msg_s{number}",
                        "status": "completed",
                        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
                    },
                ]
            )


@asynccontextmanager
async def opened(job: Job, script: str, name: str) -> AsyncIterator[Session]:
    """A session with a client of its own."""
    session = SQLiteSession(name, job.scratch / "sessions.db")
    async with AsyncOpenAI(base_url=job.base(script), api_key="none") as client:
        yield Session(client, session)
    session.close()


if __name__ == "__main__":
    drive("openai-agents", Scenarios(opened))
