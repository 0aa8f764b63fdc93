"""Treadle as an external agent of Harbor: the loop, the log and the keys stay here.

harbor run -p TASK -m openai/gpt-5.5 --agent-import-path examples.harbor.treadle_agent:TreadleAgent
"""

from __future__ import annotations

from pathlib import Path
from typing import override

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

import treadle
from treadle.hosts.unattended import answer_unattended
from treadle.thread.options import Rights, ToolOptions
from treadle.transfer.exporting import export_thread

from .environment_executor import EnvironmentExecutor

__all__ = ["TreadleAgent"]


class TreadleAgent(BaseAgent):
    """Runs a task as one turn of a thread; `--ak engine=lossless` chooses the engine."""

    capabilities = AgentCapabilities(atif=True)

    def __init__(self, logs_dir: Path, *, engine: str = "linear", **options: object) -> None:
        super().__init__(logs_dir, **options)
        self._engine = engine

    @staticmethod
    @override
    def name() -> str:
        return "treadle"

    @override
    def version(self) -> str:
        return treadle.__version__

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        """Install nothing: commands are all that happens in the environment."""

    @override
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        """Run the task; the home with the log is among the logs of the trial."""
        executor = EnvironmentExecutor(environment)
        place = (await executor.run("pwd")).strip()
        provider, _, model = (self.model_name or "").partition("/")
        async with treadle.Thread.open(
            model=f"{provider}:{model}",
            cwd=place,
            home=self.logs_dir / "home",
            engine=self._engine,
            # The container is the sandbox.
            rights=Rights(sandbox="danger-full-access", approval="never"),
            tools=ToolOptions(executor=executor, rewind_files=False),
        ) as thread:
            try:
                async for event in thread.run(instruction):
                    answer_unattended(thread, event)
            finally:
                await self._report(thread, context)

    async def _report(self, thread: treadle.Thread, context: AgentContext) -> None:
        """Say what it used, also where the time was over."""
        used = await thread.usage()
        context.n_input_tokens = used.total.input_tokens
        context.n_cache_tokens = used.total.cached_input_tokens or 0
        context.n_output_tokens = used.total.output_tokens
        context.cost_usd = used.cost.amounts.get("USD") if used.cost.known else None
        context.metadata = {"thread": thread.id, "engine": self._engine}
        parts = [part async for part in export_thread(thread.store, thread.id, "atif")]
        (self.logs_dir / "trajectory.json").write_bytes(b"".join(parts))
