from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from tests.cli.terminal import SCRIPT
from tests.fork_server import run
from treadle.core.redact import add_secrets
from treadle.web.html_export import export_page
from treadle.web.inspected_home import ShownHome
from treadle.web.inspector import Inspector

from .inspector_home import make_long_thread
from .served import footprint

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def data_of(html: str) -> dict[str, Any]:
    (found,) = DATA.findall(html)
    data: dict[str, Any] = json.loads(found)
    return data


async def test_a_file_holds_a_thread_and_runs_nothing_but_its_own_script(
    shown_home: Path,
) -> None:
    add_secrets("image is worth a thousand")
    inspector = Inspector(ShownHome(shown_home))
    threads = {each["name"]: each for each in (await threads_of(inspector))}
    hostile = next(each for name, each in threads.items() if "script" in name)
    page = (await export_page(inspector, hostile["id"], requests=5)).html
    # Text of strangers stands in the data only, and nothing in it ends the block.
    assert page.count("<script") == page.count("</script>") == 2
    assert "window.pwned" in page
    assert "<script>window.pwned" not in page
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    style = page.partition("<style>")[2].partition("</style>")[0]
    policy = page.partition('content-security-policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for text in (script, style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "//" not in page.partition("<style>")[0]
    assert "url(" not in style.replace('url("#', "")
    assert "import {" not in script
    assert "sk-live-abcdefghijklmnop" not in page
    answers = data_of(page)["answers"]
    base = f"/api/threads/{hostile['id']}"
    assert answers["/api/server"] == {**answers["/api/server"], "home": "", "control": False}
    assert answers[f"{base}/requests/2/verify"]["same"]
    assert "window.pwned" in json.dumps(answers[f"{base}/entries"])
    assert all(str(shown_home) not in json.dumps(each) for each in (answers["/api/server"],))
    await inspector.close()


async def test_of_a_very_long_thread_the_newest_part_is_in_the_file(tmp_path: Path) -> None:
    thread = await asyncio.to_thread(asyncio.run, make_long_thread(tmp_path, 2_400))
    inspector = Inspector(ShownHome(tmp_path))
    page = await export_page(inspector, thread, requests=2)
    await inspector.close()
    assert page.holds["entries"] == 2_000
    assert page.holds["last_entry"] - page.holds["first_entry"] == 1_999
    assert page.holds["whole_requests"] == 2
    assert len(page.html) < 8 << 20
    shown = data_of(page.html)["answers"][f"/api/threads/{thread}/entries"]
    assert [each["seq"] for each in shown["entries"]] == list(
        range(page.holds["first_entry"], page.holds["last_entry"] + 1)
    )


def test_the_command_writes_the_file_and_nothing_else(shown_home: Path, tmp_path: Path) -> None:
    before = footprint(shown_home)
    command = [str(SCRIPT), "--home", str(shown_home), "web", "export", "Prepare the release"]
    done = run([*command, "-o", str(tmp_path / "page.html"), "--json"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    page = (tmp_path / "page.html").read_text()
    assert data_of(page)["export"]["thread"] == told["thread"]
    answers = data_of(page)["answers"]
    assert answers[f"/api/threads/{told['thread']}"]["cost"]["amounts"]["USD"] > 0
    tree = answers[f"/api/threads/{told['thread']}/agents"]["tree"]
    assert all(child["cost"]["amounts"]["USD"] > 0 for child in tree["children"])
    assert told["turns"] == 2
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600
    assert footprint(shown_home) == before
    none = run([*command[:-1], "no such thread"], cwd=tmp_path)
    assert none.returncode == 1
    assert b"no such thread" in none.stderr


async def threads_of(inspector: Inspector) -> list[dict[str, Any]]:
    found: Any = await inspector.threads.page(before=None, cwd=None, limit=100)
    threads: list[dict[str, Any]] = found["threads"]
    return threads
