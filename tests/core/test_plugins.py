import asyncio
import json
import sys
import threading
from collections.abc import Iterable
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from zipfile import ZipFile

import pytest

from treadle.core.errors import ConfigError
from treadle.core.plugins import PluginGroup, call_within, installed_points

GROUP = "treadle.trial"
POINTS = f"[{GROUP}]\nsecond = house:Second\nfirst = house:First\n"


def offered(place: Path, folder: str = "house-1.0.dist-info", points: str = POINTS) -> None:
    about = place / folder
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(points)


def names() -> list[str]:
    return [point.name for point in installed_points(GROUP)]


def test_a_package_that_is_installed_is_found_in_the_order_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert names() == []
    offered(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == ["first", "second"]
    assert {*installed_points(GROUP)} == {*entry_points(group=GROUP)}


def test_a_broken_package_is_named_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    points = f"[{GROUP}]\nfirst = nowhere_at_all:First\nsecond = json:dumps\n"
    offered(tmp_path, points=points)
    monkeypatch.syspath_prepend(tmp_path)
    group, used = PluginGroup(GROUP, "trial"), list[object]()
    problem = (
        "trial 'first' cannot be loaded from 'nowhere_at_all:First' of 'house': "
        "ModuleNotFoundError: No module named 'nowhere_at_all'; update or remove 'house'"
    )
    with pytest.raises(ConfigError) as caught:
        group.use_all(used.append)
    assert (str(caught.value), used) == (problem, [json.dumps])
    with pytest.raises(ConfigError) as caught:
        group.load("first")
    assert str(caught.value) == problem
    assert (group.names(), group.load("second"), group.load("third")) == (
        ("first", "second"),
        json.dumps,
        None,
    )


def test_one_that_is_installed_later_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == []
    offered(tmp_path)
    assert names() == ["first", "second"]


def test_the_current_directory_counts_where_it_is_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    offered(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert names() == ["first", "second"]


def test_a_group_whose_name_begins_alike_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    offered(tmp_path, points="[treadle.trials]\nfirst = house:First\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == []


def test_packages_in_an_archive_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    archive = tmp_path / "house.zip"
    with ZipFile(archive, "w") as opened:
        about = "Metadata-Version: 2.1\nName: house\nVersion: 1.0\n"
        opened.writestr("house-1.0.dist-info/METADATA", about)
        opened.writestr("house-1.0.dist-info/entry_points.txt", POINTS)
    monkeypatch.syspath_prepend(archive)
    assert names() == ["first", "second"]


def test_packages_of_a_finder_that_knows_no_directory_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    offered(tmp_path)

    class Elsewhere:
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, _: object = None) -> Iterable[Distribution]:
            yield Distribution.at(tmp_path / "house-1.0.dist-info")

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Elsewhere()])
    assert names() == ["first", "second"]


async def test_a_cancellation_that_meets_the_result_is_not_swallowed():
    loop = asyncio.get_running_loop()

    def cancel_after_the_result(worker: threading.Thread) -> None:
        while worker.is_alive():
            pass
        # The result waits to be taken over by now; this comes right behind it.
        loop.call_soon(waiting.cancel)

    def work() -> str:
        loop.call_soon_threadsafe(cancel_after_the_result, threading.current_thread())
        return "a result"

    waiting = asyncio.create_task(call_within(work, 60))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert waiting.cancelled()
