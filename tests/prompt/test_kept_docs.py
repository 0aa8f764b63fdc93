"""AGENTS.md files that were read before are read again when something about them has changed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from treadle.core.files import open_regular
from treadle.prompt import DocsRules, discover
from treadle.prompt.kept_docs import KeptDocs


class Reads:
    """Counts what is opened."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def __call__(self, path: Path) -> io.BufferedReader:
        self.opened.append(path.name)
        return open_regular(path)


def rewrite(path: Path, text: str) -> None:
    """Write until the kernel's clock for files has moved on."""
    before = path.stat().st_ctime_ns if path.exists() else 0
    while not path.exists() or path.stat().st_ctime_ns == before:
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    (tmp_path / "part").mkdir()
    return tmp_path


def test_what_has_not_changed_is_read_once(project: Path):
    kept, reads = KeptDocs(settles_after=-1), Reads()
    first = kept.discover(project / "part", open_file=reads)
    assert first is not None
    assert first == discover(project / "part")
    assert kept.discover(project / "part", open_file=reads) is first
    assert reads.opened == ["AGENTS.md"]


def change_text(project: Path) -> None:
    rewrite(project / "AGENTS.md", "Be quick!")


def change_and_hide_the_time(project: Path) -> None:
    path = project / "AGENTS.md"
    before = path.stat()
    rewrite(path, "Be quick!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def add_another(project: Path) -> None:
    (project / "part" / "AGENTS.md").write_text("Mind the part.", encoding="utf-8")


def override(project: Path) -> None:
    (project / "AGENTS.override.md").write_text("Be loud.", encoding="utf-8")


def remove(project: Path) -> None:
    (project / "AGENTS.md").unlink()


def replace_by_a_link(project: Path) -> None:
    (project / "other.md").write_text("Be brief.", encoding="utf-8")
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("other.md")
    rewrite(project / "other.md", "Be slow..")


def move_the_root(project: Path) -> None:
    (project / "part" / ".git").mkdir()


@pytest.mark.parametrize(
    "change",
    [
        change_text,
        change_and_hide_the_time,
        add_another,
        override,
        remove,
        replace_by_a_link,
        move_the_root,
    ],
)
def test_every_change_is_seen_at_once(project: Path, change):
    kept = KeptDocs(settles_after=-1)
    before = kept.discover(project / "part")
    change(project)
    after = kept.discover(project / "part")
    assert after == discover(project / "part")
    assert after != before


def test_what_a_link_leads_to_counts_too(project: Path):
    target = project / "target.md"
    target.write_text("one", encoding="utf-8")
    (project / "part" / "AGENTS.md").symlink_to(target)
    kept = KeptDocs(settles_after=-1)
    kept.discover(project / "part")
    rewrite(target, "two")
    found = kept.discover(project / "part")
    assert found is not None
    assert found.text.endswith("two")


def test_what_changed_a_moment_ago_is_read_again(project: Path):
    kept, reads = KeptDocs(), Reads()
    for _ in range(2):
        kept.discover(project, open_file=reads)
    assert reads.opened == ["AGENTS.md", "AGENTS.md"]


def test_another_question_has_another_answer(project: Path):
    kept = KeptDocs(settles_after=-1)
    assert kept.discover(project) is not None
    assert kept.discover(project, rules=DocsRules(max_bytes=0)) is None
    assert kept.discover(project) == discover(project)


def test_a_problem_is_looked_at_again(project: Path):
    (project / "AGENTS.md").write_bytes(b"a\0b")
    kept, reads = KeptDocs(settles_after=-1), Reads()
    for _ in range(2):
        found = kept.discover(project, open_file=reads)
        assert found is not None
        assert len(found.problems) == 1
    assert reads.opened == ["AGENTS.md", "AGENTS.md"]
