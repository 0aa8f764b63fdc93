from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.engines.scenes import notices
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.errors import CodexMissing, UnsupportedCodex
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.codex.version import (
    SUPPORTED_VERSIONS,
    Version,
    check_codex,
    choose_codex,
    probe_version,
    version_problem,
)
from treadle.harness.offers import HarnessOffer
from treadle.harness.registry import HarnessRegistry
from treadle.prompt.codex_import import find_codex
from treadle.testing.appserver import AppScript

from .scenes import codex, hear, open_stage, use_scripted_server


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("codex-cli 0.163.0\n", Version(0, 163, 0)),
        ("treadle/0.166.0 (Debian 12.0.0; x86_64) unknown (treadle; 0.1.0)", Version(0, 166, 0)),
        ("codex-cli 0.170.0-alpha.3", Version(0, 170, 0, "alpha.3")),
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
        "update Treadle, install an older Codex, or set `codex.allow_newer`"
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


def program(place: Path, says: str, name: str = "codex") -> Path:
    """A program that says its version, in a directory of its own."""
    place.mkdir()
    file = place / name
    file.write_text(f"#!/bin/sh\necho {says}\n")
    file.chmod(0o755)
    return file


def test_the_suffix_of_a_version_is_shown():
    assert str(Version.parse("codex-cli 0.162.0-alpha.15")) == "0.162.0-alpha.15"


async def test_an_old_codex_on_the_search_path_hides_no_good_one(tmp_path: Path):
    old = program(tmp_path / "old", "codex-cli 0.150.0")
    assert await choose_codex(str(old.parent)) == find_codex("")
    good = program(tmp_path / "good", "codex-cli 0.165.0-alpha.1")
    assert await choose_codex(f"{old.parent}:{good.parent}") == good


async def test_a_newer_codex_comes_first_if_the_user_says_so(tmp_path: Path):
    new = program(tmp_path / "new", "codex-cli 0.999.0")
    assert await choose_codex(str(new.parent)) != new
    assert await choose_codex(str(new.parent), allow_newer=True) == new
    with pytest.raises(UnsupportedCodex, match="is newer than Treadle"):
        await check_codex(new)
    await check_codex(new, allow_newer=True)


async def test_a_broken_codex_on_the_search_path_hides_no_good_one(tmp_path: Path):
    broken = program(tmp_path / "broken", "whatever")
    assert await choose_codex(str(broken.parent)) == find_codex("")


async def test_the_host_s_own_search_path_decides(tmp_path: Path):
    good = program(tmp_path / "good", "codex-cli 0.165.0")
    offer = HarnessOffer(home=tmp_path, environ={"PATH": str(good.parent)})
    harness = await HarnessRegistry().make("codex", offer)
    assert isinstance(harness, CodexHarness)
    assert harness.options.binary == good


async def test_a_newer_codex_runs_with_a_warning_if_the_user_says_so(tmp_path: Path):
    options = CodexOptions(binary=codex(), allow_newer=True)
    async with open_stage(tmp_path, options=options) as stage:
        await use_scripted_server(stage, AppScript(version="0.999.0"))
        async with stage.thread() as thread:
            heard = await hear(thread, "Hello?")
            again = await hear(thread, "And now?")
    assert "Codex 0.999.0 is newer than Treadle knows" in "".join(notices(heard))
    assert notices(again) == []
