from __future__ import annotations

import os
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest

from treadle.core.specs import SPECS, spec_name
from treadle.models.profile import ModelProfile
from treadle.sandbox.bubblewrap import Bubblewrap
from treadle.sandbox.probe import find_bubblewrap
from treadle.tools.builtin_tools import builtin_tools
from treadle.tools.local import LocalExecutor

from .scenes import Scene


@cache
def bubblewrap(home: Path) -> Bubblewrap:
    return find_bubblewrap(home)


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


@pytest.fixture
async def scene(workspace: Path, shared_home: Path) -> AsyncIterator[Scene]:
    executor = LocalExecutor(
        home=shared_home,
        environ={"PATH": os.environ["PATH"], "HOME": str(workspace), "SECRET_TOKEN": "hush"},
        sandbox=bubblewrap(shared_home),
    )
    tools = builtin_tools(ModelProfile(slug="m", apply_patch="freeform", images=True))
    yield Scene(executor, workspace, shared_home, tools=tools)
    await executor.close()


@pytest.fixture
def scene_tools() -> dict[str, str]:
    profile = ModelProfile(slug="m", apply_patch="freeform", images=True, original_images=True)
    return {
        spec_name(tool.spec): SPECS.encode(tool.spec).decode() for tool in builtin_tools(profile)
    }
