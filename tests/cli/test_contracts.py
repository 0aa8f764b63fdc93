from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from .terminal import SCRIPT, Treadle

GUESTS = """\
from treadle.harness.contract import Outcome
from treadle.harness.loop import LoopHarness
from treadle.models.retry import Backoff

class Sound(LoopHarness):
    name = "sound"

class Mute(LoopHarness):
    name = "mute"
    async def run(self, run):
        await run.log.turns.finish("completed")
        return Outcome(status="completed")

def sound(offer):
    return Sound(backoff=Backoff(retries=0))

async def mute(offer):
    return Mute()
"""
ENGINE = """\
from treadle.engines.contract import EngineInfo
from treadle.engines.linear import LinearEngine

class Mine(LinearEngine):
    info = EngineInfo(id="mine", name="Mine")
    async def assemble(self, given):
        (place / "asked").touch()
        return await super().assemble(given)

def engine(context):
    return Mine()
"""
MODEL = """\
from treadle.models.catalog import Catalog
from treadle.models.providers import ProviderConfig
from treadle.models.providers import open_model

def model(base_url):
    reached = ProviderConfig(api="chat", base_url=base_url, key="sk-mine", retries=0)
    catalog = Catalog.load().with_providers(["mine"])
    return open_model("mine:model", environ={}, catalog=catalog, config={"mine": reached})
"""


def without_codex(treadle: Treadle, place: Path) -> None:
    """Let the installed Codex be nowhere to be found."""
    (place / "codex_cli_bin.py").write_text("raise ImportError('not here')\n")
    treadle.environ["PYTHONPATH"] = str(place)


def test_a_table_ends_with_how_many_passed_and_failed(treadle):
    done = treadle("contracts", "--domain", "selection", "--harness", "shared")
    assert done.lines[0].split() == ["ROW", "DOMAIN", "ON", "STATUS", "WHAT"]
    rows = [line for line in done.lines if line.startswith("SEL-")]
    assert done.lines[-1] == f"{len(rows)} passed, 0 failed"
    assert done.err == f"1 of {len(rows)}: selection on shared\n"
    assert list(treadle.home.iterdir()) == []


def test_what_rows_let_go_wrong_is_not_told(treadle):
    done = treadle("contracts", "--domain", "tools", "--harness", "treadle")
    count = done.lines[-1].removesuffix(" passed, 0 failed")
    assert done.err == f"1 of {count}: tools on treadle\n"


def test_programs_get_an_entry_for_each_row_and_harness(treadle):
    rows = treadle("contracts", "--domain", "selection", "--json").json["rows"]
    assert {(each["harness"], each["status"]) for each in rows} == {
        ("shared", "passed"),
        ("treadle", "passed"),
        ("codex", "passed"),
    }
    names = [(each["id"], each["harness"]) for each in rows]
    assert len(set(names)) == len(names)
    assert rows[0] == {
        "id": "SEL-1",
        "domain": "selection",
        "title": "A model goes to Treadle's own loop where nobody asks for another",
        "harness": "shared",
        "status": "passed",
    }


def test_a_harness_of_somebody_else_is_put_to_what_everybody_keeps(treadle):
    (treadle.project / "guests.py").write_text(GUESTS)
    done = treadle("contracts", "--domain", "selection", "--harness", "guests:sound", "--json")
    assert {(each["harness"], each["status"]) for each in done.json["rows"]} == {
        ("guests:sound", "passed")
    }


def test_a_harness_that_breaks_a_promise_is_told_which_and_how(treadle):
    (treadle.project / "guests.py").write_text(GUESTS)
    done = treadle.attempt("contracts", "--domain", "selection", "--harness", "guests:mute")
    assert done.code == 1
    broken = "text: expected 'Done.', saw ''; requests: expected 1, saw 0"
    assert f"SEL-35 on guests:mute failed: {broken}" in done.lines
    assert done.lines[-1] == "0 passed, 5 failed"


def test_a_harness_that_cannot_be_made_fails_its_rows(treadle):
    done = treadle.attempt(
        "contracts", "--domain", "selection", "--harness", "nowhere:make", "--json"
    )
    assert done.code == 1
    assert {each["status"] for each in done.json["rows"]} == {"failed"}


def test_without_a_codex_its_rows_are_left_out_and_somebody_is_told(treadle, tmp_path):
    without_codex(treadle, tmp_path)
    done = treadle("contracts", "--domain", "selection", "--json")
    assert {each["harness"] for each in done.json["rows"]} == {"shared", "treadle"}
    assert "treadle: the rows on codex are not run: no Codex was found" in done.err


def test_whoever_asks_for_codex_where_there_is_none_gets_failures(treadle, tmp_path):
    without_codex(treadle, tmp_path)
    done = treadle.attempt("contracts", "--domain", "selection", "--harness", "codex", "--json")
    assert done.code == 1
    assert {each["status"] for each in done.json["rows"]} == {"failed"}
    assert "no Codex was found" in done.json["rows"][0]["reason"]


def test_rows_are_played_with_an_engine_of_somebody_else(treadle):
    code = f"from pathlib import Path\nplace = Path({str(treadle.project)!r})\n{ENGINE}"
    (treadle.project / "my_engine.py").write_text(code)
    args = ("--domain", "selection", "--harness", "treadle", "--engine")
    assert treadle("contracts", *args, "my_engine:engine").lines[-1] == "5 passed, 0 failed"
    assert (treadle.project / "asked").exists()
    assert treadle("contracts", *args, "lossless").lines[-1] == "5 passed, 0 failed"


def test_rows_are_played_with_other_models(treadle):
    (treadle.project / "my_model.py").write_text(MODEL)
    for model in ("anthropic:claude-sonnet-4-5", "my_model:model"):
        done = treadle("contracts", "--domain", "selection", "--model", model)
        assert done.lines[-1] == "5 passed, 0 failed"


def test_what_cannot_be_found_is_refused(treadle):
    said = treadle.refused("contracts", "--engine", "nowhere:engine")
    assert said.startswith("treadle: 'nowhere:engine' is not found: No module named 'nowhere'; say")
    assert "'rooms' is not one of" in treadle.refused("contracts", "--domain", "rooms", code=2)


def test_an_interrupt_ends_it_cleanly(treadle):
    process = subprocess.Popen(
        [SCRIPT, "contracts", "--domain", "context", "--harness", "codex"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=treadle.project,
        env=treadle.env,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() != b""
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err.decode().strip()) == (130, b"", "treadle: interrupted")


def test_the_page_is_printed(treadle):
    page = Path(__file__).parents[2] / "docs" / "contracts.md"
    assert treadle("contracts", "--page").text == page.read_text(encoding="utf-8")
