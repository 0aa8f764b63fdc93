"""Which Chromium the tests drive: one on the search path, else one from the registry.

Owns the search and the download. Invariant: what is downloaded has the digest that is
written here, and stands complete in the user's cache or not at all.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import brotli
from platformdirs import user_cache_path

from tests.node import npm_command

__all__ = ["Chromium", "find_chromiums"]

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_VERSION = "153.0.0"
_DIGEST = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
_PACKAGE = "@sparticuz/chromium"
_TIMEOUT = 300
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir prefix="relative">fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
"""The package's own configuration names directories of a machine that is not this one."""


@dataclass(frozen=True)
class Chromium:
    """A program, and what its environment needs besides."""

    binary: Path
    environ: Mapping[str, str] = field(default_factory=dict)


def find_chromiums() -> Iterator[Chromium]:
    """Yield those on the search path, then the one in the cache, which is fetched if need be."""
    for name in _NAMES:
        if (found := shutil.which(name)) is not None:
            yield Chromium(Path(found))
    yield fetch_chromium(user_cache_path("treadle-tests") / f"chromium-{_VERSION}")


def fetch_chromium(place: Path) -> Chromium:
    """Return the Chromium in `place`; download it before if it is not there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    # Two test processes that both need it: the second waits, and finds it there.
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
                unpack(_download(), Path(scratch, "chromium"))
                Path(scratch, "chromium").rename(place)
        (place / "fonts" / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    return Chromium(
        place / "chromium",
        {"LD_LIBRARY_PATH": str(place / "al2023/lib"), "FONTCONFIG_PATH": str(place / "fonts")},
    )


def unpack(package: bytes, place: Path) -> None:
    """Unpack the parts of the npm package that a headless Chromium without a GPU needs."""
    place.mkdir()
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        for name in ("al2023", "fonts"):
            inner = brotli.decompress(_member(archive, f"{name}.tar.br"))
            with tarfile.open(fileobj=io.BytesIO(inner)) as files:
                files.extractall(place / name, filter="data")
        binary = place / "chromium"
        binary.write_bytes(brotli.decompress(_member(archive, "chromium.br")))
        binary.chmod(0o755)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(f"package/bin/{name}")
    assert file is not None
    return file.read()


def _download() -> bytes:
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        raise RuntimeError(
            f"no Chromium is on the search path, and the one in the registry does not run on "
            f"{platform.system()} {platform.machine()}; install Chromium"
        )
    with tempfile.TemporaryDirectory() as scratch:
        pack = ("pack", "--silent", "--pack-destination", scratch, f"{_PACKAGE}@{_VERSION}")
        subprocess.run(
            [*npm_command(), *pack],
            check=True,
            timeout=_TIMEOUT,
            stdout=subprocess.DEVNULL,
        )
        (archive,) = Path(scratch).glob("*.tgz")
        package = archive.read_bytes()
    digest = base64.b64encode(hashlib.sha512(package).digest()).decode()
    if digest != _DIGEST:
        raise RuntimeError(
            f"{_PACKAGE} {_VERSION} has the digest {digest!r}, not {_DIGEST!r}; install Chromium"
        )
    return package
