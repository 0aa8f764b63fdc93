"""Prefixes: which beginnings of commands can be approved for good.

Owns a list of shapes: programs and subcommands that say what they do, and the options that do
not change it. Invariants: what is not listed cannot be approved for good; a rule covers a
command only if the *whole* command has the shape, so that no option behind the prefix makes
another command of it; outside the sandbox only shapes count that run nothing the workspace
brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..core.words import word_set
from .repository import Repository

__all__ = ["find_shape", "has_shape"]

_OPERAND = re.compile(r"[A-Za-z0-9_./@%~][A-Za-z0-9_./@%^~:+,-]*")
_NUMBER = re.compile(r"-?[0-9]+")


class CommandShape(Struct, frozen=True, kw_only=True):
    """What a command that begins with `words` may look like."""

    words: tuple[str, ...]
    options: frozenset[str] = frozenset()
    """Options without a value, or with one as in `--depth=3`."""
    operands: bool = True
    """Whether it may go on with names and paths."""
    task: bool = False
    """Whether the next word says what is done, so that it belongs to every prefix."""
    outside: bool = False
    """Whether it runs nothing that the workspace brings, so that it may leave the sandbox."""
    remote: bool = False
    """Whether it talks to a remote of the repository, which must be a plain one."""


def _shapes(text: str, *, options: str = "", **facts: bool) -> Iterator[CommandShape]:
    for line in filter(None, map(str.strip, text.split(","))):
        yield CommandShape(words=tuple(line.split()), options=word_set(options), **facts)


_PLAIN = "-q --quiet -v --verbose"
_SHAPES: tuple[CommandShape, ...] = (
    # These leave the sandbox too.
    *_shapes(
        "git fetch",
        options=f"{_PLAIN} --all -p --prune -t --tags --no-tags --depth --unshallow --dry-run",
        outside=True,
        remote=True,
    ),
    *_shapes(
        "git push",
        options=f"{_PLAIN} -u --set-upstream --tags --dry-run -n --follow-tags",
        outside=True,
        remote=True,
    ),
    *_shapes("git ls-remote", options=f"{_PLAIN} --tags --heads", outside=True, remote=True),
    *_shapes("docker pull, podman pull", options="-q --quiet", outside=True),
    # These run what the workspace says, which is what the sandbox is for.
    *_shapes("make, just, npm run, pnpm run, yarn run, cargo xtask", task=True),
    *_shapes(
        "npm test, npm ci, npm install, pnpm test, pnpm install, yarn test, yarn install, "
        "go build, go test, go vet, go fmt, go mod tidy, go mod download, "
        "uv sync, uv lock, poetry install, bundle install",
        options=_PLAIN,
    ),
    *_shapes(
        "cargo build, cargo test, cargo check, cargo clippy, cargo fmt, cargo fetch, cargo doc",
        options=f"{_PLAIN} --release --all --workspace --all-targets --all-features --locked",
    ),
    *_shapes("ruff check, ruff format, mypy", options="--fix --check --diff --strict"),
    *_shapes("mkdir", options="-p -v --parents --verbose"),
    *_shapes("touch"),
)


def find_shape(command: Sequence[str]) -> CommandShape | None:
    """Return the shape that `command` begins with."""
    return next((each for each in _SHAPES if tuple(command[: len(each.words)]) == each.words), None)


def has_shape(
    command: Sequence[str],
    *,
    outside: bool,
    repository: Repository | None = None,
) -> bool:
    """Return whether `command` is one that a rule may cover, by its first and all other words.

    >>> has_shape(("npm", "run"), outside=False), has_shape(("npm", "run", "test"), outside=False)
    (False, True)
    """
    shape = find_shape(command)
    if shape is None or (outside and not shape.outside):
        return False
    rest = tuple(command[len(shape.words) :])
    operands = [word for word in rest if not word.startswith("-")]
    if shape.task and (not rest or not operands or rest[0] != operands[0]):
        return False
    if outside and shape.remote and (repository is None or not _names_remote(operands, repository)):
        return False
    return all(_is_option(word, shape) or _OPERAND.fullmatch(word) for word in rest)


def _is_option(word: str, shape: CommandShape) -> bool:
    name, equals, value = word.partition("=")
    return name in shape.options and (not equals or _NUMBER.fullmatch(value) is not None)


def _names_remote(operands: Sequence[str], repository: Repository) -> bool:
    # What is no name of a remote is a path to git, and pushing there runs the hooks of it.
    return not operands or (
        operands[0] in repository.remotes and all("::" not in word for word in operands)
    )
