from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.conftest import bubblewrap

__all__ = ["bubblewrap"]


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory
