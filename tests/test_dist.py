"""The built wheel: what people install, not the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(place: Path, kind: str) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(place), "-t", kind],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = place.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_two_builds_have_the_same_bytes(tmp_path, kind):
    first, second = (build(tmp_path / name, kind) for name in ("one", "two"))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_a_wheel_holds_the_package_with_its_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"treadle"}
    source = ROOT / "src" / "treadle"
    data = {
        str(path.relative_to(source.parent))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.startswith("treadle/")} == data


def test_the_wheel_runs_a_turn_in_an_environment_of_its_own(wheel, tmp_path):
    place = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    paths = sysconfig.get_paths(vars={"base": str(place), "platbase": str(place)})
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(paths["purelib"])
    # Its dependencies come from here; a path in a file does not bring the editable checkout.
    here = sysconfig.get_paths()["purelib"]
    Path(paths["purelib"], "dependencies.pth").write_text(f"{here}\n")
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "From the wheel."}\n')
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    run = [str(place / "bin" / "python"), "-c", "from treadle.cli import main; main()"]
    version = subprocess.run(
        [*run, "--version"], env=environ, capture_output=True, text=True, check=True
    )
    told = subprocess.run(
        [*run, "exec", "--model", f"scripted:{script}", "hello"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    where = subprocess.run(
        [run[0], "-c", "import treadle; print(treadle.__file__)"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.startswith("treadle 0.")
    assert told.stdout.strip().endswith("From the wheel.")
    assert where.stdout.startswith(str(place))
