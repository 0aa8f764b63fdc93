"""Serving: the agent on standard input and output, for the program that started us.

Invariant: the end of the input ends the agent within seconds, with every turn durable.
"""

from __future__ import annotations

from acp import run_agent

from ..core.own_streams import take_streams
from .agent import TreadleAgent
from .standard_transport import StandardTransport

__all__ = ["serve"]


async def serve(agent: TreadleAgent) -> None:
    """Serve one client, until it closes our input."""
    with take_streams() as streams:
        try:
            await run_agent(agent, StandardTransport(streams), use_unstable_protocol=True)
        finally:
            await agent.close()
