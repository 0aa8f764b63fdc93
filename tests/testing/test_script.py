from __future__ import annotations

from pathlib import Path

import pytest

from treadle.core.errors import ConfigError
from treadle.testing.script import (
    Answer,
    Break,
    Call,
    Playback,
    Script,
    ScriptedError,
    Tokens,
    load_script,
)

TOML = """
api = "messages"
loop = true

[[answer]]
when = "failing"
reasoning = "hm"
text = "looking"
usage = { input = 10, cached = 5 }
delay = 0.5
calls = [
  { name = "exec_command", arguments = { cmd = "ls" } },
  { name = "apply_patch", input = "*** Begin Patch" },
]

[[answer]]
times = 2
error = { status = 429, code = "rate_limit_exceeded", headers = { retry-after = "1" } }

[[answer]]
text = "bye"
cut = { events = 2 }
"""


def texts(playback: Playback, *said: str) -> list[str]:
    answers = (playback.next([each]) for each in said)
    return [answer.text if answer else "-" for answer in answers]


def test_a_toml_script_is_read(tmp_path: Path):
    path = tmp_path / "s.toml"
    path.write_text(TOML)
    assert load_script(path) == Script(
        api="messages",
        loop=True,
        answers=(
            Answer(
                when="failing",
                reasoning="hm",
                text="looking",
                usage=Tokens(input=10, cached=5),
                delay=0.5,
                calls=(
                    Call(name="exec_command", arguments={"cmd": "ls"}),
                    Call(name="apply_patch", input="*** Begin Patch"),
                ),
            ),
            Answer(
                times=2,
                error=ScriptedError(
                    status=429, code="rate_limit_exceeded", headers={"retry-after": "1"}
                ),
            ),
            Answer(text="bye", cut=Break(events=2)),
        ),
    )


def test_a_script_may_have_an_answer_on_each_line(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    path.write_text('{"text":"a"}\n\n{"text":"b","times":0}\n')
    assert load_script(path) == Script(answers=(Answer(text="a"), Answer(text="b", times=0)))


def test_a_wrong_script_names_the_file_and_the_key(tmp_path: Path):
    path = tmp_path / "s.toml"
    path.write_text("[[answer]]\ntxt = 'a'\n")
    with pytest.raises(ConfigError, match=r"s\.toml.*txt"):
        load_script(path)
    with pytest.raises(ConfigError, match="check the path"):
        load_script(tmp_path / "missing.toml")


def test_answers_are_given_in_order_each_as_often_as_it_says():
    script = Script(answers=(Answer(text="a"), Answer(text="b", times=2), Answer(text="c")))
    assert texts(Playback(script), "", "", "", "", "") == ["a", "b", "b", "c", "-"]


def test_a_condition_lets_others_go_first():
    script = Script(answers=(Answer(text="a", when="x"), Answer(text="b", times=0)))
    playback = Playback(script)
    assert texts(playback, "y", "an x", "an x") == ["b", "a", "b"]
    assert playback.left == ()


def test_a_loop_begins_again():
    script = Script(answers=(Answer(text="a"), Answer(text="b")), loop=True)
    assert texts(Playback(script), *[""] * 5) == ["a", "b", "a", "b", "a"]


def test_what_is_left_is_known():
    script = Script(answers=(Answer(text="a"), Answer(text="b")))
    playback = Playback(script)
    playback.next([])
    assert playback.left == (Answer(text="b"),)
