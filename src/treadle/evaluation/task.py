"""Tasks: directories in Harbor's format, read and checked.

Owns what of the format counts here. Invariant: a task that cannot be run as it says is refused
before anything runs, with its file and the key; keys that change nothing here are allowed.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ..core.errors import InvalidOption
from ..core.files import is_directory, is_there, read_bounded
from ..core.typed import convert
from .image_steps import ImageSteps, read_image_steps

__all__ = ["SETTINGS", "MalformedTask", "Task", "find_tasks", "read_task"]

SETTINGS = "task.toml"
_INSTRUCTION = "instruction.md"
_MOST_TEXT = 1 << 20
_MOST_FILES = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Seconds = Annotated[float, Meta(gt=0, le=7 * 24 * 3600)]


class MalformedTask(InvalidOption):
    """A directory is no task that can be run here."""

    def __init__(self, place: Path, why: str) -> None:
        self.place = place
        super().__init__(f"the task {str(place)!r} cannot be run: {why}")


class _Agent(Struct, frozen=True):
    timeout_sec: Seconds = 900.0


class _Verifier(Struct, frozen=True):
    timeout_sec: Seconds = 900.0
    env: dict[str, str] = {}


class _Environment(Struct, frozen=True):
    build_timeout_sec: Seconds = 600.0
    allow_internet: bool = False
    docker_image: str | None = None
    mcp_servers: list[Any] = []


class _Settings(Struct, frozen=True):
    """What counts of `task.toml`; Harbor has more keys, and more to come."""

    schema_version: str = ""
    metadata: dict[str, Any] = {}
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    environment: _Environment = _Environment()
    steps: list[Any] = []


class Task(Struct, frozen=True, kw_only=True):
    """A task that can be run."""

    name: str
    place: Path
    instruction: str
    digest: str
    """Of all of its files: another digest is another task."""
    metadata: dict[str, Any]
    image: ImageSteps
    agent_seconds: float
    verifier_seconds: float
    build_seconds: float
    verifier_env: dict[str, str]
    network: bool

    @property
    def environment(self) -> Path:
        """Return the directory that its files are copied from."""
        return self.place / "environment"

    @property
    def tests(self) -> Path:
        """Return the directory of what grades it."""
        return self.place / "tests"

    @property
    def script(self) -> Path:
        """Return what a scripted model answers to solve it; it may not be there."""
        return self.place / "solution" / "script.toml"


def find_tasks(places: Sequence[Path]) -> tuple[Task, ...]:
    """Return the tasks in `places`: each is a task, or a directory of tasks.

    Raises `MalformedTask` for one that cannot be run, and for two of one name.
    """
    found: dict[str, Task] = {}
    for place in dict.fromkeys(each.absolute() for given in places for each in _in_place(given)):
        task = read_task(place)
        if (other := found.get(task.name)) is not None:
            raise MalformedTask(place, f"{str(other.place)!r} has the same name; rename one")
        found[task.name] = task
    return tuple(found.values())


def _in_place(given: Path) -> list[Path]:
    if not is_directory(given) or is_there(given / SETTINGS):
        return [given]
    inside = sorted(each.parent for each in given.glob(f"*/{SETTINGS}"))
    if not inside:
        raise MalformedTask(given, f"it has no {SETTINGS!r}, and no directory in it has one")
    return inside


def read_task(place: Path) -> Task:
    """Read the task in a directory. Raises `MalformedTask`."""
    if not is_directory(place):
        raise MalformedTask(place, "there is no such directory; check the path")
    if _NAME.fullmatch(place.name) is None:
        raise MalformedTask(place, "its name may have letters, digits, '.', '_' and '-' only")
    settings = _read_settings(place)
    _refuse_what_is_missing_here(place, settings)
    instruction = _text(place, _INSTRUCTION)
    if not instruction.strip():
        raise MalformedTask(place, f"{_INSTRUCTION!r} is empty; write what is to be done")
    if not (place / "tests" / "test.sh").is_file():
        raise MalformedTask(place, "there is no 'tests/test.sh', which grades it; add one")
    return Task(
        name=place.name,
        place=place,
        instruction=instruction,
        digest=_digest(place),
        metadata=settings.metadata,
        image=_read_image(place),
        agent_seconds=settings.agent.timeout_sec,
        verifier_seconds=settings.verifier.timeout_sec,
        build_seconds=settings.environment.build_timeout_sec,
        verifier_env=settings.verifier.env,
        network=settings.environment.allow_internet,
    )


def _read_settings(place: Path) -> _Settings:
    try:
        return convert(tomllib.loads(_text(place, SETTINGS)), _Settings)
    except tomllib.TOMLDecodeError as error:
        raise MalformedTask(place, f"{SETTINGS!r} is no TOML: {error}; correct it") from error
    except msgspec.ValidationError as error:
        raise MalformedTask(place, f"{SETTINGS!r}: {error}; correct it") from error


def _refuse_what_is_missing_here(place: Path, settings: _Settings) -> None:
    environment = settings.environment
    unable = {
        "steps": bool(settings.steps),
        "environment.mcp_servers": bool(environment.mcp_servers),
        "environment.docker_image": environment.docker_image is not None,
    }
    for key, used in unable.items():
        if used:
            raise MalformedTask(
                place, f"{SETTINGS!r} has {key!r}, which needs Harbor; run it there"
            )


def _read_image(place: Path) -> ImageSteps:
    """Return how its files come to be; without a Dockerfile they are copied as they are."""
    environment = place / "environment"
    if not environment.is_dir():
        raise MalformedTask(place, "there is no directory 'environment'; add one")
    for name in ("docker-compose.yaml", "docker-compose.yml"):
        if (environment / name).exists():
            raise MalformedTask(place, f"{name!r} needs a container engine; run it with Harbor")
    if not (environment / "Dockerfile").exists():
        return ImageSteps.plain()
    try:
        return read_image_steps(_text(environment, "Dockerfile"))
    except ValueError as error:
        raise MalformedTask(place, f"'environment/Dockerfile': {error}") from error


def _text(place: Path, name: str) -> str:
    try:
        return read_bounded(place / name, _MOST_TEXT).decode()
    except OSError as error:
        raise MalformedTask(place, f"cannot read {name!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MalformedTask(place, f"{name!r} is not UTF-8; convert it") from error


def _digest(place: Path) -> str:
    """Return a digest of the names and bytes of all files, in order."""
    total = hashlib.sha256()
    files = sorted(each for each in place.rglob("*") if each.is_file() and not each.is_symlink())
    if len(files) > _MOST_FILES:
        raise MalformedTask(place, f"it has more than {_MOST_FILES:,} files")
    for file in files:
        if "__pycache__" in file.parts:
            continue
        with file.open("rb") as opened:
            inside = hashlib.file_digest(opened, "sha256").hexdigest()
        total.update(f"{file.relative_to(place)}\0{inside}\n".encode(errors="surrogateescape"))
    return total.hexdigest()
