"""Real packages that offer harnesses, and a harness that only answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from treadle.core.items import Message, OutputText
from treadle.engines.contract import Capability
from treadle.harness.contract import Outcome, Traits, TurnRun
from treadle.harness.events import TextDelta

MODULE = """\
from treadle.harness.offers import Registration
from tests.harness.packages import Parrot

harness = Registration(id="anything", label="A parrot", factory=lambda offer: Parrot())
"""


@dataclass
class Parrot:
    """A harness without a model: it says what it was told."""

    name: str = "parrot"
    traits: Traits = field(default_factory=Traits)
    capabilities: frozenset[Capability] = frozenset({"assemble-before-prompt"})
    left: list[str] = field(default_factory=list)
    forgot: list[str] = field(default_factory=list)
    closed: int = 0

    async def run(self, run: TurnRun) -> Outcome:
        told = f"{self.name} heard turn {run.log.turn}"
        run.emit(TextDelta(told))
        await run.log.append(Message(role="assistant", content=(OutputText(told),)))
        await run.log.turns.finish("completed")
        return Outcome(status="completed", text=told)

    async def leave(self, thread: str) -> None:
        self.left.append(thread)

    async def close(self) -> None:
        self.closed += 1

    async def forget(self, log) -> None:
        self.forgot.append(log.id)


def install(site: Path, name: str, *, distribution: str = "", module: str = MODULE) -> None:
    """Lay a distribution that offers a harness out in `site`."""
    distribution = distribution or f"treadle-{name.strip().lower()}"
    code = f"harness_of_{distribution.replace('-', '_')}"
    about = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[treadle.harnesses]\n{name} = {code}:harness\n")
    (site / f"{code}.py").write_text(module)
