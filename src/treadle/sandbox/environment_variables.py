"""The environment of a command: what it inherits, and what it never sees.

Owns which variables are always set. Invariant: a secret reaches a
command only if the user named it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from ..core.redact import is_secret

__all__ = ["command_environment"]

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
        if not is_secret(name, value) or any(fnmatchcase(name, each) for each in allowed)
    }
    own = {"TREADLE_THREAD_ID": thread} if thread else {}
    offline = {} if network else {"TREADLE_SANDBOX_NETWORK_DISABLED": "1"}
    return {**kept, **_FORCED, **own, **offline}
