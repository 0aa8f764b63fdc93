from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from soak.answers import Mouth
from soak.fleet.verdict import FleetResult
from soak.memory import Sample, slope
from soak.places import Door
from soak.plan import plan_strikes
from soak.roles import ROLES, SHORT
from soak.table import BEGIN, END, table, write_page
from soak.verdict import Result

from treadle.testing.audit import Finding, Report

ROOT = Path(__file__).parents[1]


@pytest.mark.timeout(400)
def test_a_short_soak_finds_nothing(tmp_path: Path):
    told = tmp_path / "result.json"
    command = [sys.executable, "-m", "soak", "--short", "--minutes", "0.25", "--seed", "1"]
    places = ["--place", str(tmp_path), "--json", str(told)]
    done = subprocess.run(
        [*command, *places], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = msgspec.json.decode(told.read_bytes(), type=Result)
    assert result.report.clean
    for name in ("turns completed", "blow: kill", "blow: jump", "blow: forbid"):
        assert result.done[name] > 0
    assert result.done["blow: fill the disk"] > 0
    assert all(result.done[f"threads of {role.name}"] for role in SHORT)
    assert result.report.looked["acknowledged"] > 0
    assert list(tmp_path.glob("treadle-soak-*")) == []


def test_a_seed_fixes_the_plan():
    plan = plan_strikes("7", ROLES, 600)
    assert plan == plan_strikes("7", ROLES, 600)
    assert plan != plan_strikes("8", ROLES, 600)
    assert plan == sorted(plan, key=lambda stroke: stroke.at)
    dealt = {(stroke.role, stroke.blow) for stroke in plan}
    assert dealt == {(role.name, blow) for role in ROLES for blow in role.blows}
    assert {blow for _, blow in dealt} == {blow for role in SHORT for blow in role.blows}


def test_whoever_is_steady_is_never_struck():
    assert [role.name for role in ROLES if role.steady] == ["steady"]
    assert "steady" not in {stroke.role for stroke in plan_strikes("7", ROLES, 600)}


def test_a_provider_says_everything_under_a_name_of_its_own():
    mouth = Mouth(random.Random(3), "abcdef")
    given = [
        mouth.answer(("act", "exec_command"), 0, "key", rich=rich)
        for _ in range(300)
        for rich in (True, False)
    ]
    names = [name for each in given for name in (*each.words, *each.calls, *each.strays)]
    assert len(names) == len(set(names))
    assert len({each.trouble for each in given}) == 12
    mouth.calm = True
    assert {mouth.answer(("act",), 0, "key", rich=True).trouble for _ in range(50)} == {"none"}


def test_growth_is_told_without_the_first_third():
    warming = [Sample(at, 50 + at) for at in range(100)]
    steady = [Sample(100 + at, 150 + at / 3600) for at in range(200)]
    assert slope([*warming, *steady]) == 1.0
    assert slope(warming) == 3600.0
    assert slope(warming[:80]) is None


@pytest.mark.parametrize("pick", range(10))
def test_a_door_that_was_shut_opens_as_it_was(tmp_path: Path, pick: int):
    for name in ("locks", "engines"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "log.db").touch(mode=0o600)
    paths = [tmp_path, *tmp_path.iterdir()]
    before = {path: path.stat().st_mode for path in paths}
    door = Door(tmp_path)
    door.shut(pick)
    door.open()
    assert {path: path.stat().st_mode for path in paths} == before


def test_the_table_stands_between_its_marks(tmp_path: Path):
    found = Report((Finding("lost", "thr_1", "item 3"),), {"threads": 4})
    result = Result(
        seed="7", seconds=600, report=found, done={"turns completed": 9}, disk="a small tmpfs"
    )
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nan older table\n{END}\nafter\n")
    write_page(page, result)
    write_page(page, result)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n10 minutes, seed 7; the full disk was a small tmpfs.")
    assert text.endswith(f"{END}\nafter\n")
    assert "an older table" not in text
    assert "| acknowledged items lost | 1 |" in table(result)
    assert "| turns completed | 9 |" in table(result)


@pytest.mark.timeout(300)
def test_a_fleet_on_one_database_loses_nothing_and_does_nothing_twice(tmp_path: Path):
    told = tmp_path / "result.json"
    command = [sys.executable, "-m", "soak.fleet", "--minutes", "0.33", "--threads", "18"]
    places = ["--place", str(tmp_path), "--json", str(told), "--seed", "3"]
    done = subprocess.run(
        [*command, *places], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = msgspec.json.decode(told.read_bytes(), type=FleetResult)
    assert result.report.clean
    assert result.done["turns completed"] > 0
    assert result.done["told by workers: taken"] > 0
    assert any(name.startswith("blow: ") for name in result.done)
    assert list(tmp_path.glob("treadle-fleet-*")) == []
