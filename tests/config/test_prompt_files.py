"""Prompt files: which are found, and what their headers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.config.prompt_files import PromptFile, find_prompt_files
from treadle.core.files import open_regular


def header(text: str) -> object:
    return PromptFile("a", Path("a.md"), "yours", f"---\n{text}\n---\nBody.\n".encode()).header


def test_headers_have_texts_lists_and_blocks():
    assert header(
        "# a comment\nname: 'one'\n\ntools: [a, \"b\"]\nmore:\n  - c\n  - 'd'\n"
        "long: >-\n  first\n  second\nplain: it is: so\nempty:\n"
    ) == {
        "name": "one",
        "tools": ("a", "b"),
        "more": ("c", "d"),
        "long": "first second",
        "plain": "it is: so",
        "empty": "",
    }


def test_a_line_that_is_no_key_is_named():
    with pytest.raises(ValueError, match="has a line that is no `key: value`: 'name = x'"):
        header("name = x")


@pytest.mark.parametrize("line", ["name: &a x", "name: a\nname: b", "tools:\n  read: yes"])
def test_what_a_header_cannot_say_is_never_passed_over(line: str):
    with pytest.raises(ValueError, match="its front matter "):
        header(line)


def test_a_file_without_a_header_is_all_prompt():
    file = PromptFile("a", Path("a.md"), "yours", b"Look:\r\n---\r\nat this\r\n")
    assert (file.header, file.prompt) == ({}, "Look:\n---\nat this")
    empty = PromptFile("a", Path("a.md"), "yours", b"---\n---\nBody.")
    assert (empty.header, empty.prompt) == ({}, "Body.")
    endless = PromptFile("a", Path("a.md"), "yours", b"---\nname: x")
    assert (endless.header, endless.prompt) == ({}, "---\nname: x")


def test_the_nearest_directories_of_the_project_count_and_the_users_go_first(tmp_path: Path):
    own, root = tmp_path / "home", tmp_path / "project"
    inner = root / "inner" / "deep"
    for place in (own, root / ".git", root / ".x", root / ".y", inner, tmp_path / ".x"):
        place.mkdir(parents=True)
    (tmp_path / ".x" / "above.md").write_text("not ours")
    (root / ".x" / "both.md").write_text("x")
    (root / ".y" / "both.md").write_text("y")
    (root / ".y" / "second.md").write_text("y")
    (root / ".y" / "No.TXT").write_text("y")
    (root / ".y" / "mine.md").write_text("y")
    (own / "Mine.md").write_text("own")
    (own / "link.md").symlink_to("nowhere")
    found = find_prompt_files(inner, own=own, project=(".x", ".y"), open_file=open_regular)
    assert {name: (each.source, each.prompt) for name, each in found.items()} == {
        "both": ("project", "x"),
        "second": ("project", "y"),
        "mine": ("yours", "own"),
        "link": ("yours", ""),
    }
    assert found["link"].problem == "cannot be read: No such file or directory"
