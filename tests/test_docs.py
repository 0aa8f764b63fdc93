"""The code in the documentation runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.fork_server import run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks() -> Iterator[ParameterSet]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            yield pytest.param(match.group(1), id=f"{page.name}:{line}")


@pytest.mark.parametrize("code", list(blocks()))
def test_python_blocks_run(code: str, tmp_path: Path):
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    environ = {**os.environ, "TREADLE_HOME": str(home)}
    done = run([sys.executable, script], cwd=tmp_path, env=environ)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_shows_what_its_example_prints(tmp_path: Path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = BLOCK.search(text)
    assert shown
    assert code
    done = subprocess.run(
        [sys.executable, "-c", code.group(1)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    start, found, rest = shown.group(1).partition("…\n")
    assert (found, rest) == ("…\n", "")
    assert done.stdout.startswith(start)


def test_the_demo_does_what_its_script_claims():
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "demo.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    tries = re.findall(r"-B test_calc\.py\"}\n +(.*)", done.stdout)
    assert tries == ["AssertionError: 2 + 3 is not -1", "passed"]
