from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import treadle.prompt

PACKAGE = Path(treadle.prompt.__file__).parent
READING = {
    "codex_import",
    "imported_prompts",
    "input",
    "instructions",
    "kept_docs",
    "machine",
    "today",
}
"""Modules that read files or the clock on purpose, before or beside rendering."""
RENDERING = sorted({path.stem for path in PACKAGE.glob("*.py")} - READING)
IMPURE = {"datetime", "io", "os", "pathlib", "platform", "random", "secrets", "shutil", "socket"}
IMPURE |= {"subprocess", "sys", "tempfile", "time", "uuid"}


def imports(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("module", RENDERING)
def test_rendering_reaches_for_no_clock_environment_or_file(module: str):
    source = (PACKAGE / f"{module}.py").read_text()
    assert imports(source) & IMPURE == set()
    assert "open(" not in source


SCRIPT = """
from tests.prompt.samples import SAMPLES
from treadle.prompt import *
registry = default_registry()
ctx = PromptContext(
    cwd="/r", guidance="g", agents_docs=AgentsDocs("/r", "a"),
    approved_prefixes=(("b",), ("a",), ("c", "d")),
    additional_context={k: ContextValue(k) for k in ("z", "a", "m")},
)
print(repr(context_update(registry, {}, take_snapshots(registry, ctx)).messages[0].message))
for make in SAMPLES.values():
    print(repr(make("<skill> # AGENTS.md instructions").render()))
"""


def test_two_processes_say_the_same_bytes():
    root = Path(__file__).parents[2]
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}/src:{root}", "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    ]
    assert said[0] == said[1] != b""
