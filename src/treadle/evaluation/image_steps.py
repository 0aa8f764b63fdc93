"""Image steps: what of a Dockerfile can be done without a container engine.

Owns the reading of its lines. Invariant: a line that would be left out is an error, and not
skipped; only `FROM` is, because this machine stands in for the image that it names.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

__all__ = ["Copied", "ImageSteps", "Ran", "read_image_steps"]

_CONTINUED = re.compile(r"\\[ \t]*\n")
_USUAL_PLACE = "/app"
_NO_MEANING = frozenset({"FROM", "LABEL", "CMD", "ENTRYPOINT", "EXPOSE", "ARG", "SHELL"})
"""Lines about the image or its first process, which nothing here asks."""
_OWN_PLACES = ("/tests", "/logs", "/solution", "/usr", "/etc", "/bin", "/lib", "/proc", "/dev")


class Copied(Struct, frozen=True, tag="copy"):
    """Files of the directory that are copied; `to` is a path below the workspace."""

    sources: tuple[str, ...]
    to: str
    is_directory: bool


class Ran(Struct, frozen=True, tag="run"):
    """A command line that is run in the workspace."""

    line: str


class ImageSteps(Struct, frozen=True, kw_only=True):
    """How the files of a task come to be, and where they are."""

    workdir: str
    """The directory that the agent works in, as it is called in the box."""
    env: dict[str, str] = {}
    steps: tuple[Copied | Ran, ...] = ()

    @classmethod
    def plain(cls) -> ImageSteps:
        """Return the steps of a task without a Dockerfile: everything is copied."""
        return cls(workdir=_USUAL_PLACE, steps=(Copied((".",), ".", is_directory=True),))


def read_image_steps(text: str) -> ImageSteps:
    """Read a Dockerfile. Raises `ValueError` with its line for what cannot be done here."""
    lines = list(_lines(text))
    places = [rest.strip() for word, rest in lines if word == "WORKDIR"]
    if len(set(places)) > 1:
        raise ValueError("more than one WORKDIR needs a container engine; run it with Harbor")
    workdir = posixpath.normpath(places[0]) if places else _USUAL_PLACE
    if not workdir.startswith("/") or workdir == "/" or workdir.startswith(_OWN_PLACES):
        raise ValueError(f"WORKDIR {workdir!r} cannot be the workspace; use '/app'")
    env: dict[str, str] = {}
    steps: list[Copied | Ran] = []
    for word, rest in lines:
        match word:
            case "COPY":
                steps.append(_copied(rest, workdir))
            case "RUN":
                steps.append(_ran(rest))
            case "ENV":
                env |= _variables(rest)
            case "WORKDIR":
                pass
            case _ if word in _NO_MEANING:
                pass
            case _:
                raise ValueError(f"{word} needs a container engine; run it with Harbor")
    return ImageSteps(workdir=workdir, env=env, steps=tuple(steps))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in _CONTINUED.sub(" ", kept).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def _copied(rest: str, workdir: str) -> Copied:
    words = shlex.split(rest)
    if len(words) < 2 or any(word.startswith("--") for word in words) or rest.startswith("["):
        raise ValueError(f"COPY {rest!r} cannot be done here; write COPY FROM TO, without options")
    *sources, target = words
    whole = posixpath.normpath(posixpath.join(workdir, target))
    if whole != workdir and not whole.startswith(f"{workdir}/"):
        raise ValueError(f"COPY to {target!r} leaves the WORKDIR {workdir!r}; copy below it")
    if any(".." in source.split("/") for source in sources):
        raise ValueError(f"COPY {rest!r} leaves the directory of the Dockerfile")
    many = target.endswith(("/", ".")) or len(sources) > 1 or whole == workdir
    return Copied(tuple(sources), posixpath.relpath(whole, workdir), many)


def _ran(rest: str) -> Ran:
    if rest.startswith(("[", "--")):
        raise ValueError(f"RUN {rest!r} cannot be done here; write one command line")
    return Ran(rest)


def _variables(rest: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in shlex.split(rest)]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError(f"ENV {rest!r} cannot be read; write NAME=VALUE")
    return {name: value for name, _, value in pairs}
