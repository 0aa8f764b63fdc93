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
from .terminal import SCRIPT, Weft
from .test_chat import talk

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(weft: Weft, tmp_path: Path) -> Path:
    place = tmp_path / "site"
    place.mkdir()
    weft.environ["PYTHONPATH"] = f"{place}:{ROOT}"
    return place


def begun(weft: Weft, *args: str) -> tuple[str, str]:
    """The harness of a turn, and why it was chosen."""
    events = weft("exec", "--json", *args).json_lines
    (event,) = [event for event in events if event["type"] == "turn.started"]
    return event["harness"], event["harness_reason"]


def test_a_harness_is_chosen_by_flag_variable_and_configuration(weft, site):
    install(site, "parrot")
    model = scripted(weft, {"text": "Hi.", "times": 9})
    ask = ("x", "--model", model)
    assert begun(weft, *ask) == ("weft", "auto_weft")
    assert begun(weft, *ask, "--harness", "Parrot") == ("parrot", "forced_plugin")
    weft.environ["WEFT_HARNESS"] = "parrot"
    assert begun(weft, *ask) == ("parrot", "forced_plugin")
    assert begun(weft, *ask, "--harness", "weft") == ("weft", "forced_weft")
    del weft.environ["WEFT_HARNESS"]
    config = weft.home / "config.toml"
    config.write_text('harness = "parrot"\n')
    assert begun(weft, *ask) == ("parrot", "forced_plugin")
    config.write_text('harness = "parrot"\n[providers.scripted]\nharness = "weft"\n')
    assert begun(weft, *ask) == ("weft", "forced_weft")
    config.write_text(config.read_text() + f'[models."{model}"]\nharness = "parrot"\n')
    assert begun(weft, *ask) == ("parrot", "forced_plugin")
    assert begun(weft, *ask, "--harness", "auto") == ("parrot", "forced_plugin")


def test_a_harness_of_a_package_runs_a_turn_and_is_shown(weft, site):
    install(site, "parrot")
    model = scripted(weft)
    done = weft("exec", "x", "--model", model, "--harness", "parrot")
    assert done.text == "parrot heard turn 1\n"
    assert f"{model} on parrot · " in done.err


def test_an_unknown_harness_is_refused_with_those_there_are(weft):
    said = weft.refused("exec", "x", "--harness", "codecs", "--model", scripted(weft))
    assert said == "weft: no harness 'codecs'; there are 'codex', 'weft', and 'auto' chooses\n"
    assert weft("threads", "--json").json == []


def test_weft_alone_is_no_way_to_a_codex_model(weft):
    said = weft.refused("exec", "x", "--model", "codex:gpt-5.5", "--harness", "weft")
    assert "cannot run 'codex:gpt-5.5'" in said


def test_the_list_says_whose_models_each_takes_and_what_is_wrong(weft, site):
    install(site, "parrot")
    install(site, "gone", module="import nowhere\n")
    install(site, "weft", distribution="greedy")
    weft.environ["WEFT_HARNESS"] = "parrot"
    assert weft("harnesses", "--model", "openai:gpt-5.5").text == snapshot(
        """\
HARNESS  OWNER        UNDER AUTO    WHAT IT IS
codex    weft         codex:*       Codex app-server
weft     weft         what is left  Weft's own loop
parrot*  weft-parrot  -             A parrot

openai:gpt-5.5 runs on parrot (forced_plugin)

what to know:
  gone: 'harness_of_weft_gone:harness' of 'weft-gone' is none: ModuleNotFoundError: No module named 'nowhere'
  harness 'weft' belongs to 'weft', so 'greedy' cannot register it; choose another id, or remove one of the two
"""  # noqa: E501 - one line for each
    )
    weft.environ["WEFT_HARNESS"] = "gone"
    told = weft("harnesses", "--json").json
    assert "cannot be used" in told["chosen"]["problem"]
    assert [state["id"] for state in told["harnesses"]] == ["codex", "weft", "parrot"]
    check = doctor(weft, "harness", code=1)
    assert (check["status"], "No module named" in check["detail"]) == ("fail", True)


def doctor(weft: Weft, name: str, code: int = 0) -> dict[str, str]:
    done = weft.attempt("doctor", "--json")
    assert (done.code, "Traceback" in done.err) == (code, False), done
    (found,) = [check for check in done.json["checks"] if check["name"] == name]
    return {key: found[key] for key in ("status", "detail", "remedy")}


def test_the_doctor_starts_the_app_server_and_leaves_nothing_behind(weft):
    check = doctor(weft, "codex")
    assert check["status"] == "ok"
    assert "its app-server answers (" in check["detail"]
    assert list(weft.home.iterdir()) == []


def codex_saying(weft: Weft, version: str, *, name: str = "codex") -> None:
    """Configure a Codex that only knows its version."""
    binary = weft.home.parent / name
    binary.write_text(f"#!/bin/sh\necho codex-cli {version}\n")
    binary.chmod(0o755)
    (weft.home / "config.toml").write_text(f'[codex]\nbinary = "{binary}"\nhome = "user"\n')


def test_a_codex_of_a_version_that_is_not_known_is_told(weft):
    codex_saying(weft, "0.99.1")
    assert doctor(weft, "codex") == {
        "status": "warn",
        "detail": "Codex 0.99.1 is older than Weft supports (0.160.0 to before 0.180.0)",
        "remedy": "update Codex",
    }
    told = weft("codex", "--json").json["codex"]
    assert told == {
        "binary": str(weft.home.parent / "codex"),
        "version": "0.99.1",
        "supported": "0.160.0 to before 0.180.0",
        "home": str(weft.project / ".codex"),
        "whose": "user",
        "projection": "native",
        "starts": None,
        "problem": "Codex 0.99.1 is older than Weft supports (0.160.0 to before 0.180.0); "
        "update Codex",
    }


def test_a_codex_whose_app_server_does_not_answer_is_told(weft):
    codex_saying(weft, "0.163.0")
    check = doctor(weft, "codex")
    assert (check["status"], bool(check["remedy"])) == ("warn", True)
    (weft.home / "config.toml").write_text('[codex]\nbinary = "/nowhere/codex"\n')
    assert "cannot run '/nowhere/codex'" in doctor(weft, "codex")["detail"]


@contextmanager
def served(weft: Weft, answer: str) -> Iterator[str]:
    """The address of a model server that always gives one answer."""
    script = weft.home.parent / "script.toml"
    script.write_text(f'[[answer]]\ntext = "{answer}"\ntimes = 0\n')
    with subprocess.Popen(
        [SCRIPT, "fake", str(script), "--json"], stdout=subprocess.PIPE, env=weft.env
    ) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["base_url"]
        finally:
            server.terminate()


def test_a_turn_on_codex_leaves_a_binding_that_can_be_looked_at(weft):
    with served(weft, "Hello from Codex.") as address:
        (weft.home / "config.toml").write_text(
            f"[providers.mine]\napi = 'responses'\nbase_url = '{address}'\nkey_required = false\n"
            "harness = 'codex'\n"
        )
        done = weft("exec", "x", "--model", "mine:m")
    assert done.text == "Hello from Codex.\n"
    assert "mine:m on codex · " in done.err
    (info,) = weft("threads", "--json").json
    (bound,) = weft("codex", "status", "--json").json["bindings"]
    assert {key: bound[key] for key in ("thread", "engine", "projection", "model")} == {
        "thread": info["id"],
        "engine": "linear",
        "projection": "native",
        "model": "mine:m",
    }
    shown = weft("codex", "status").lines
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


def test_a_person_moves_to_another_harness_between_turns(weft, site):
    install(site, "parrot")
    model = scripted(weft, {"text": "I am Weft."})
    with talk(weft, "chat", "--model", model) as talking:
        talking.say("/harness")
        talking.expect("harness weft (auto_weft)")
        talking.say("/harness parot")
        talking.expect("no harness 'parot'; there are 'codex', 'weft', 'parrot'")
        talking.say("/harness parrot")
        talking.expect("harness parrot (forced_plugin)")
        talking.say("hello")
        talking.expect("parrot heard turn 1")
        talking.say("/status")
        talking.expect("parrot (forced_plugin)")
        talking.say("/harness auto")
        talking.expect("harness weft (auto_weft)")
        talking.say("hello again")
        talking.expect("I am Weft.")
        talking.leave()
