"""The choice of an executor: what a user writes, and what is made of it.

Owns the form ``KIND:WHAT`` and the details beside it. Invariant: a wrong choice is refused
before anything is made or reached, with the forms that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..core.errors import InvalidOption
from ..tools.executor_life import ExecutorSource

__all__ = ["FORMS", "LOCAL", "ExecutorChoice", "OnClose", "find_source"]

LOCAL = "local"
"""This machine."""

FORMS = (
    "local, docker:IMAGE, podman:IMAGE, ssh:HOST[:DIRECTORY], pipe:COMMAND, e2b:TEMPLATE, "
    "kubernetes:IMAGE, kubernetes:pool/NAME"
)

OnClose = Literal["keep", "pause", "stop"]


class ExecutorChoice(Struct, frozen=True, kw_only=True):
    """Where the commands of a thread run, and how it is made."""

    where: str = ""
    """``KIND:WHAT``, such as ``docker:python:3.13``; ``local`` for this machine; empty for where
    the thread was."""
    workspace: str | None = None
    """The directory there; None: the usual one of its kind."""
    mount: bool = True
    """Whether a container sees the thread's directory of this machine."""
    mounts: tuple[str, ...] = ()
    """More of this machine that it sees: ``FROM:TO``, or ``FROM:TO:ro``."""
    env: Mapping[str, str] = {}
    """Variables of everything that runs there. None of this machine's own go there."""
    user: str | None = None
    """Who runs there; None: this user's number where files of this machine are seen."""
    network: bool | None = None
    """Whether it reaches the network; None: as the rights of commands say."""
    on_close: OnClose = "pause"
    """What becomes of it when the thread is closed."""
    ttl: float | None = None
    """It is removed so many seconds after it was made, whoever uses it; None: never."""
    namespace: str | None = None
    """Of Kubernetes; None: the one in use."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What a source is made with, besides the user's choice."""

    cwd: Path
    """The thread's directory on this machine."""
    network: bool
    """Whether the thread's commands may reach the network."""


def find_source(
    choice: ExecutorChoice | str, *, cwd: Path, network: bool = False, hosts: bool = False
) -> ExecutorSource | None:
    """Return where the executor of `choice` comes from; None for this machine.

    `hosts` says that commands may reach a list of hosts only. Raises `InvalidOption`.
    """
    if isinstance(choice, str):
        choice = ExecutorChoice(where=choice)
    kind, _, what = choice.where.partition(":")
    if choice.where in ("", LOCAL):
        return None
    make = _KINDS.get(kind)
    if make is None or not what.strip():
        raise InvalidOption(f"{choice.where!r} is no executor; write one of: {FORMS}")
    reaches = network if choice.network is None else choice.network
    source = make(what, choice, Surroundings(cwd=Path(cwd), network=reaches))
    if hosts and source.contains:
        raise InvalidOption(
            f"{choice.where!r} cannot hold commands to a list of hosts; set the network to true "
            "or false, or run them on this machine"
        )
    return source


def _docker(what: str, choice: ExecutorChoice, around: Surroundings) -> ExecutorSource:
    from .docker import DockerSource

    return DockerSource(what, choice, around)


def _podman(what: str, choice: ExecutorChoice, around: Surroundings) -> ExecutorSource:
    from .docker import DockerSource

    return DockerSource(what, choice, around, program="podman")


def _ssh(what: str, choice: ExecutorChoice, _around: Surroundings) -> ExecutorSource:
    from .ssh import SshSource

    return SshSource(what, choice)


def _pipe(what: str, choice: ExecutorChoice, _around: Surroundings) -> ExecutorSource:
    import shlex  # for few: a cold start does not wait for it

    from .pipe import PipeSource

    try:
        command = tuple(shlex.split(what))
    except ValueError as error:
        raise InvalidOption(f"{what!r} is no command: {error}") from error
    return PipeSource(command, choice)


def _e2b(what: str, choice: ExecutorChoice, around: Surroundings) -> ExecutorSource:
    from .e2b import E2BSource

    return E2BSource(what, choice, around)


def _kubernetes(what: str, choice: ExecutorChoice, _around: Surroundings) -> ExecutorSource:
    from .kubernetes import KubernetesSource

    return KubernetesSource(what, choice)


_KINDS: Mapping[str, Callable[[str, ExecutorChoice, Surroundings], ExecutorSource]] = {
    "docker": _docker,
    "podman": _podman,
    "ssh": _ssh,
    "pipe": _pipe,
    "e2b": _e2b,
    "kubernetes": _kubernetes,
}
