"""The environment of a command: what it inherits, what it never sees, what a model may set.

Owns which variables are always set. Invariant: a secret reaches a command only if the user
named it, by the variable's name or by the looks of its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from ..core.redact import holds_secret, is_secret

__all__ = ["command_environment", "refusal_of_variables"]

_FORCED = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "COLORTERM": "",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "TREADLE_CI": "1",
}
_PLACES = ("HOME", "PWD", "OLDPWD", "SHELL", "TMPDIR", "USER", "LOGNAME")
"""Variables that a command cannot do without; like every `*PATH` they hold names of places."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEERING = (
    *("LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "PATH", "GIT_*", "TREADLE_*"),
    *("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS"),
)
"""What decides which code runs before, or in place of, the command that is shown."""


def command_environment(
    environ: Mapping[str, str],
    *,
    allowed: Sequence[str] = (),
    thread: str = "",
    network: bool = True,
) -> dict[str, str]:
    """Return the environment of a command: `environ` without secrets, set for plain output.

    `allowed` are names, or patterns such as ``AWS_*``, that are kept although they look secret.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not _is_withheld(name, value) or any(fnmatchcase(name, each) for each in allowed)
    }
    own = {"TREADLE_THREAD_ID": thread} if thread else {}
    offline = {} if network else {"TREADLE_SANDBOX_NETWORK_DISABLED": "1"}
    return {**kept, **_FORCED, **own, **offline}


def refusal_of_variables(chosen: Mapping[str, str]) -> str:
    """Return why a model may not set these variables, for it to read; empty when it may."""
    for name, value in chosen.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            return f"{name!r} is no variable that can be set; use letters, digits and underscores"
        if any(fnmatchcase(name, each) for each in _STEERING):
            return (
                f"the variable {name!r} may not be set for a command, because it decides which "
                f"code runs; leave it out (refused: {', '.join(_STEERING)})"
            )
    return ""


def _is_withheld(name: str, value: str) -> bool:
    if is_secret(name, value):
        return True
    return not (name.endswith("PATH") or name in _PLACES) and holds_secret(value)
