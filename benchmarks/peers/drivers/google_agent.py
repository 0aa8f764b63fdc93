"""Google's ADK: its runner with a session in memory, streamed over Chat Completions (LiteLLM)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import common
from common import ANSWER, INSTRUCTIONS, QUESTION, Job, Scenarios, drive
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.events import Event
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

USER = "user"
OPEN: dict[str, Adk] = {}
STREAMED = RunConfig(streaming_mode=StreamingMode.SSE, max_llm_calls=0)


def tick(number: int) -> int:
    """Counts."""
    return common.tick(number)


def run_command(command: str) -> str:
    """Runs a command."""
    return common.run_command(command)


class Adk:
    """A runner and the session it is asked for."""

    def __init__(self, base: str, session: str) -> None:
        # A name that LiteLLM does not know, so that it asks by Chat Completions.
        model = LiteLlm("openai/instant", api_base=base, api_key="none")
        tools = [tick, run_command]
        agent = LlmAgent(name="coder", model=model, instruction=INSTRUCTIONS, tools=tools)
        self.runner = InMemoryRunner(agent, app_name="bench")
        self.session = session

    async def turn(self, said: str) -> None:
        """A streamed run."""
        async for _ in self.runner.run_async(
            user_id=USER,
            session_id=self.session,
            new_message=content("user", said),
            run_config=STREAMED,
        ):
            pass

    async def seed(self, turns: int) -> None:
        """Events of a past."""
        sessions = self.runner.session_service
        kept = await sessions.get_session(app_name="bench", user_id=USER, session_id=self.session)
        for number in range(turns):
            for author, role, text in (
                (USER, "user", f"{QUESTION} ({number})."),
                ("coder", "model", ANSWER),
            ):
                event = Event(author=author, content=content(role, text))
                await sessions.append_event(kept, event)


def content(role: str, text: str) -> types.Content:
    """A message of one part."""
    return types.Content(role=role, parts=[types.Part(text=text)])


@asynccontextmanager
async def opened(job: Job, script: str, name: str) -> AsyncIterator[Adk]:
    """A runner with a session, or the one that has this name already."""
    if name not in OPEN or job.scenario != "resume":
        made = OPEN[name] = Adk(job.base(script), name)
        sessions = made.runner.session_service
        await sessions.create_session(app_name="bench", user_id=USER, session_id=name)
    yield OPEN[name]


if __name__ == "__main__":
    drive("google-adk", Scenarios(opened))
