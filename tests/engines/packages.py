"""Real packages: a directory that looks installed, with entry points of its own."""

from __future__ import annotations

from pathlib import Path

ENGINE = """\
from treadle.engines.contract import EngineInfo, Requirement
from treadle.engines.values import AssembleResult, CommitResult, CompactResult, IngestResult


class Engine:
    info = EngineInfo(id={id!r}, name="An engine", version="1.2")

    def __init__(self, context):
        self.context = context

    async def ingest(self, given):
        return IngestResult(ingested=True)

    async def assemble(self, given):
        return AssembleResult(items=given.items)

    async def compact(self, given):
        return await given.delegate()
"""


def install(
    site: Path, distribution: str, offers: dict[str, str], modules: dict[str, str] | None = None
) -> Path:
    """Lay a distribution with these entry points and modules out in `site`."""
    about = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in offers.items()]
    (about / "entry_points.txt").write_text("\n".join(["[treadle.engines]", *lines, ""]))
    for name, text in (modules or {}).items():
        (site / f"{name}.py").write_text(text)
    return site


def install_engine(site: Path, engine: str, *, distribution: str = "", body: str = "") -> Path:
    """A distribution that offers one engine, with more code at the end of its module."""
    module = f"pkg_{engine.replace('-', '_')}_{distribution.replace('-', '_')}"
    return install(
        site,
        distribution or f"treadle-{engine}",
        {engine: f"{module}:Engine"},
        {module: ENGINE.format(id=engine) + body},
    )
