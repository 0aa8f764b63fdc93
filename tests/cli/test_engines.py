from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from treadle.engines.reports import EngineHealth

from ..engines.packages import ENGINE, install, install_engine
from .scripts import scripted
from .terminal import Done, Treadle
from .test_terminal import shown, without_colour

COMMITS = """

class Engine(Engine):
    info = EngineInfo(
        id="sure",
        name="Sure",
        version="2.0",
        owns_compaction=True,
        turn_maintenance_mode="background",
        host_requirements={
            "agent-run": Requirement(capabilities=("bootstrap", "compact")),
            "manual-compact": Requirement(
                capabilities=("thread-bootstrap-projection",), message="use the other harness"
            ),
        },
    )

    async def commit_turn(self, given):
        return CommitResult("committed")

    async def maintain(self, given): ...
"""
TELLS = """

class Engine(Engine):
    async def assemble(self, given):
        return AssembleResult(
            items=given.items,
            system_prompt_addition=f"depth {self.context.config['depth']}, {given.citations}",
        )
"""
FAILS = "\n\ndef Engine(context):\n    raise OSError('token=hunter2 the disk is away')\n"


@pytest.fixture
def site(treadle: Treadle, tmp_path: Path) -> Path:
    place = tmp_path / "site"
    place.mkdir()
    treadle.environ["PYTHONPATH"] = str(place)
    return place


def states(treadle: Treadle) -> dict[str, dict[str, Any]]:
    return {state["id"]: state for state in treadle("engines", "--json").json["engines"]}


def doctor(treadle: Treadle, code: int = 0) -> dict[str, str]:
    done = treadle.attempt("doctor", "--json")
    assert (done.code, "Traceback" in done.err) == (code, False), done
    (found,) = [check for check in done.json["checks"] if check["name"] == "engine"]
    return {key: found[key] for key in ("status", "detail", "remedy")}


def test_a_fresh_home_has_the_plain_engine_and_stays_fresh(treadle):
    assert treadle("engines").text == snapshot(
        """\
ENGINE    STATE  VERSION  OWNER    TURNS          COMPACTION  MAINTENANCE  POWERS
linear*   ok     1        treadle  at least once  runtime     -            -
lossless  ok     1        treadle  exactly once   engine      background   bootstrap maintain commit_turn thread_reset tools dispose
"""  # noqa: E501 - as wide as it is
    )
    assert list(treadle.home.iterdir()) == []
    assert doctor(treadle) == {
        "status": "ok",
        "detail": "linear 1 of treadle; turns reach it at least once",
        "remedy": "",
    }


def test_engines_of_packages_are_told_with_what_each_can_expect(treadle, site):
    install_engine(site, "sure", body=COMMITS)
    install_engine(site, "small")
    (treadle.home / "config.toml").write_text('engine = "sure"\n')
    assert treadle("engines").text == snapshot(
        """\
ENGINE    STATE  VERSION  OWNER          TURNS          COMPACTION  MAINTENANCE  POWERS
linear    ok     1        treadle        at least once  runtime     -            -
lossless  ok     1        treadle        exactly once   engine      background   bootstrap maintain commit_turn thread_reset tools dispose
small     ok     1.2      treadle-small  at least once  runtime     -            -
sure*     ok     2.0      treadle-sure   exactly once   engine      background   maintain commit_turn

what to know:
  sure: engine 'sure' needs thread-bootstrap-projection for manual-compact, which harness 'treadle' does not have (it has after-turn, assemble-before-prompt, bootstrap, compact, maintain, runtime-llm-complete); use the other harness
"""  # noqa: E501 - one line for the user
    )


def test_programs_get_the_whole_state(treadle, site):
    install_engine(site, "sure", body=COMMITS)
    treadle.environ["TREADLE_ENGINE"] = "sure"
    told = treadle("engines", "--json").json
    assert (told["selected"], told["conflicts"]) == ("sure", [])
    state = states(treadle)["sure"]
    why = state["needs"][1].pop("unmet")
    assert "does not have" in why
    assert state == {
        "id": "sure",
        "owner": "treadle-sure",
        "selected": True,
        "state": "ok",
        "problem": None,
        "remedy": None,
        "defects": [],
        "notes": [],
        "name": "Sure",
        "version": "2.0",
        "powers": ["maintain", "commit_turn"],
        "guarantee": "exactly once",
        "promise": "every accepted turn advances it exactly once, in order",
        "compaction": "engine",
        "maintenance": "background",
        "needs": [
            {"operation": "agent-run", "capabilities": ["bootstrap", "compact"], "unmet": None},
            {"operation": "manual-compact", "capabilities": ["thread-bootstrap-projection"]},
        ],
        "last_failure": None,
        "waiting": [],
    }


def test_the_table_fits_a_terminal(treadle, site):
    install_engine(site, "sure", body=COMMITS)
    lines = without_colour(shown(treadle, "engines", columns=100)).splitlines()
    table = lines[: lines.index("")]
    assert [line for line in table if len(line) > 100] == []
    assert [line.split()[:3] for line in lines if line.startswith("sure")] == [
        ["sure", "ok", "2.0"]
    ]


def test_whatever_is_wrong_is_told_and_the_list_goes_on(treadle, site):
    install_engine(site, "failing", body=FAILS)
    install(site, "treadle-gone", {"gone": "nowhere:engine"})
    install_engine(site, "poor", body="\n\nEngine.ingest = Engine.compact = None\n")
    install_engine(site, "twice", distribution="aardvark")
    install_engine(site, "twice", distribution="zebra")
    install_engine(site, "linear", distribution="greedy")
    treadle.environ["TREADLE_ENGINE"] = "missing"
    found = states(treadle)
    assert {engine: state["state"] for engine, state in found.items()} == {
        "linear": "ok",
        "lossless": "ok",
        "failing": "factory",
        "gone": "import",
        "poor": "unsound",
        "twice": "conflict",
        "missing": "missing",
    }
    assert found["poor"]["defects"] == [
        "'ingest' is missing",
        "'compact' is missing",
    ]
    assert found["missing"]["selected"]
    told = treadle("engines").lines
    assert [line for line in told if line.startswith("  ")] == snapshot(
        [
            "  failing: context engine 'failing' failed at factory: OSError: token=… the disk is away; check its settings, or choose another engine",  # noqa: E501
            "  gone: context engine 'gone' cannot be loaded from 'nowhere:engine' of 'treadle-gone': ModuleNotFoundError: No module named 'nowhere'; update or remove 'treadle-gone', or choose another engine",  # noqa: E501
            "  poor: context engine 'poor' is not valid: 'ingest' is missing, and 'compact' is missing; update it, or choose another engine",  # noqa: E501
            "  twice: context engine 'twice' is offered by 'aardvark' and 'zebra'; uninstall all but one of them",  # noqa: E501
            "  missing: no context engine 'missing' is installed; `treadle engines` lists what there is; install it, or choose another",  # noqa: E501
            "  context engine 'linear' belongs to 'treadle', so 'greedy' cannot register it; choose another id, or remove one of the two",  # noqa: E501
        ]
    )


def test_doctor_says_why_the_chosen_engine_cannot_be_used(treadle, site):
    install_engine(site, "poor", body="\n\nEngine.compact = None\n")
    install_engine(site, "failing", body=FAILS)
    treadle.environ["TREADLE_ENGINE"] = "poor"
    assert doctor(treadle, code=1) == {
        "status": "fail",
        "detail": "context engine 'poor' is not valid: 'compact' is missing",
        "remedy": "update it, or choose another engine",
    }
    treadle.environ["TREADLE_ENGINE"] = "failing"
    assert doctor(treadle, code=1)["detail"] == (
        "context engine 'failing' failed at factory: OSError: token=… the disk is away"
    )
    treadle.environ["TREADLE_ENGINE"] = "por"
    assert doctor(treadle, code=1) == {
        "status": "fail",
        "detail": "no context engine 'por' is installed",
        "remedy": (
            "did you mean 'poor'? `treadle engines` lists what there is; "
            "install it, or choose another"
        ),
    }


def test_doctor_says_what_the_loop_lacks_for_the_chosen_engine(treadle, site):
    body = COMMITS.replace('("bootstrap", "compact")', '("thread-bootstrap-projection",)')
    install_engine(site, "sure", body=body)
    treadle.environ["TREADLE_ENGINE"] = "sure"
    check = doctor(treadle, code=1)
    assert check["detail"].startswith("engine 'sure' needs thread-bootstrap-projection for agent")
    assert check["remedy"] == "choose another engine"


def test_doctor_warns_of_a_package_that_claims_a_reserved_id(treadle, site):
    install_engine(site, "legacy", distribution="greedy")
    assert doctor(treadle) == {
        "status": "warn",
        "detail": "context engine 'legacy' belongs to 'treadle', so 'greedy' cannot register it",
        "remedy": "choose another id, or remove one of them",
    }


def test_the_last_failure_is_told_until_it_is_over(treadle, site):
    install_engine(site, "small")
    treadle.environ["TREADLE_ENGINE"] = "small"
    health = EngineHealth(treadle.home)
    for _ in range(2):
        asyncio.run(health.record("small", "assemble", "ValueError: no", "thr_1"))
    assert states(treadle)["small"]["last_failure"]["count"] == 2
    (remark,) = [line for line in treadle("engines").lines if "failed last" in line]
    assert re.sub(r"\d{4}-[\dT:-]+Z", "TIME", remark) == (
        "  small: failed last at assemble (TIME, 2 times in a row): ValueError: no"
    )
    assert doctor(treadle) == {
        "status": "warn",
        "detail": "small failed last at assemble: ValueError: no",
        "remedy": "see `treadle engines`",
    }
    asyncio.run(health.clear("small", "assemble"))
    assert doctor(treadle)["status"] == "ok"


def test_one_engine_is_checked_by_its_id(treadle, site):
    install_engine(site, "sure", body=COMMITS)
    lines = treadle("engines", "check", "sure").lines
    assert lines[:2] == [
        "Sure 2.0 is valid; every accepted turn advances it exactly once, in order",
        "powers: maintain commit_turn",
    ]
    assert "does not have" in lines[2]
    assert treadle("engines", "check", "legacy").text.startswith("Linear 1 is valid; ")


def test_a_module_in_this_directory_is_checked_with_all_its_defects(treadle):
    file = treadle.project / "my_engine.py"
    file.write_text(ENGINE.format(id=" ") + "\n\nEngine.ingest = None\n")
    assert treadle.refused("engines", "check", "my_engine:Engine") == snapshot(
        """\
treadle: context engine 'my_engine:Engine' is not valid:
  info.id is blank
  'ingest' is missing
"""
    )
    done = treadle.attempt("engines", "check", "my_engine:Engine", "--json")
    assert (done.code, done.json["defects"]) == (1, ["info.id is blank", "'ingest' is missing"])
    file.write_text(ENGINE.format(id="mine"))
    assert treadle("engines", "check", "my_engine:Engine", "--json").json["state"] == "ok"


def test_a_module_here_stands_for_nothing_that_is_installed(treadle):
    (treadle.project / "json.py").write_text("raise SystemExit(9)\n")
    assert "'json' has no attribute 'engine'" in treadle.refused("engines", "check", "json:engine")


def test_what_cannot_be_checked_is_one_line(treadle):
    said = treadle.refused("engines", "check", "nowhere:engine")
    assert said == (
        "treadle: context engine 'nowhere:engine' cannot be loaded from 'nowhere:engine': "
        "ModuleNotFoundError: No module named 'nowhere'; "
        "correct what it names, or choose another engine\n"
    )
    assert treadle.refused("engines", "check", "nope").startswith(
        "treadle: no context engine 'nope'"
    )


def test_checking_leaves_the_home_alone(treadle, site):
    keeps = (
        "\n\ndef make(context):\n    context.home.mkdir(parents=True)\n    return Engine(context)\n"
    )
    install(
        site,
        "treadle-keeps",
        {"keeps": "pkg_keeps:make"},
        {"pkg_keeps": ENGINE.format(id="k") + keeps},
    )
    treadle("engines", "check", "keeps")
    treadle("engines")
    assert list(treadle.home.iterdir()) == []


def test_a_turn_runs_with_the_engine_that_is_chosen_and_its_table(treadle, site):
    install_engine(site, "tells", body=TELLS)
    (treadle.home / "config.toml").write_text('citations = "off"\n[engines.tells]\ndepth = 7\n')
    model = scripted(treadle, {"text": "Hello."})
    assert treadle("exec", "hi", "--model", model, "--engine", "tells").text == "Hello.\n"
    assert "depth 7, off" in treadle("show", "last", "--all").text


def with_a_lost_engine(treadle: Treadle) -> Done:
    """Run a turn of a thread whose engine was removed since."""
    model = scripted(treadle, {"text": "Hello."}, {"text": "Hello."})
    treadle("exec", "before", "--model", model)
    (treadle.home / "config.toml").write_text('engine = "lost"\n')
    return treadle("exec", "hi", "--last")


def test_an_engine_that_is_gone_is_told_once_and_the_turn_goes_on(treadle):
    done = with_a_lost_engine(treadle)
    assert done.text == "Hello.\n"
    told = [line for line in done.err.splitlines() if "'lost'" in line]
    assert [line.partition(";")[0] for line in told] == ["! no context engine 'lost' is installed"]
    state = states(treadle)["lost"]
    assert (state["state"], [turn["state"] for turn in state["waiting"]]) == (
        "missing",
        ["accepted"],
    )
    assert state["last_failure"]["operation"] == "resolve"


def test_turns_that_wait_are_told_even_of_an_engine_that_is_not_chosen_any_more(treadle):
    ran = with_a_lost_engine(treadle)
    (treadle.home / "config.toml").unlink()
    assert ran.err.count("which is tried again on the next turn\n") == 1
    assert not states(treadle)["lost"]["selected"]
    told = treadle("engines").lines
    assert "  lost: 1 turn waits for it, 0 blocked" in told


def test_a_rollback_is_left_for_the_engine_to_hear_of(treadle):
    with_a_lost_engine(treadle)
    treadle("rewind", "last")
    assert [turn["state"] for turn in states(treadle)["lost"]["waiting"]] == ["accepted", "ready"]


def test_a_project_that_is_not_trusted_chooses_no_engine(treadle):
    file = treadle.project / ".treadle/config.toml"
    file.parent.mkdir()
    file.write_text('engine = "theirs"\n')
    assert treadle("engines", "--json").json["selected"] == "linear"
    treadle("trust")
    assert treadle("engines", "--json").json["selected"] == "theirs"
