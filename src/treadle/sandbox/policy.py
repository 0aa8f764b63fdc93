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
    # Keys and logins of the shell
    *("~/.ssh", "~/.gnupg", "~/.netrc", "~/.authinfo", "~/.authinfo.gpg", "~/.git-credentials"),
    *("~/.config/git/credentials", "~/.config/gh", "~/.config/glab-cli", "~/.config/hub"),
    # Clouds and clusters
    *("~/.aws", "~/.azure", "~/.kube", "~/.config/gcloud", "~/.config/doctl", "~/.oci"),
    *("~/.config/hcloud", "~/.config/rclone", "~/.boto", "~/.s3cfg", "~/.fly", "~/.vault-token"),
    *("~/.terraformrc", "~/.terraform.d/credentials.tfrc.json", "~/.databrickscfg"),
    *("~/.config/heroku", "~/.config/netlify", "~/.snowflake", "~/.config/sops/age"),
    # Containers
    *("~/.docker/config.json", "~/.config/containers/auth.json", "~/.dockercfg"),
    # Packages
    *("~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml", "~/.pypirc", "~/.config/pip/pip.conf"),
    *("~/.pip/pip.conf", "~/.config/pypoetry/auth.toml", "~/.cargo/credentials"),
    *("~/.cargo/credentials.toml", "~/.gem/credentials", "~/.composer/auth.json"),
    *("~/.config/composer/auth.json", "~/.m2/settings-security.xml"),
    "~/.gradle/gradle.properties",
    *("~/.huggingface/token", "~/.cache/huggingface/token", "~/.kaggle/kaggle.json"),
    # Databases
    *("~/.pgpass", "~/.my.cnf", "~/.mylogin.cnf", "~/.config/sqlcmd", "~/.rediscli_auth"),
    # Keyrings, passwords and browsers
    *("~/.local/share/keyrings", "~/.local/share/kwalletd", "~/.password-store", "~/.pki"),
    *("~/.config/op", "~/.config/Bitwarden CLI", "~/.mozilla", "~/.config/google-chrome"),
    *("~/.config/chromium", "~/.config/BraveSoftware"),
    # What was typed
    *("~/.bash_history", "~/.zsh_history", "~/.zhistory", "~/.histfile", "~/.sh_history"),
    *("~/.local/share/fish/fish_history", "~/.python_history", "~/.node_repl_history"),
    *("~/.psql_history", "~/.mysql_history", "~/.sqlite_history", "~/.rediscli_history"),
    *("~/.lesshst", "~/.viminfo", "~/.irb_history", "~/.local/state/python_history"),
    # Other agents
    *("~/.codex/auth.json", "~/.codex/history.jsonl", "~/.claude/.credentials.json"),
    *("~/.claude.json", "~/.claude/history.jsonl", "~/.gemini/oauth_creds.json"),
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

    With `network` off they reach nothing but a loopback of their own, and `hosts` through a
    proxy. `local_sockets` lets them use unix sockets, their own and those of files they can
    see; with `network` also those without a file.
    Treadle's home is hidden whatever `hidden` says, but for the user's skills in it.
    """

    mode: SandboxMode = "read-only"
    writable_roots: tuple[str, ...] = ()
    network: bool = False
    hosts: tuple[str, ...] = ()
    """The only hosts that they reach: names, or ``*.`` and a name for all below it."""
    local_sockets: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False
    hidden: tuple[str, ...] = CREDENTIALS
    limits: Limits = Limits()
