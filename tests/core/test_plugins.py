import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from zipfile import ZipFile

import pytest

from treadle.core.plugins import installed_points

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
