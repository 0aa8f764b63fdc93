"""Hook files: what the command of a project's hook runs, read once.

Owns which words of a command are files of the project, and the private copies that run in
their place. Invariants: the bytes that are compared are the bytes that run, whoever writes to
the project meanwhile; a command whose files cannot be told has a problem, and does not run.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import open_regular, open_replacement
from ..core.words import word_set

__all__ = [
    "LARGEST_SOURCE",
    "HookCommand",
    "HookSource",
    "check_own_command",
    "read_command",
    "read_named_files",
    "safe_environment",
]

LARGEST_SOURCE = 64 << 20
"""Bytes of a project's file that a hook runs."""

_INTERPRETERS = re.compile(r"(?:ba|z|da|k|a)?sh|python(?:3(?:\.\d+)?)?|node|ruby|perl|php|deno|bun")
_PLAIN_PROGRAMS = word_set("true false echo printf cat logger notify-send jq")
"""Programs that run nothing of a project, whatever their words are."""
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_PLAIN_OPTIONS = frozenset(("-u", "-I", "-B", "-E"))
_SHEBANG = re.compile(rb"#![ \t]*([^\s]+)")
_RELATIVE = re.compile(r"(?:^|[\s;&|(`\"'=$])\.{1,2}/")


class HookSource(Struct, frozen=True):
    """A file of the project, as it was read for one word of a command."""

    index: int
    """Which word."""
    path: Path
    data: bytes
    executable: bool = False


class HookCommand(Struct, frozen=True):
    """A command with the files that it names. `problem` says why nobody can trust it."""

    words: tuple[str, ...]
    sources: tuple[HookSource, ...] = ()
    problem: str = ""

    def copy_to(self, directory: Path) -> tuple[str, ...]:
        """Put copies of the files below `directory`, and return the command that runs them."""
        words = list(self.words)
        for source in self.sources:
            copy = directory / hashlib.sha256(source.data).hexdigest() / source.path.name
            _write_copy(copy, source)
            words[source.index] = str(copy)
        return tuple(words)


def read_command(command: Sequence[str], root: Path) -> HookCommand:
    """Read the files below `root` that `command` names, each once."""
    words = tuple(command)
    try:
        sources = read_named_files(words, root)
    except OSError as error:
        return HookCommand(words, problem=f"{error.filename!r}: {error.strerror}")
    return HookCommand(words, sources, _find_problem(words, sources, root.resolve()))


def read_named_files(words: Sequence[str], root: Path) -> tuple[HookSource, ...]:
    """Read the files below `root` that words of a command name. Raises `OSError`."""
    return tuple(_read_sources(words, root.resolve()))


def check_own_command(name: str, command: Sequence[str]) -> None:
    """Check a hook of the user's: it must not depend on where Treadle is started.

    Raises `ConfigError`.
    """
    first = next((i for i, word in enumerate(command) if i and not word.startswith("-")), 0)
    for index, word in enumerate(command):
        program = index == 0 and "/" in word and not word.startswith("/")
        script = (
            index == first > 0
            and _INTERPRETERS.fullmatch(PurePath(command[0]).name) is not None
            and command[index - 1] not in ("-c", "-e", "-m")
            and not word.startswith("/")
        )
        if program or script or _RELATIVE.search(word) or _imports_from_here(command, index):
            raise ConfigError(
                f"hook {name!r} runs {word!r}, which any repository could bring along, because it "
                "is looked for where Treadle is started; write its full path, or name the hook in "
                "the project's .treadle/config.toml"
            )


def _imports_from_here(command: Sequence[str], index: int) -> bool:
    """Return whether a word makes Python look for modules in the working directory first."""
    python = PurePath(command[0]).name.startswith("python")
    return python and command[index] in ("-c", "-m", "-") and not {"-I", "-P"} & {*command[:index]}


def safe_environment(environ: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return `environ` with a search path that leads nowhere where commands could write."""
    kept = [
        each
        for each in environ.get("PATH", os.defpath).split(os.pathsep)
        if Path(each).is_absolute()
        and not Path(each).is_relative_to(root)
        and not _is_open(Path(each), root)
    ]
    return {**environ, "PATH": os.pathsep.join(kept) or os.defpath}


def _is_open(path: Path, root: Path) -> bool:
    """Return whether commands of the project may well be able to write `path`."""
    temporary = (Path("/tmp"), Path(os.environ.get("TMPDIR") or "/tmp"))  # noqa: S108
    places = [Path(os.path.realpath(each)) for each in (root, *temporary)]
    return any(Path(os.path.realpath(path)).is_relative_to(place) for place in places)


def _write_copy(copy: Path, source: HookSource) -> None:
    """Write a copy; one that is there already stays, because it may be running."""
    mode = 0o500 if source.executable else 0o400
    with suppress(OSError), open_regular(copy) as file:
        same_mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
        if same_mode and file.read(len(source.data) + 1) == source.data:
            return
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_replacement(copy) as file:
        file.write(source.data)
        os.fchmod(file.fileno(), mode)


def _read_sources(words: Sequence[str], root: Path) -> Iterator[HookSource]:
    for index, word in enumerate(words):
        path = _resolve(root / word)
        if path is not None and path.is_relative_to(root) and _is_file(path):
            yield _read_source(index, path)


def _resolve(path: Path) -> Path | None:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # a whole script or a document, not the name of one
            return False
        raise


def _read_source(index: int, path: Path) -> HookSource:
    with open_regular(path) as file:
        data = file.read(LARGEST_SOURCE + 1)
        mode = os.fstat(file.fileno()).st_mode
    if len(data) > LARGEST_SOURCE:
        raise OSError(errno.EFBIG, f"is larger than {LARGEST_SOURCE:,} bytes", str(path))
    return HookSource(index, path, data, bool(mode & stat.S_IXUSR))


def _find_problem(words: Sequence[str], sources: Sequence[HookSource], root: Path) -> str:
    by_index = {source.index: source for source in sources}
    if not words:
        return "it names no command"
    for source in sources:
        interpreter = _SHEBANG.match(source.data)
        if interpreter and _is_of_project(os.fsdecode(interpreter[1]), root):
            return f"{str(source.path)!r} names an interpreter in the project"
    if 0 in by_index:
        return ""
    name = PurePath(words[0]).name
    if "/" in words[0] and not words[0].startswith(_SYSTEM):
        return f"{words[0]!r} is no file of the project and no program of the system"
    if _INTERPRETERS.fullmatch(name):
        first = next((i for i, w in enumerate(words) if i and w not in _PLAIN_OPTIONS), None)
        if first in by_index:
            return ""
    elif name in _PLAIN_PROGRAMS:
        return ""
    return (
        f"what {' '.join(words)!r} runs cannot be told; put it into a script of the project and "
        "name that as the command"
    )


def _is_of_project(program: str, root: Path) -> bool:
    """Return whether `program` is looked for in the project, or where all write."""
    return not program.startswith("/") or _is_open(Path(program), root)
