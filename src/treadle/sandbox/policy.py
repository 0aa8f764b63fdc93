"""Policies: what a user lets commands do, before any path is resolved.

Owns the settings of a sandbox as plain values. Invariant: a policy holds settings, a
`Boundary` holds them applied to this disk; only the boundary is ever enforced.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from ..core.former_name import DATA_DIRECTORY

__all__ = [
    "CREDENTIALS",
    "PROTECTED_NAMES",
    "SOCKET_DIRECTORIES",
    "Limits",
    "SandboxMode",
    "SandboxPolicy",
]

SandboxMode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]

PROTECTED_NAMES = (".git", ".treadle", ".codex", ".agents")
"""What stays read-only directly below every writable root: such files make programs run code."""

SOCKET_DIRECTORIES = ("/run", "/var/run", "/tmp/.X11-unix", "/tmp/.ICE-unix")  # noqa: S108
"""Where services of the machine listen; hidden unless a root opens one."""

CREDENTIALS = (
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.kube",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.docker/config.json",
    "~/.netrc",
    "~/.git-credentials",
    "~/.pypirc",
    "~/.codex/auth.json",
    "~/.claude/.credentials.json",
    DATA_DIRECTORY,
)
"""What commands cannot read unless the user allows it."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much one sandboxed command may use; None sets no limit."""

    processes: int = 1024
    """Processes and threads at one time."""
    memory_bytes: int | None = None
    """Address space of each process."""
    file_bytes: int | None = None
    """Size of each file that is written."""


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What commands may do.

    With `network` off they reach nothing but a loopback of their own; `local_sockets`
    then still lets them use unix sockets, their own and those of files they can see.
    Treadle's home is hidden whatever `hidden` says.
    """

    mode: SandboxMode = "read-only"
    writable_roots: tuple[str, ...] = ()
    network: bool = False
    local_sockets: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False
    hidden: tuple[str, ...] = CREDENTIALS
    limits: Limits = Limits()
