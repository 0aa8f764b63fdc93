"""Reads the machine for the prompt: the shell, the day, and the AGENTS.md files of a directory.

Owns every read of the environment and the file system on the prompt's behalf: which files,
in which order, and how much of them. Invariant: it reads and never writes; a strange file
(unreadable, endless, binary, a loop of links, a pipe) never stops a turn: it is left out, and
`problems` says so.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct, field

from ..core.files import open_regular, opened_path
from ..core.search_path import find_program
from .prompt_context import AgentsDocs, PromptContext
from .today import Clock

__all__ = [
    "MOST_BYTES",
    "DocsRules",
    "FindDocs",
    "OpenFile",
    "discover",
    "observe_machine",
    "printable",
    "project_directories",
    "user_shell",
]

MOST_BYTES = 32 * 1024
"""Bytes of all files of a project together, and of the user's own."""

_OVERRIDE, _PLAIN = "AGENTS.override.md", "AGENTS.md"
_JUDGED = ("bash", "zsh", "sh")
"""The shells whose scripts the rules about commands read (`sandbox.place.SHELLS`)."""
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_SEPARATOR = "\n\n--- project-doc ---\n\n"


OpenFile: TypeAlias = Callable[[Path], io.BufferedReader]
"""Opens a file for the model, or raises `OSError` where the model may not read it."""
Looks: TypeAlias = Callable[[Path], bool]
"""Whether there is something at a path; all that decides which files are read goes through it."""


class FindDocs(Protocol):
    """Finds the AGENTS.md files of a directory, as `discover` does."""

    def __call__(
        self,
        cwd: Path,
        *,
        home: Path | None = None,
        rules: DocsRules | None = None,
        open_file: OpenFile = open_regular,
    ) -> AgentsDocs | None:
        """Return what they say."""
        ...


class DocsRules(Struct, frozen=True):
    """Where to look and how much to read."""

    root_markers: tuple[str, ...] = (".git",)
    """A directory that holds one of these is a project's root; none: look in `cwd` only."""
    fallback_names: tuple[str, ...] = ()
    """Names to try where there is no AGENTS.md."""
    max_bytes: int = MOST_BYTES
    """For all project files together; 0 ignores them."""


def observe_machine(
    cwd: Path | str | None = None,
    *,
    settings: PromptContext | None = None,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
    rules: DocsRules | None = None,
    open_file: OpenFile = open_regular,
    shell: str | None = None,
    clock: Clock | None = None,
    find_docs: FindDocs | None = None,
) -> PromptContext:
    """Return `settings` with the facts of the machine about `cwd`. Blocks on files.

    `home` is the directory of the user's own AGENTS.md. None for `cwd` and `environ`
    means those of this process. `open_file` keeps a project's files within bounds. `shell`
    is the one that runs; None for the user's own. Without a `clock` no date is told.
    `find_docs` is `discover`, or what remembers its answer.
    """
    place = Path(os.path.abspath(cwd or "."))  # noqa: PTH100 - `resolve` fails on loops of links
    variables = os.environ if environ is None else environ
    today = clock() if clock else None
    return msgspec.structs.replace(
        settings or PromptContext(cwd=""),
        cwd=printable(place),
        shell=_shell_name(user_shell(variables) if shell is None else shell),
        date=today.date if today else "",
        timezone=today.timezone if today else "",
        agents_docs=(find_docs or discover)(place, home=home, rules=rules, open_file=open_file),
    )


def user_shell(environ: Mapping[str, str]) -> str:
    """Return the shell for command lines: the user's own where its scripts can be judged.

    A path where the system has it elsewhere; ``bash`` for users of other shells, for rules
    about commands read no scripts of theirs.
    """
    path = environ.get("SHELL", "")
    name = _shell_name(path)
    if name in _JUDGED and os.access(path, os.X_OK):
        return name if path.startswith(_SYSTEM) else path
    return "bash" if find_program("bash", environ.get("PATH")) else "sh"


def _shell_name(shell: str) -> str:
    return shell.rsplit("/", 1)[-1]


def discover(
    cwd: Path,
    *,
    home: Path | None = None,
    rules: DocsRules | None = None,
    open_file: OpenFile = open_regular,
    looks: Looks = os.path.lexists,
) -> AgentsDocs | None:
    """Read the instructions for `cwd`: the user's own from `home`, then root to `cwd`.

    A link of a project that leads out of it is reported and not read. None when there is
    neither a text nor a problem to report.
    """
    rules = rules or DocsRules()
    cwd = Path(os.path.abspath(cwd))  # noqa: PTH100 - `resolve` fails on loops of links
    own = _read_own(home, looks) if home else _DocsReader(0)
    directories = list(project_directories(cwd, rules.root_markers, looks))
    root = Path(os.path.realpath(directories[0]))
    reader = _DocsReader(rules.max_bytes, open_file, looks, root)
    for directory in directories if rules.max_bytes else ():
        reader.read_first(directory, (_OVERRIDE, _PLAIN, *rules.fallback_names))
    blocks = ["\n\n".join(own.texts), "\n\n".join(reader.texts)]
    text = _SEPARATOR.join(filter(None, blocks))
    problems = (*own.problems, *reader.problems)
    return AgentsDocs(printable(cwd), text, problems) if text or problems else None


def printable(path: Path) -> str:
    """Return `path` as text that can be encoded, whatever bytes its name has."""
    return os.fsencode(path).decode(errors="replace")


def _read_own(home: Path, looks: Looks) -> _DocsReader:
    """Read the user's own file: the first that is not blank."""
    for name in (_OVERRIDE, _PLAIN):
        reader = _DocsReader(DocsRules().max_bytes, looks=looks)
        reader.read_first(home, (name,))
        if reader.texts or reader.problems:
            reader.texts = [text.strip() for text in reader.texts]
            return reader
    return _DocsReader(0)


def project_directories(
    cwd: Path, root_markers: Sequence[str], looks: Looks = os.path.lexists
) -> Iterator[Path]:
    """Return the directories from the project's root down to `cwd`."""
    line = [cwd, *cwd.parents]
    for depth, directory in enumerate(line):
        if any(looks(directory / marker) for marker in root_markers):
            return iter(reversed(line[: depth + 1]))
    return iter([cwd])


class _DocsReader(Struct):
    """Reads files until its bytes are used up."""

    left: int
    open_file: OpenFile = open_regular
    looks: Looks = os.path.lexists
    root: Path | None = None
    """The directory that no link may lead out of."""
    texts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def read_first(self, directory: Path, names: Sequence[str]) -> None:
        """Read the first of `names` that is there and can be read."""
        for name in names:
            path = directory / name
            if not self.looks(path):
                continue
            try:
                self._keep(path, self._read_head(path))
            except OSError as error:
                self._report(path, f"cannot be read ({error.strerror or error})")
            else:
                return

    def _read_head(self, path: Path) -> bytes:
        """Return the first bytes of a regular file: of the one that was checked."""
        with self.open_file(path) as file:
            if self.root is not None:
                real = opened_path(file, path)
                if not real.is_relative_to(self.root):
                    raise PermissionError(
                        errno.EACCES, f"it leads out of the project, to {printable(real)!r}"
                    )
            return file.read(self.left + 1)

    def _keep(self, path: Path, data: bytes) -> None:
        if b"\0" in data:
            self._report(path, "is not text")
        elif data.strip():
            self._add(path, self._cut(path, data))

    def _cut(self, path: Path, data: bytes) -> bytes:
        if len(data) <= self.left:
            self.left -= len(data)
            return data
        what = f"was cut to {self.left} bytes" if self.left else "was left out"
        self._report(path, f"{what}; the files together are too long")
        data, self.left = _without_cut_character(data[: self.left]), 0
        return data

    def _add(self, path: Path, data: bytes) -> None:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode(errors="replace")
            self._report(path, "is not all UTF-8; odd bytes were replaced")
        if text.strip():
            self.texts.append(text)

    def _report(self, path: Path, what: str) -> None:
        self.problems.append(f"{printable(path)!r} {what}")


def _without_cut_character(data: bytes) -> bytes:
    """Return `data` without a character that was cut at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 != 0b1000_0000:
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data
