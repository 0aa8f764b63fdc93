from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ..harness.packages import install
from .scripts import scripted
from .terminal import SCRIPT, Treadle
from .test_chat import talk

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(treadle: Treadle, tmp_path: Path) -> Path:
    place = tmp_path / "site"
    place.mkdir()
    treadle.environ["PYTHONPATH"] = f"{place}:{ROOT}"
    return place


def begun(treadle: Treadle, *args: str) -> tuple[str, str]:
    """The harness of a turn, and why it was chosen."""
    events = treadle("exec", "--json", *args).json_lines
    (event,) = [event for event in events if event["type"] == "turn.started"]
    return event["harness"], event["harness_reason"]


def test_a_harness_is_chosen_by_flag_variable_and_configuration(treadle, site):
    install(site, "parrot")
    model = scripted(treadle, {"text": "Hi.", "times": 9})
    ask = ("x", "--model", model)
    assert begun(treadle, *ask) == ("treadle", "auto_treadle")
    assert begun(treadle, *ask, "--harness", "Parrot") == ("parrot", "forced_plugin")
    treadle.environ["TREADLE_HARNESS"] = "parrot"
    assert begun(treadle, *ask) == ("parrot", "forced_plugin")
    assert begun(treadle, *ask, "--harness", "treadle") == ("treadle", "forced_treadle")
    del treadle.environ["TREADLE_HARNESS"]
    config = treadle.home / "config.toml"
    config.write_text('harness = "parrot"\n')
    assert begun(treadle, *ask) == ("parrot", "forced_plugin")
    config.write_text('harness = "parrot"\n[providers.scripted]\nharness = "treadle"\n')
    assert begun(treadle, *ask) == ("treadle", "forced_treadle")
    config.write_text(config.read_text() + f'[models."{model}"]\nharness = "parrot"\n')
    assert begun(treadle, *ask) == ("parrot", "forced_plugin")
    assert begun(treadle, *ask, "--harness", "auto") == ("parrot", "forced_plugin")


def test_a_harness_of_a_package_runs_a_turn_and_is_shown(treadle, site):
    install(site, "parrot")
    model = scripted(treadle)
    done = treadle("exec", "x", "--model", model, "--harness", "parrot")
    assert done.text == "parrot heard turn 1\n"
    assert f"{model} on parrot · " in done.err


def test_an_unknown_harness_is_refused_with_those_there_are(treadle):
    said = treadle.refused("exec", "x", "--harness", "codecs", "--model", scripted(treadle), code=2)
    assert (
        said == "treadle: no harness 'codecs'; there are 'codex', 'treadle', and 'auto' chooses\n"
    )
    assert treadle("threads", "--json").json == []


def test_treadle_alone_is_no_way_to_a_codex_model(treadle):
    said = treadle.refused("exec", "x", "--model", "codex:gpt-5.5", "--harness", "treadle")
    assert "cannot run 'codex:gpt-5.5'" in said


def test_the_list_says_whose_models_each_takes_and_what_is_wrong(treadle, site):
    install(site, "parrot")
    install(site, "gone", module="import nowhere\n")
    install(site, "treadle", distribution="greedy")
    treadle.environ["TREADLE_HARNESS"] = "parrot"
    assert treadle("harnesses", "--model", "openai:gpt-5.5").text == snapshot(
        """\
HARNESS  OWNER           RUNS              WHAT IT IS
codex    treadle         codex:*           Codex app-server
treadle  treadle         all other models  Treadle's own loop
parrot*  treadle-parrot  -                 A parrot

openai:gpt-5.5 runs on parrot (forced_plugin)

what to know:
  gone: it cannot be loaded from 'harness_of_treadle_gone:harness' of 'treadle-gone': ModuleNotFoundError: No module named 'nowhere'
  harness 'treadle' belongs to 'treadle', so 'greedy' cannot register it; choose another id, or remove one of the two
"""  # noqa: E501 - one line for each
    )
    treadle.environ["TREADLE_HARNESS"] = "gone"
    told = treadle("harnesses", "--json").json
    assert "cannot be used" in told["chosen"]["problem"]
    assert [state["id"] for state in told["harnesses"]] == ["codex", "treadle", "parrot"]
    check = doctor(treadle, "harness", code=1)
    assert (check["status"], "No module named" in check["detail"]) == ("fail", True)


def doctor(treadle: Treadle, name: str, code: int = 0) -> dict[str, str]:
    done = treadle.attempt("doctor", "--json")
    assert (done.code, "Traceback" in done.err) == (code, False), done
    (found,) = [check for check in done.json["checks"] if check["name"] == name]
    return {key: found[key] for key in ("status", "detail", "remedy")}


def test_the_doctor_starts_the_app_server_and_leaves_nothing_behind(treadle):
    check = doctor(treadle, "codex")
    assert check["status"] == "ok"
    assert "its app-server answers (" in check["detail"]
    assert list(treadle.home.iterdir()) == []


def codex_saying(treadle: Treadle, version: str, *, name: str = "codex") -> None:
    """Configure a Codex that only knows its version."""
    binary = treadle.home.parent / name
    binary.write_text(f"#!/bin/sh\necho codex-cli {version}\n")
    binary.chmod(0o755)
    (treadle.home / "config.toml").write_text(f'[codex]\nbinary = "{binary}"\nhome = "user"\n')


def test_a_codex_of_a_version_that_is_not_known_is_told(treadle):
    codex_saying(treadle, "0.99.1")
    assert doctor(treadle, "codex") == {
        "status": "warn",
        "detail": "Codex 0.99.1 is older than Treadle supports (0.160.0 to before 0.180.0)",
        "remedy": "update Codex",
    }
    told = treadle("codex", "--json").json["codex"]
    assert told == {
        "binary": str(treadle.home.parent / "codex"),
        "version": "0.99.1",
        "supported": "0.160.0 to before 0.180.0",
        "home": str(treadle.project / ".codex"),
        "whose": "user",
        "projection": "native",
        "starts": None,
        "problem": "Codex 0.99.1 is older than Treadle supports (0.160.0 to before 0.180.0); "
        "update Codex",
    }


def test_a_codex_whose_app_server_does_not_answer_is_told(treadle):
    codex_saying(treadle, "0.163.0")
    check = doctor(treadle, "codex")
    assert (check["status"], bool(check["remedy"])) == ("warn", True)
    (treadle.home / "config.toml").write_text('[codex]\nbinary = "/nowhere/codex"\n')
    assert "cannot run '/nowhere/codex'" in doctor(treadle, "codex")["detail"]


def test_a_codex_of_a_version_that_is_not_known_leaves_no_thread_behind(treadle):
    codex_saying(treadle, "0.180.0-alpha.2")
    said = treadle.refused("exec", "x", "--model", "openai:gpt-5.5", "--harness", "codex")
    assert "Codex 0.180.0-alpha.2 is newer than Treadle supports" in said
    assert "set `codex.allow_newer`" in said
    assert treadle("threads", "--json").json == []


@contextmanager
def served(treadle: Treadle, answer: str) -> Iterator[str]:
    """The address of a model server that always gives one answer."""
    script = treadle.home.parent / "script.toml"
    script.write_text(f'[[answer]]\ntext = "{answer}"\ntimes = 0\n')
    with subprocess.Popen(
        [SCRIPT, "fake", str(script), "--json"], stdout=subprocess.PIPE, env=treadle.env
    ) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["base_url"]
        finally:
            server.terminate()


def test_a_turn_on_codex_leaves_a_binding_that_can_be_looked_at(treadle):
    with served(treadle, "Hello from Codex.") as address:
        (treadle.home / "config.toml").write_text(
            f"[providers.mine]\napi = 'responses'\nbase_url = '{address}'\nkey_required = false\n"
            "harness = 'codex'\n"
        )
        done = treadle("exec", "x", "--model", "mine:m")
    assert done.text == "Hello from Codex.\n"
    assert "mine:m on codex · " in done.err
    (info,) = treadle("threads", "--json").json
    (bound,) = treadle("codex", "status", "--json").json["bindings"]
    assert {key: bound[key] for key in ("thread", "engine", "projection", "model")} == {
        "thread": info["id"],
        "engine": "linear",
        "projection": "native",
        "model": "mine:m",
    }
    shown = treadle("codex", "status").lines
    assert shown[0].startswith(f"version     {bound['codex_version']} (supported: 0.160.0 to ")
    titles, row = shown[-2:]
    assert titles.split()[:6] == ["THREAD", "CODEX", "THREAD", "VERSION", "ENGINE", "EPOCH"]
    assert row.split()[:5] == [
        bound["thread"],
        bound["codex"],
        bound["codex_version"],
        "linear",
        "0",
    ]


def test_a_person_moves_to_another_harness_between_turns(treadle, site):
    install(site, "parrot")
    model = scripted(treadle, {"text": "I am Treadle."})
    with talk(treadle, "chat", "--model", model) as talking:
        talking.say("/harness")
        talking.expect("harness treadle (auto_treadle)")
        talking.say("/harness parot")
        talking.expect("no harness 'parot'; there are 'codex', 'treadle', 'parrot'")
        talking.say("/harness parrot")
        talking.expect("harness parrot (forced_plugin)")
        talking.say("hello")
        talking.expect("parrot heard turn 1")
        talking.say("/status")
        talking.expect("parrot (forced_plugin)")
        talking.say("/harness auto")
        talking.expect("harness treadle (auto_treadle)")
        talking.say("hello again")
        talking.expect("I am Treadle.")
        talking.leave()
