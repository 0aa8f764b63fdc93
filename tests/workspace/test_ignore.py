from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.workspace.disk_scan import is_passed_over, walk
from treadle.workspace.ignore import is_ignored, parse_ignore_file

PATTERNS = [
    *("a", "/a", "a/", "b/a", "/b/a/", "*.x", "a*", "*a*", "?", "[ab]", "[!a]", "[^a]*"),
    *("**/a", "b/**", "b/**/a", "**", "**/", "a**", "**a/b", "/**/c", "b/*/a", "*/a"),
    *("#a", r"\#a", "!a", r"\!a", "a ", r"a\ ", "  a", "", "/", "//", "[", "[a", "a]"),
    *("*\n!a", "*\n!*/\n!*.x", "a\n!b/a", "b/*\n!b/a", "*.x\n!c.x", r"\a", r"a\b", "[a-c]"),
    *("[]]", "[]a]", "[a-]", "b/c/", "b/c/**", "b/**/", "a/*", "/*", "/*.x", "c.?", "*.*"),
]
FILES = [
    *("a", "b/a", "b/c/a", "b/b/a", "c.x", "b/c.x", "b/c/d.x", "ab", "ba/a", "#a", "!a", "a "),
    *("  a", "]", "-", "[", "[a", "a]", "d/a", "d/b", "d/c/b", "x/a/y", "x/a/b"),
]


def looked_at(root: Path) -> set[str]:
    return {os.fsdecode(path) for path, each in walk(root, ()).entries.items() if each.kind == "f"}


def test_what_is_ignored_is_what_git_ignores(tmp_path):
    different = {}
    for number, rules in enumerate(PATTERNS):
        root = tmp_path / str(number)
        for name in FILES:
            place = root / name
            if not any(parent.is_file() for parent in place.parents) and not place.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text("")
        (root / ".gitignore").write_text(f"{rules}\n")
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        kept = subprocess.run(
            ["git", "ls-files", "-z", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
        ).stdout.split(b"\0")
        expected = {os.fsdecode(path) for path in kept if path}
        if (found := looked_at(root)) != expected:
            different[rules] = (sorted(found - expected), sorted(expected - found))
    assert different == {}


@settings(max_examples=60, deadline=None)
@given(rules=st.text("ab*?/[]!#\\ .", max_size=12), path=st.text("ab/.", min_size=1, max_size=12))
def test_no_pattern_breaks_a_walk(rules, path):
    file = parse_ignore_file(b"", rules.encode())
    assert is_ignored(path.encode(), [file]) in (True, False)


def test_a_pattern_with_many_stars_is_no_trap(tmp_path):
    (tmp_path / ".gitignore").write_text("*a*a*a*a*a*a*a*a*a*b\n**/a*/**/a*/**/a*/**/b\n")
    deep = tmp_path / "/".join(["a" * 40] * 20)
    deep.mkdir(parents=True)
    (deep / ("a" * 200)).write_text("")
    assert len(walk(tmp_path, ()).entries) == 22
    assert not is_passed_over(tmp_path, os.fsencode(deep.relative_to(tmp_path)) + b"/a", ())


def test_a_link_is_no_directory(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_text("")
    (tmp_path / "link").symlink_to("real")
    found = walk(tmp_path, ()).entries
    assert {os.fsdecode(path): each.kind for path, each in found.items()} == {
        "real": "d",
        "real/file": "f",
        "link": "l",
    }
