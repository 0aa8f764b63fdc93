"""smolagents: its agent that calls tools, streamed over Chat Completions, memory in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import common
from common import ANSWER, INSTRUCTIONS, MODEL, QUESTION, Job, Scenarios, drive
from smolagents import ActionStep, LogLevel, OpenAIModel, TaskStep, ToolCallingAgent, tool
from smolagents.agents import ToolCall
from smolagents.monitoring import Timing

OPEN: dict[str, Smol] = {}


@tool
def tick(number: int) -> int:
    """Counts.

    Args:
        number: where to count from
    """
    return common.tick(number)


@tool
def run_command(command: str) -> str:
    """Runs a command.

    Args:
        command: what to run
    """
    return common.run_command(command)


class Smol:
    """An agent with its memory."""

    def __init__(self, base: str, aside: bool) -> None:
        self.aside = aside
        self.agent = ToolCallingAgent(
            tools=[tick, run_command],
            model=OpenAIModel(model_id=MODEL, api_base=base, api_key="none"),
            instructions=INSTRUCTIONS,
            stream_outputs=True,
            max_steps=100,
            verbosity_level=LogLevel.OFF,
        )

    async def turn(self, said: str) -> None:
        """A run; it blocks, so that many at once need threads of the system."""
        if self.aside:
            await asyncio.to_thread(self.agent.run, said, reset=False)
        else:
            self.agent.run(said, reset=False)

    async def seed(self, turns: int) -> None:
        """Steps of a past."""
        for number in range(turns):
            call = ToolCall(name="final_answer", arguments={"answer": ANSWER}, id=f"s{number}")
            step = ActionStep(
                step_number=1,
                timing=Timing(start_time=0.0, end_time=0.0),
                tool_calls=[call],
                observations=ANSWER,
                model_output=ANSWER,
                is_final_answer=True,
            )
            self.agent.memory.steps += [TaskStep(task=f"{QUESTION} ({number})."), step]


@asynccontextmanager
async def opened(job: Job, script: str, name: str) -> AsyncIterator[Smol]:
    """An agent, or the one that has this name already."""
    if name not in OPEN or job.scenario != "resume":
        OPEN[name] = Smol(job.base(script), job.scenario == "threads")
    yield OPEN[name]


if __name__ == "__main__":
    drive("smolagents", Scenarios(opened, ending=".final"))
