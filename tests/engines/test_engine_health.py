from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from treadle.core.redact import one_line
from treadle.engines.reports import EngineFailure, EngineHealth


def without_times(health: EngineHealth) -> dict[str, EngineFailure]:
    return {engine: replace(failure, time=0) for engine, failure in health.read().items()}


@pytest.fixture(params=["a home", "no home"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "a home" else None


async def test_nothing_is_known_of_engines_that_never_failed(home, tmp_path):
    health = EngineHealth(home)
    await health.clear("mine", "assemble")
    assert health.read() == {}
    assert list(tmp_path.iterdir()) == []


async def test_the_newest_failure_is_remembered_with_how_often_it_came(home):
    health = EngineHealth(home)
    await health.record("mine", "assemble", "first", "thr_1")
    await health.record("mine", "assemble", "second", "thr_2")
    await health.record("other", "commit_turn", "no disk")
    assert without_times(health) == {
        "mine": EngineFailure(
            operation="assemble", reason="second", thread="thr_2", time=0, count=2
        ),
        "other": EngineFailure(operation="commit_turn", reason="no disk", time=0),
    }
    await health.record("mine", "bootstrap", "third", "thr_2")
    assert without_times(health)["mine"] == EngineFailure(
        operation="bootstrap", reason="third", thread="thr_2", time=0
    )


async def test_only_the_same_operation_of_the_same_engine_clears_a_failure(home):
    health = EngineHealth(home)
    await health.record("mine", "assemble", "no")
    await health.clear("mine", "compact")
    await health.clear("other", "assemble")
    assert list(health.read()) == ["mine"]
    await health.clear("mine", "assemble")
    assert health.read() == {}
    await health.record("mine", "assemble", "again")
    assert health.read()["mine"].count == 1


async def test_another_process_sees_the_failure_and_the_recovery(tmp_path):
    here, there = EngineHealth(tmp_path), EngineHealth(tmp_path)
    await here.record("mine", "assemble", "no", "thr_1")
    assert there.read() == here.read()
    await there.clear("mine", "assemble")
    assert here.read() == {}


async def test_failures_at_the_same_time_are_all_counted(tmp_path):
    health = EngineHealth(tmp_path)
    await asyncio.gather(*(health.record("mine", "ingest", str(n)) for n in range(20)))
    assert health.read()["mine"].count == 20


async def test_the_file_is_the_user_s_alone_and_replaced_whole(tmp_path):
    await EngineHealth(tmp_path).record("mine", "assemble", "no")
    file = tmp_path / "engines" / "health.json"
    assert list(file.parent.iterdir()) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"failures": {"mine": 3}}', b"\xff\x00"])
async def test_a_damaged_file_is_as_good_as_none(tmp_path, body):
    file = tmp_path / "engines" / "health.json"
    file.parent.mkdir()
    file.write_bytes(body)
    health = EngineHealth(tmp_path)
    await health.clear("mine", "assemble")
    assert health.read() == {}
    await health.record("mine", "assemble", "no")
    assert list(EngineHealth(tmp_path).read()) == ["mine"]


async def test_a_place_that_cannot_be_written_breaks_nothing(tmp_path, caplog):
    (tmp_path / "engines").write_text("in the way")
    await EngineHealth(tmp_path).record("mine", "assemble", "no")
    assert "cannot write" in caplog.text


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("KeyError: 'depth'", "KeyError: 'depth'"),
        ("two\n  lines\tof it", "two lines of it"),
        ("cannot reach postgres://me:pw@db/x", "cannot reach postgres://…@db/x"),
        ("401 for Authorization: Bearer abc.def", "401 for Authorization: Bearer …"),
        ("invalid sk-proj-1234567890abc given", "invalid … given"),
        ("RuntimeError: token=hunter2", "RuntimeError: token=…"),
        ("password: , retries: 3", "password: , retries: 3"),
        ("OPENAI_API_KEY=hunter2, retries=3", "OPENAI_API_KEY=…, retries=3"),
        ('{"api-key": "hunter2", "depth": 3}', '{"api-key": "…", "depth": 3}'),
        ("see https://example.org/a?token=hunter2&b=1", "see https://example.org/a?token=…&b=1"),
    ],
)
def test_a_reason_is_one_line_without_secrets(reason, kept):
    assert one_line(reason) == kept


@given(st.text(max_size=2000))
def test_a_reason_is_short_and_on_one_line(reason):
    line = one_line(reason)
    assert len(line) <= 300
    assert len(line.splitlines()) <= 1
