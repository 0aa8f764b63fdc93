from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from treadle.harness.codex.errors import CodexMissing
from treadle.harness.codex.version import (
    SUPPORTED_VERSIONS,
    Version,
    probe_version,
    version_problem,
)
from treadle.prompt.codex_import import find_codex


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("codex-cli 0.163.0\n", Version(0, 163, 0)),
        ("treadle/0.166.0 (Debian 12.0.0; x86_64) unknown (treadle; 0.1.0)", Version(0, 166, 0)),
        ("codex-cli 0.170.0-alpha.3", Version(0, 170, 0)),
        ("v1.2.3", Version(1, 2, 3)),
        ("Debian 12", None),
        ("", None),
    ],
)
def test_a_version_is_found_in_what_codex_says(text, version):
    assert Version.parse(text) == version


@pytest.mark.parametrize("minor", [160, 163, 166, 179])
def test_versions_in_the_range_are_fine(minor):
    assert version_problem(Version(0, minor, 9)) is None


def test_versions_outside_the_range_are_told_in_one_line_with_the_next_action():
    assert version_problem(Version(0, 159, 3)) == snapshot(
        "Codex 0.159.3 is older than Treadle supports (0.160.0 to before 0.180.0); update Codex"
    )
    assert version_problem(Version(0, 180, 0)) == snapshot(
        "Codex 0.180.0 is newer than Treadle supports (0.160.0 to before 0.180.0); "
        "update Treadle, or install an older Codex"
    )
    assert version_problem(None) == snapshot(
        "this Codex does not report its version; install one of 0.160.0 to before 0.180.0"
    )


async def test_the_installed_codex_is_supported():
    version = await probe_version(find_codex())
    assert version is not None
    assert version in SUPPORTED_VERSIONS


async def test_a_binary_that_is_missing_is_told_by_name(tmp_path: Path):
    with pytest.raises(CodexMissing, match=r"cannot run '.*nothing': No such file"):
        await probe_version(tmp_path / "nothing")


async def test_a_binary_that_hangs_is_given_up(tmp_path: Path):
    hanging = tmp_path / "codex"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    with pytest.raises(CodexMissing, match="did not end within"):
        await probe_version(hanging, seconds=0.1)


async def test_a_binary_that_says_something_else_has_no_version(tmp_path: Path):
    other = tmp_path / "codex"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    assert await probe_version(other) is None
