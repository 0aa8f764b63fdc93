from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from weft.engines.health import Health

from ..engines.packages import ENGINE, install, install_engine
from .scripts import scripted
from .terminal import Weft
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
def site(weft: Weft, tmp_path: Path) -> Path:
    place = tmp_path / "site"
    place.mkdir()
    weft.environ["PYTHONPATH"] = str(place)
    return place


def states(weft: Weft) -> dict[str, dict[str, Any]]:
    return {state["id"]: state for state in weft("engines", "--json").json["engines"]}


def doctor(weft: Weft, code: int = 0) -> dict[str, str]:
    done = weft.attempt("doctor", "--json")
    assert (done.code, "Traceback" in done.err) == (code, False), done
    (found,) = [check for check in done.json["checks"] if check["name"] == "engine"]
    return {key: found[key] for key in ("status", "detail", "remedy")}


def test_a_fresh_home_has_the_plain_engine_and_stays_fresh(weft):
    assert weft("engines").text == snapshot(
        """\
ENGINE    STATE  VERSION  OWNER  TURNS          COMPACTION  MAINTENANCE  POWERS
linear*   ok     1        weft   at least once  runtime     -            -
lossless  ok     1        weft   exactly once   engine      background   bootstrap maintain commit_turn thread_reset tools dispose
"""  # noqa: E501 - as wide as it is
    )
    assert list(weft.home.iterdir()) == []
    assert doctor(weft) == {
        "status": "ok",
        "detail": "linear 1 of weft; turns reach it at least once",
        "remedy": "",
    }


def test_engines_of_packages_are_told_with_what_each_can_expect(weft, site):
    install_engine(site, "sure", body=COMMITS)
    install_engine(site, "small")
    (weft.home / "config.toml").write_text('engine = "sure"\n')
    assert weft("engines").text == snapshot(
        """\
ENGINE    STATE  VERSION  OWNER       TURNS          COMPACTION  MAINTENANCE  POWERS
linear    ok     1        weft        at least once  runtime     -            -
lossless  ok     1        weft        exactly once   engine      background   bootstrap maintain commit_turn thread_reset tools dispose
small     ok     1.2      weft-small  at least once  runtime     -            -
sure*     ok     2.0      weft-sure   exactly once   engine      background   maintain commit_turn

what to know:
  sure: engine 'sure' needs thread-bootstrap-projection for manual-compact, which harness 'weft' does not have (it has after-turn, assemble-before-prompt, bootstrap, compact, maintain, runtime-llm-complete); use the other harness
"""  # noqa: E501 - one line for the user
    )


def test_programs_get_the_whole_state(weft, site):
    install_engine(site, "sure", body=COMMITS)
    weft.environ["WEFT_ENGINE"] = "sure"
    told = weft("engines", "--json").json
    assert (told["selected"], told["conflicts"]) == ("sure", [])
    state = states(weft)["sure"]
    why = state["needs"][1].pop("unmet")
    assert "does not have" in why
    assert state == {
        "id": "sure",
        "owner": "weft-sure",
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


def test_the_table_fits_a_terminal(weft, site):
    install_engine(site, "sure", body=COMMITS)
    lines = without_colour(shown(weft, "engines", columns=100)).splitlines()
    table = lines[: lines.index("")]
    assert [line for line in table if len(line) > 100] == []
    assert [line.split()[:3] for line in lines if line.startswith("sure")] == [
        ["sure", "ok", "2.0"]
    ]


def test_whatever_is_wrong_is_told_and_the_list_goes_on(weft, site):
    install_engine(site, "failing", body=FAILS)
    install(site, "weft-gone", {"gone": "nowhere:engine"})
    install_engine(site, "poor", body="\n\nEngine.ingest = Engine.compact = None\n")
    install_engine(site, "twice", distribution="aardvark")
    install_engine(site, "twice", distribution="zebra")
    install_engine(site, "linear", distribution="greedy")
    weft.environ["WEFT_ENGINE"] = "missing"
    found = states(weft)
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
    told = weft("engines").lines
    assert [line for line in told if line.startswith("  ")] == snapshot(
        [
            "  failing: context engine 'failing' failed at factory: OSError: token=… the disk is away; check its settings, or choose another engine",  # noqa: E501
            "  gone: context engine 'gone' cannot be loaded from 'nowhere:engine': ModuleNotFoundError: No module named 'nowhere'; update or remove 'weft-gone', or choose another engine",  # noqa: E501
            "  poor: context engine 'poor' is not sound: 'ingest' is missing, and 'compact' is missing; update it, or choose another engine",  # noqa: E501
            "  twice: context engine 'twice' is offered by 'aardvark' and 'zebra'; uninstall all but one of them",  # noqa: E501
            "  missing: no context engine 'missing' is installed; `weft engines` lists what there is; install it, or choose another",  # noqa: E501
            "  context engine 'linear' belongs to 'weft', so 'greedy' cannot register it; choose another id, or remove one of the two",  # noqa: E501
        ]
    )


def test_doctor_says_why_the_chosen_engine_cannot_be_used(weft, site):
    install_engine(site, "poor", body="\n\nEngine.compact = None\n")
    install_engine(site, "failing", body=FAILS)
    weft.environ["WEFT_ENGINE"] = "poor"
    assert doctor(weft, code=1) == {
        "status": "fail",
        "detail": "context engine 'poor' is not sound: 'compact' is missing",
        "remedy": "update it, or choose another engine",
    }
    weft.environ["WEFT_ENGINE"] = "failing"
    assert doctor(weft, code=1)["detail"] == (
        "context engine 'failing' failed at factory: OSError: token=… the disk is away"
    )
    weft.environ["WEFT_ENGINE"] = "por"
    assert doctor(weft, code=1) == {
        "status": "fail",
        "detail": "no context engine 'por' is installed",
        "remedy": (
            "did you mean 'poor'? `weft engines` lists what there is; install it, or choose another"
        ),
    }


def test_doctor_says_what_the_loop_lacks_for_the_chosen_engine(weft, site):
    body = COMMITS.replace('("bootstrap", "compact")', '("thread-bootstrap-projection",)')
    install_engine(site, "sure", body=body)
    weft.environ["WEFT_ENGINE"] = "sure"
    check = doctor(weft, code=1)
    assert check["detail"].startswith("engine 'sure' needs thread-bootstrap-projection for agent")
    assert check["remedy"] == "choose another engine"


def test_doctor_warns_of_a_package_that_claims_a_reserved_id(weft, site):
    install_engine(site, "legacy", distribution="greedy")
    assert doctor(weft) == {
        "status": "warn",
        "detail": "context engine 'legacy' belongs to 'weft', so 'greedy' cannot register it",
        "remedy": "choose another id, or remove one of them",
    }


def test_the_last_failure_is_told_until_it_is_over(weft, site):
    install_engine(site, "small")
    weft.environ["WEFT_ENGINE"] = "small"
    health = Health(weft.home)
    for _ in range(2):
        asyncio.run(health.failed("small", "assemble", "ValueError: no", "thr_1"))
    assert states(weft)["small"]["last_failure"]["count"] == 2
    (remark,) = [line for line in weft("engines").lines if "failed last" in line]
    assert re.sub(r"\d{4}-[\dT:-]+Z", "TIME", remark) == (
        "  small: failed last at assemble (TIME, 2 times in a row): ValueError: no"
    )
    assert doctor(weft) == {
        "status": "warn",
        "detail": "small failed last at assemble: ValueError: no",
        "remedy": "see `weft engines`",
    }
    asyncio.run(health.worked("small", "assemble"))
    assert doctor(weft)["status"] == "ok"


def test_one_engine_is_checked_by_its_id(weft, site):
    install_engine(site, "sure", body=COMMITS)
    lines = weft("engines", "check", "sure").lines
    assert lines[:2] == [
        "Sure 2.0 is sound; every accepted turn advances it exactly once, in order",
        "powers: maintain commit_turn",
    ]
    assert "does not have" in lines[2]
    assert weft("engines", "check", "legacy").text.startswith("Linear 1 is sound; ")


def test_a_module_in_this_directory_is_checked_with_all_its_defects(weft):
    file = weft.project / "my_engine.py"
    file.write_text(ENGINE.format(id=" ") + "\n\nEngine.ingest = None\n")
    assert weft.refused("engines", "check", "my_engine:Engine") == snapshot(
        """\
weft: context engine 'my_engine:Engine' is not sound:
  info.id is blank
  'ingest' is missing
"""
    )
    done = weft.attempt("engines", "check", "my_engine:Engine", "--json")
    assert (done.code, done.json["defects"]) == (1, ["info.id is blank", "'ingest' is missing"])
    file.write_text(ENGINE.format(id="mine"))
    assert weft("engines", "check", "my_engine:Engine", "--json").json["state"] == "ok"


def test_a_module_here_stands_for_nothing_that_is_installed(weft):
    (weft.project / "json.py").write_text("raise SystemExit(9)\n")
    assert "'json' has no attribute 'engine'" in weft.refused("engines", "check", "json:engine")


def test_what_cannot_be_checked_is_one_line(weft):
    said = weft.refused("engines", "check", "nowhere:engine")
    assert said == (
        "weft: context engine 'nowhere:engine' cannot be loaded from 'nowhere:engine': "
        "ModuleNotFoundError: No module named 'nowhere'; "
        "correct what it names, or choose another engine\n"
    )
    assert weft.refused("engines", "check", "nope").startswith("weft: no context engine 'nope'")


def test_checking_leaves_the_home_alone(weft, site):
    keeps = (
        "\n\ndef make(context):\n    context.home.mkdir(parents=True)\n    return Engine(context)\n"
    )
    install(
        site,
        "weft-keeps",
        {"keeps": "pkg_keeps:make"},
        {"pkg_keeps": ENGINE.format(id="k") + keeps},
    )
    weft("engines", "check", "keeps")
    weft("engines")
    assert list(weft.home.iterdir()) == []


def test_a_turn_runs_with_the_engine_that_is_chosen_and_its_table(weft, site):
    install_engine(site, "tells", body=TELLS)
    (weft.home / "config.toml").write_text('citations = "off"\n[engines.tells]\ndepth = 7\n')
    model = scripted(weft, {"text": "Hello."})
    assert weft("exec", "hi", "--model", model, "--engine", "tells").text == "Hello.\n"
    assert "depth 7, off" in weft("show", "last", "--all").text


def test_an_engine_that_is_not_there_is_told_once_and_the_turn_goes_on(weft):
    model = scripted(weft, {"text": "Hello."})
    done = weft("exec", "hi", "--model", model, "--engine", "lost")
    assert done.text == "Hello.\n"
    told = [line for line in done.err.splitlines() if "'lost'" in line]
    assert [line.partition(";")[0] for line in told] == ["! no context engine 'lost' is installed"]
    weft.environ["WEFT_ENGINE"] = "lost"
    state = states(weft)["lost"]
    assert (state["state"], [turn["state"] for turn in state["waiting"]]) == (
        "missing",
        ["accepted"],
    )
    assert state["last_failure"]["operation"] == "resolve"


def test_turns_that_wait_are_told_even_of_an_engine_that_is_not_chosen_any_more(weft):
    model = scripted(weft, {"text": "Hello."})
    ran = weft("exec", "hi", "--model", model, "--engine", "lost")
    assert ran.err.count("which is tried again on the next turn\n") == 1
    assert not states(weft)["lost"]["selected"]
    told = weft("engines").lines
    assert "  lost: 1 turn waits for it, 0 blocked" in told


def test_a_rollback_is_left_for_the_engine_to_hear_of(weft):
    model = scripted(weft, {"text": "Hello."})
    weft.environ["WEFT_ENGINE"] = "lost"
    weft("exec", "hi", "--model", model)
    weft("rollback", "last")
    assert [turn["state"] for turn in states(weft)["lost"]["waiting"]] == ["accepted", "ready"]


def test_a_project_that_is_not_trusted_chooses_no_engine(weft):
    file = weft.project / ".weft/config.toml"
    file.parent.mkdir()
    file.write_text('engine = "theirs"\n')
    assert weft("engines", "--json").json["selected"] == "linear"
    weft("trust")
    assert weft("engines", "--json").json["selected"] == "theirs"
