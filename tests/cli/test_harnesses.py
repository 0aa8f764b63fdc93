from __future__ import annotations

from pathlib import Path

import pytest

from ..harness.packages import install
from .scripts import scripted
from .terminal import Weft

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
