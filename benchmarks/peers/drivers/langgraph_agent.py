"""LangGraph: its ready-made agent over the Responses API, with its checkpointer in memory."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import common
from common import ANSWER, INSTRUCTIONS, MODEL, QUESTION, Job, Scenarios, drive
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent

CHECKPOINTS = InMemorySaver()


@tool
def tick(number: int) -> int:
    """Counts."""
    return common.tick(number)


@tool
def run_command(command: str) -> str:
    """Runs a command."""
    return common.run_command(command)


class Graph:
    """A graph and the thread it is asked for."""

    def __init__(self, base: str, thread: str) -> None:
        model = ChatOpenAI(
            model=MODEL, base_url=base, api_key="none", use_responses_api=True, streaming=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.graph = create_react_agent(
                model, [tick, run_command], prompt=INSTRUCTIONS, checkpointer=CHECKPOINTS
            )
        self.config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": 500}

    async def turn(self, said: str) -> None:
        """A run whose messages are streamed."""
        given = {"messages": [HumanMessage(said)]}
        async for _ in self.graph.astream(given, self.config, stream_mode="messages"):
            pass

    async def seed(self, turns: int) -> None:
        """Messages of a past."""
        past = [
            message
            for number in range(turns)
            for message in (HumanMessage(f"{QUESTION} ({number})."), AIMessage(ANSWER))
        ]
        if past:
            await self.graph.aupdate_state(self.config, {"messages": past}, as_node="agent")


@asynccontextmanager
async def opened(job: Job, script: str, name: str) -> AsyncIterator[Graph]:
    """A graph for a thread."""
    yield Graph(job.base(script), name)


if __name__ == "__main__":
    drive("langgraph", Scenarios(opened))
