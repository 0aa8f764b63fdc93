from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.page import PAGE, between, generated_text, replace_generated
from benchmarks.peers.contestants import CONTESTANTS, HERE
from benchmarks.peers.results import COMMITTED, Results
from benchmarks.peers.targets import TARGETS, TIMES

ROOT = PAGE.parent.parent


def results(**runs: dict[str, list[dict[str, float]]]) -> Results:
    machine = {"cores": 2, "python": "3.11.7", "system": "Linux x86_64", "load": 0.2}
    return Results(machine, "2026-11-15", versions={"treadle": "0.1.0"}, runs=runs)


def test_the_page_says_what_the_committed_results_say():
    assert between(PAGE.read_text(encoding="utf-8")) == generated_text(Results.read(COMMITTED))


def test_every_target_is_on_the_page_with_its_verdict():
    text = between(PAGE.read_text(encoding="utf-8"))
    for target in TARGETS:
        line = next(line for line in text.splitlines() if line.startswith(f"| {target.name} |"))
        assert re.search(r"\| (met|\*\*not met\*\*|not measured) \|$", line), line


def test_images_of_the_page_are_there():
    images = re.findall(r"\]\((images/[^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert images
    assert [each for each in images if not (PAGE.parent / each).is_file()] == []


def test_results_name_no_host_and_no_path():
    text = COMMITTED.read_text(encoding="utf-8")
    assert set(Results.read(COMMITTED).machine) == {"cores", "python", "system", "load"}
    assert not re.search(r"(^|[\s\"'(=])/(home|root|tmp|work|usr|opt)/", text)


def test_a_target_is_judged_by_the_results():
    tool_loop = {
        "treadle": [{"round_5_ms": 4.0, "round_55_ms": 1.0, "round_cpu_ms": 1.5, "peak_mb": 40.0}],
        "floor": [{"round_5_ms": 0.25, "round_55_ms": 0.25, "round_cpu_ms": 0.25, "peak_mb": 36.0}],
    }
    text = generated_text(results(tool_loop=tool_loop)).replace(TIMES, "x")
    floor = "0.25 ms"
    assert f"5th tool round, beside the floor | 5x | 16.00x {floor} | 6.00x {floor} | **" in text
    assert f"55th tool round, beside the floor | 5x | 4.00x {floor} | 6.00x {floor} | **" in text
    assert "| a streamed delta, beside the floor | 1.5x | n/a | n/a | not measured |" in text
    assert "| Treadle | n/a | 4.00 / 1.00 (4.0x) | n/a | n/a | n/a |" in text


def test_why_a_peer_has_no_figures_is_told():
    told = results()
    told.failed("deltas", "smolagents", "pip: no such package")
    told.failed("deltas", "floor", "once")
    told.note("deltas", "floor", {"delta_us": 2.0})
    assert generated_text(told).endswith(
        "- smolagents, answers of 5,000 deltas: pip: no such package"
    )


def test_what_people_wrote_stays():
    page = "# Title\n\n" + replace_generated(
        "<!-- peers: made by `python -m benchmarks.page`, do not edit --><!-- peers: end -->\nend",
        "text",
    )
    assert replace_generated(page, "other") == page.replace("text", "other")
    with pytest.raises(ValueError, match="lacks the markers"):
        replace_generated("a page", "text")


def test_results_come_back_from_their_file(tmp_path: Path):
    told = results(turns={"treadle": [{"turn_10_ms": 1.23456}]})
    told.write(tmp_path / "results" / "peers.json")
    read = Results.read(tmp_path / "results" / "peers.json")
    assert read == results(turns={"treadle": [{"turn_10_ms": 1.235}]})


def test_every_contestant_has_its_driver_and_pinned_requirements():
    for contestant in CONTESTANTS.values():
        if contestant.driver:
            assert (HERE / "drivers" / f"{contestant.driver}.py").is_file()
        if contestant.environment:
            lines = (HERE / "requirements" / f"{contestant.environment}.txt").read_text("utf-8")
            assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.]+", line) for line in lines.split())


def test_a_target_shows_how_far_its_rounds_lie_apart():
    deltas = {
        "treadle": [{"delta_us": 4.0, "delta_cpu_us": 3.0}, {"delta_us": 8.0}],
        "floor": [{"delta_us": 2.0, "delta_cpu_us": 2.0}, {"delta_us": 2.0}],
    }
    text = generated_text(results(deltas=deltas)).replace(TIMES, "x")
    assert (
        "beside the floor | 1.5x | 2.00x 2.00 µs (2.00 to 4.00) | 1.50x 2.00 µs | **not met** |"
        in text
    )
