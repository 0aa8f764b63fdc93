from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.core.errors import ConfigError
from treadle.models.catalog import Catalog
from treadle.prompt.codex_import import find_codex, import_prompts
from treadle.prompt.imported_prompts import ImportedPrompts
from treadle.prompt.instructions import base_instructions, compaction_prompt, summary_prefix


def bundled(binary: Path, scratch: Path) -> dict[str, str]:
    output = subprocess.run(
        [binary, "debug", "models", "--bundled"],
        env={"HOME": str(scratch), "CODEX_HOME": str(scratch), "PATH": os.defpath},
        capture_output=True,
        check=True,
    ).stdout
    return {m["slug"]: m["base_instructions"] for m in json.loads(output)["models"]}


def test_a_real_codex_gives_its_prompts_byte_for_byte(tmp_path):
    home, scratch = tmp_path / "treadle", tmp_path / "scratch"
    scratch.mkdir()
    told: list[str] = []
    report = asyncio.run(import_prompts(find_codex(), home, told.append))
    truth = bundled(find_codex(), scratch)

    assert report.models == tuple(truth)
    assert report.files == len(truth) + 2
    assert len(told) == 3
    for slug, text in truth.items():
        profile = Catalog.load().profile(f"openai/{slug}-2026-01-01")
        assert base_instructions(Catalog.load().profile(slug), home) == text
        assert base_instructions(profile, home) == truth[profile.entry]
    ours = (compaction_prompt(), summary_prefix())
    theirs = (compaction_prompt(home), summary_prefix(home))
    assert all(theirs)
    assert not {*ours} & {*theirs}
    kept = ImportedPrompts(home)
    assert all(prompt.intact for prompt in kept.all())
    manifest = kept.manifest()
    assert manifest is not None
    assert (manifest.version, len(manifest.digests)) == (report.version, report.files)
    assert [path.name for path in (home / "prompts").iterdir()] == ["codex"]


def test_the_captured_texts_are_those_the_binary_holds(tmp_path):
    asyncio.run(import_prompts(find_codex(), tmp_path))
    data = find_codex().read_bytes()
    for text in (compaction_prompt(tmp_path), summary_prefix(tmp_path)):
        assert text.strip().encode() in data


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\nimport sys, time\nargs = sys.argv[1:]\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


VERSION = "if args == ['--version']: print('codex-cli 9.9.9'); sys.exit()\n"
LISTING = (
    "if args[0] == 'debug':"
    ' print(\'{"models":[{"slug":"m","base_instructions":"text"}]}\'); sys.exit()\n'
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('broken pieces')", r"`.*codex --version` ended with 1: broken pieces; try"),
        (VERSION + "print('no JSON')", r"codex-cli 9\.9\.9 gave a model list that cannot be read"),
        (VERSION + "print('{\"models\":[]}')", r"gave a model list without instructions"),
        (
            VERSION + 'print(\'{"models":[{"slug":"../m","base_instructions":"x"}]}\')',
            r"gave a model named '\.\./m'",
        ),
        (VERSION + LISTING, r"gave the requests \[\] where a compaction was due; Treadle knows"),
    ],
)
def test_a_binary_of_another_shape_is_refused_and_nothing_changes(tmp_path, body, message):
    imported = ImportedPrompts(tmp_path / "treadle")
    imported.replace({"compact.md": "before"}, source="codex", version="1")
    binary = script(tmp_path / "codex", body)
    with pytest.raises(ConfigError, match=message):
        asyncio.run(import_prompts(binary, tmp_path / "treadle"))
    assert compaction_prompt(tmp_path / "treadle") == "before"
    assert [path.name for path in (tmp_path / "treadle/prompts").iterdir()] == ["codex"]


def test_a_binary_that_cannot_be_run_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot run '.*nothing': No such file or directory"):
        asyncio.run(import_prompts(tmp_path / "nothing", tmp_path))


async def cancelled_import(binary: Path, home: Path, pipe: Path) -> int:
    task = asyncio.create_task(import_prompts(binary, home))
    pid = int(await asyncio.to_thread(pipe.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return pid


def test_a_cancelled_import_leaves_no_process_behind(tmp_path):
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    body = f"import os; open({str(pipe)!r}, 'w').write(str(os.getpid()))\n"
    binary = script(tmp_path / "codex", body + "time.sleep(600)")
    pid = asyncio.run(cancelled_import(binary, tmp_path / "treadle", pipe))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_binary_on_the_search_path_comes_first(tmp_path, monkeypatch):
    mine = script(tmp_path / "codex", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_codex() == mine


def test_without_any_codex_the_message_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
    with pytest.raises(ConfigError, match=r"no Codex was found; .* `pip install '\.\[codex\]'`"):
        find_codex()
