"""The environment of a command: what it inherits, and what it never sees.

Owns which variables count as secret and which are always set. Invariant: a secret reaches a
command only if the user named it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from .word_set import word_set

__all__ = ["command_environment", "is_secret"]

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

_WORDS = word_set(
    "KEY KEYS APIKEY TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE PASS "
    "CREDENTIAL CREDENTIALS CREDS AUTH BEARER JWT PAT COOKIE COOKIES DSN WEBHOOK"
)
_ENDINGS = tuple(
    word_set("APIKEY SECRETKEY PRIVATEKEY ACCESSKEY TOKEN SECRET PASSWORD PASSWD PASSPHRASE")
)
_NAMES = word_set(
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DOCKER_HOST "
    "DOCKER_AUTH_CONFIG DATABASE_URL PGPASSFILE SSHPASS KUBECONFIG NETRC XAUTHORITY"
)
_URL_WITH_LOGIN = r"://[^/\s:@]*:[^/\s@]+@"


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


def is_secret(name: str, value: str = "") -> bool:
    """Return whether a variable holds a secret, or gives access to one.

    >>> is_secret("OPENAI_API_KEY"), is_secret("TOKENIZERS_PARALLELISM")
    (True, False)
    """
    words = name.upper().split("_")
    return (
        name.upper() in _NAMES
        or name.upper().endswith("_PWD")
        or not _WORDS.isdisjoint(words)
        or any(word.endswith(_ENDINGS) for word in words)
        or re.search(_URL_WITH_LOGIN, value) is not None
    )
