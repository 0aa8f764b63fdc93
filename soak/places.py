"""Places: the directory of a run, disks that can be full, and doors that can be shut.

Owns what the conductor does to files. A disk that can be full is a small tmpfs in a
mount namespace of the conductor's own; where nobody may mount, the size of the files
that a worker writes is limited instead.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Disk", "Door", "Place", "Stranger", "enter_namespace"]

_NOBODY = 65534
_ROOMY = 2 << 30
_ENTERED = "TREADLE_SOAK_NAMESPACE"


def enter_namespace(arguments: list[str]) -> None:
    """Begin again where mounts are nobody else's business, if that can be had."""
    unshare = shutil.which("unshare")
    if os.geteuid() or unshare is None or os.environ.get(_ENTERED):
        return
    command = [unshare, "--mount", "--propagation", "private"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0:
        os.environ[_ENTERED] = "1"
        os.execv(unshare, [*command, *arguments])


class Stranger:
    """Somebody for whom permissions hold, as they do not for root.

    Another user, where one can run this Python; else root without the right to pass by
    permissions; and whoever is not root is a stranger already.
    """

    def __init__(self, place: Path) -> None:
        self.command: tuple[str, ...] = ()
        self.uid: int | None = None
        setpriv = shutil.which("setpriv")
        if os.geteuid() or setpriv is None:
            return
        other = (setpriv, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
        rights = "-dac_override,-dac_read_search"
        lesser = (setpriv, f"--bounding-set={rights}", f"--inh-caps={rights}")
        if _works(other, place):
            self.command, self.uid = other, _NOBODY
        elif _works(lesser, place):
            self.command = lesser

    def give(self, directory: Path) -> None:
        """Make a directory the stranger's own."""
        if self.uid is not None:
            for path in (directory, *directory.rglob("*")):
                os.chown(path, self.uid, self.uid)


def _works(command: tuple[str, ...], place: Path) -> bool:
    """Whether Treadle can be run like that, and reach `place`."""
    script = "import os, sys, soak.lives; os.listdir(sys.argv[1])"
    trial = [*command, sys.executable, "-c", script, str(place)]
    return subprocess.run(trial, check=False, capture_output=True).returncode == 0


@dataclass(slots=True)
class Place:
    """Where a run keeps everything."""

    root: Path

    def __post_init__(self) -> None:
        for name in ("homes", "projects", "heard", "logs"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        # Strangers must be able to pass.
        self.root.chmod(0o755)

    def home(self, name: str, stranger: Stranger | None = None) -> Path:
        """A home of Treadle, made if need be, whose models have small windows."""
        home = self.root / "homes" / name
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "models.toml").write_text(_MODELS)
        if stranger is not None:
            stranger.give(home)
        return home

    def project(self, name: str, stranger: Stranger | None = None) -> Path:
        """A directory to work in."""
        project = self.root / "projects" / name
        (project / "effects").mkdir(parents=True, exist_ok=True)
        if stranger is not None:
            stranger.give(project)
        return project


_MODELS = """\
[models."gpt-5.5"]
context_window = 40000
[models."soak"]
context_window = 24000
[models."claude-sonnet-4-5"]
context_window = 40000
"""


class Disk:
    """A home on a disk of its own that can be full."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mounted = bool(os.environ.get(_ENTERED)) and self._mount(f"size={_ROOMY}")

    def fill(self, worker: int) -> None:
        """Let there be no room any more, for anybody or for this process."""
        if self.mounted:
            found = os.statvfs(self.home)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            self._mount(f"remount,size={max(used, 4096)}")
        else:
            with suppress(ProcessLookupError):
                resource.prlimit(worker, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    def free(self, worker: int) -> None:
        """Let there be room again."""
        if self.mounted:
            self._mount(f"remount,size={_ROOMY}")
        else:
            limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            with suppress(ProcessLookupError):
                resource.prlimit(worker, resource.RLIMIT_FSIZE, limits)

    def keep(self) -> None:
        """Put what is on the disk where it outlives this process."""
        if self.mounted:
            kept = self.home.with_name(f"{self.home.name}-kept")
            shutil.copytree(self.home, kept, symlinks=True, ignore_dangling_symlinks=True)

    def unmount(self) -> None:
        """Give the memory back."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.home)], check=False, capture_output=True)

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.home)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Door:
    """A part of a home that can be shut for its owner."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._before: dict[Path, int] = {}

    def shut(self, pick: int) -> None:
        """Take rights away: from the home, its log, its locks or its engines."""
        log = [*self.home.glob("log.db*")]
        choices = [[self.home], log, [self.home / "locks"], [self.home / "engines"], [self.home]]
        mode = 0o500 if pick % 2 else 0o000
        for path in choices[pick % len(choices)]:
            with suppress(FileNotFoundError):
                self._before.setdefault(path, path.stat().st_mode & 0o777)
                path.chmod(mode)

    def open(self) -> None:
        """Give them back."""
        for path, mode in sorted(self._before.items(), key=lambda pair: len(pair[0].parts)):
            with suppress(FileNotFoundError):
                path.chmod(mode)
        self._before.clear()
