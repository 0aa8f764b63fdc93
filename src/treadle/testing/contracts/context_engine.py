"""The contract of a context engine: every sentence of the seam, as a test.

Name the factory of an engine, as an entry point would:

    class TestMyEngine(ContextEngineContract):
        factory = "my_package:engine"

and run it under pytest-asyncio's auto mode. Which tests there are follows from what the
engine can do; they drive it directly, and in real threads on a real store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from ...engines.contract import ContextEngine
from ...engines.defects import optional_powers
from ...engines.loading import EngineContext, EngineRegistry
from ..engine_fixture import dispose_engine
from .engine_kills import KillsContract
from .engine_memory import MemoryContract
from .engine_powers import remove_tests
from .engine_turns import TurnsContract, reached_calls
from .engine_views import ViewsContract

__all__ = ["ContextEngineContract"]


class ContextEngineContract(ViewsContract, MemoryContract, TurnsContract, KillsContract):
    """What every `ContextEngine` must do. Subclass it and name the engine's factory."""

    factory: ClassVar[str] = ""
    """Where the factory is, as ``module:name``."""
    config: ClassVar[dict[str, Any]] = {}
    """The settings that the engine is made with."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.factory:
            sample = asyncio.run(cls._sample())
            remove_tests(cls, sample)
            cls.reached = reached_calls(optional_powers(sample))

    @classmethod
    async def make_engine(cls, home: Path) -> ContextEngine:
        """Make the engine, with `home` for its files."""
        context = EngineContext(home=home, config=dict(cls.config), cwd=home)
        found = await EngineRegistry().examine(cls.factory, context)
        assert found.engine is not None, found.problem and found.problem.message
        return found.engine

    @classmethod
    async def _sample(cls) -> ContextEngine:
        with TemporaryDirectory() as home:
            engine = await cls.make_engine(Path(home))
            await dispose_engine(engine)
        return engine

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """Make the directory for the engine's files."""
        home = tmp_path / "engine"
        home.mkdir()
        return home

    @pytest.fixture
    async def engine(self, home: Path) -> AsyncIterator[ContextEngine]:
        """Make the engine, and dispose of it at the end."""
        engine = await self.make_engine(home)
        yield engine
        await dispose_engine(engine)
