from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import treadle

PROBE = """
import json, sys
touched = []
def watch(event, args):
    if event == "open" and not str(args[0]).endswith((".py", ".pyc", ".so")):
        touched.append(["open", str(args[0])])
    elif event.startswith(("socket.", "subprocess.", "sqlite3.", "os.mkdir", "os.putenv")):
        touched.append([event, repr(args)])
sys.addaudithook(watch)
import {module}
print(json.dumps([touched, sorted(sys.modules)]))
"""

HEAVY = {
    "click", "rich", "treadle.cli", "http.client", "urllib.request", "aiohttp", "httpx", "httpx2",
    "requests", "urllib3", "openai", "anthropic", "prompt_toolkit", "apsw",
}  # fmt: skip


def probe(module: str) -> tuple[list[list[str]], set[str]]:
    code = PROBE.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    touched, modules = json.loads(done.stdout)
    return touched, set(modules)


def test_import_treadle_does_no_io_and_loads_nothing_heavy():
    touched, modules = probe("treadle")
    assert touched == []
    assert not modules & (HEAVY | {"treadle.thread.thread", "sqlite3", "asyncio"})


def test_the_thread_loads_neither_the_command_line_nor_an_http_client():
    touched, modules = probe("treadle.thread.thread")
    assert touched == []
    assert not modules & HEAVY


def test_an_engine_that_can_search_loads_the_search_with_the_first_one():
    _, modules = probe("treadle.engines.lossless.engine")
    assert not [name for name in modules if name.startswith(("snowballstemmer", "re2"))]


def test_every_public_name_is_there_and_has_a_docstring():
    undocumented = [name for name in treadle.__all__ if not getattr(treadle, name).__doc__]
    assert undocumented == []
    assert sorted(treadle.__all__) == dir(treadle)
    assert len(treadle.__all__) <= 80


def test_every_module_names_its_public_surface():
    source = Path(treadle.__file__).parent
    modules = [path for path in source.rglob("*.py") if not path.name.startswith("__")]
    without = [
        str(path.relative_to(source))
        for path in modules
        if not re.search(r"^__all__ = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert without == []


def test_every_policy_of_the_plan_is_closed_to_harnesses():
    project = Path(__file__).parent.parent / "pyproject.toml"
    rules = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (rule,) = [each for each in rules if each["name"].startswith("Harnesses go by the plan")]
    files = (Path(treadle.__file__).parent / "policy").glob("[!_]*.py")
    values = {
        *("failures", "fallback", "identity", "limits", "outcome", "pricing", "traits"),
        "turn_plan",
    }
    policy = {f"treadle.policy.{file.stem}" for file in files if file.stem not in values}
    assert policy == {
        name for name in rule["forbidden_modules"] if re.fullmatch(r"treadle\.policy\.\w+", name)
    }
    assert "treadle.delivery" in rule["forbidden_modules"]
