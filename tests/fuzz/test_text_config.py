from __future__ import annotations

import os
import tomllib
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.config import load_config
from treadle.config.config_file import DEEPEST, LONGEST_STATEMENT, MOST_BYTES, ConfigFile, key_lines
from treadle.config.layers import environment_values
from treadle.config.trusted_files import TrustStore, _Trusted
from treadle.core.errors import ConfigError
from treadle.core.files import read_bounded, read_private_json
from treadle.models.catalog import Catalog

NAMES = st.sampled_from(["a", "b", '"c d"', "'e.f'", "g-h"])
VALUES = st.sampled_from(
    [
        "1",
        '"x # y"',
        "[\n  1,\n  # no end ]\n]",
        '"""\n[t]\na = 2\n"""',
        "{ i = 1, j.k = 2 }",
        "nan",
    ]
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A valid file in which no name is said twice."""
    lines = []
    for number in range(draw(st.integers(0, 4))):
        header = draw(st.sampled_from([f"[t{number}]", f"[t{number}.u]", f"[[l{number}]]"]))
        lines += [draw(st.sampled_from(["", "# [note]", "\t# \u2028 a = 1"])), header]
        names = draw(st.lists(NAMES, unique=True, max_size=4))
        lines += [f"{name} = {draw(VALUES)}" for name in names]
    return "\n".join(lines)


def with_text(home: Path, text: str) -> Path:
    file = home / "config.toml"
    file.write_text(text)
    return file


def refused(home: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(home, home, {}, {})
    return str(caught.value)


@given(documents())
def test_a_key_is_said_on_the_line_before_which_the_file_does_not_hold_it(text: str):
    tomllib.loads(text)
    lines = text.split("\n")
    for key, number in key_lines(text).items():
        spelt = lines[number - 1].lstrip()
        assert spelt.startswith("[") or any(part in spelt for part in key)


@pytest.mark.parametrize("opening", ["[", "{a=", "[{a=["])
@pytest.mark.parametrize("times", [DEEPEST + 1, 400, 100_000])
def test_values_that_nest_too_deep_are_refused(tmp_path, opening, times):
    closing = {"[": "]", "{a=": "}", "[{a=[": "]}]"}[opening]
    with_text(tmp_path, f"[engines.x]\na = {opening * times}1{closing * times}\n")
    assert "nests more than 32 tables and lists; flatten it" in refused(tmp_path)


def test_tables_that_nest_too_deep_are_refused(tmp_path):
    with_text(tmp_path, f"[engines.{'.'.join('a' * 20_000)}]\nb = 1\n")
    assert "nests more than 32 tables and lists" in refused(tmp_path)


def test_a_number_of_thousands_of_digits_is_no_toml_and_no_variable(tmp_path):
    with_text(tmp_path, f"model = {'9' * 5_000}")
    assert "is not valid TOML: Exceeds the limit" in refused(tmp_path)
    with pytest.raises(ConfigError, match="'tool_output_token_limit' is '999"):
        environment_values({"TREADLE_TOOL_OUTPUT_TOKEN_LIMIT": "9" * 5_000})


def test_a_wrong_value_is_repeated_only_in_part(tmp_path):
    with_text(tmp_path, f"model = [{'1,' * 100_000}]")
    assert len(refused(tmp_path)) < 1_000


def test_a_file_of_many_lines_costs_no_more_than_its_lines(tmp_path):
    file = with_text(tmp_path, "# note\n" * 100_000 + "[engines.x]\na = 1\n")
    found = ConfigFile.read(file)
    assert found is not None
    assert found.locate(("engines", "x", "a")) == f"{file}:100002"


def test_a_statement_over_too_many_lines_hides_the_lines_after_it_only():
    text = "a = 1\nb = [\n" + "1,\n" * LONGEST_STATEMENT + "]\nc = 1\n"
    assert key_lines(text) == {("a",): 1}


@pytest.mark.parametrize("strange", ["pipe", "directory", "device", "huge"])
def test_what_is_no_file_of_a_configuration_is_refused_at_once(tmp_path, strange):
    file = tmp_path / "config.toml"
    match strange:
        case "pipe":
            os.mkfifo(file)
        case "directory":
            file.mkdir()
        case "device":
            file.symlink_to("/dev/zero")
        case "huge":
            with file.open("wb") as made:
                made.truncate(1 << 40)
    tracemalloc.start()
    try:
        assert refused(tmp_path).startswith(f"cannot read {str(file)!r}: ")
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_BYTES
    finally:
        tracemalloc.stop()


def test_a_project_nobody_trusts_cannot_make_treadle_read_a_terabyte(tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".treadle").mkdir(parents=True)
    home.mkdir()
    file = project / ".treadle" / "config.toml"
    with file.open("wb") as made:
        made.truncate(1 << 40)
    with pytest.raises(ConfigError, match="it is larger than 1,048,576 bytes"):
        load_config(home, project, {}, {})
    with pytest.raises(ConfigError, match="it is larger than 1,048,576 bytes"):
        TrustStore(home).trust(file)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"files":' + b"[" * 100_000, b'{"files":"\xff"}']
)
def test_a_broken_private_file_is_named(tmp_path, body):
    file = tmp_path / "trusted.json"
    file.write_bytes(body)
    with pytest.raises(ConfigError, match="Treadle did not write it; repair or remove it"):
        read_private_json(file, _Trusted)


@pytest.mark.parametrize("text", [f"models = {'[' * 5_000}", f"models = {'9' * 5_000}", "\udcff"])
def test_a_broken_catalog_is_named(tmp_path, text):
    file = tmp_path / "models.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match="is not valid TOML"):
        Catalog.load(file)


@given(st.binary(max_size=64), st.integers(0, 64))
def test_a_bounded_read_gives_all_or_nothing(tmp_path_factory, data, most):
    file = tmp_path_factory.mktemp("bounded") / "f"
    file.write_bytes(data)
    if len(data) <= most:
        assert read_bounded(file, most) == data
    else:
        with pytest.raises(OSError, match=f"it is larger than {most} bytes"):
            read_bounded(file, most)
