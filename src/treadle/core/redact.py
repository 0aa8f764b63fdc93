"""Redaction: secrets are removed from text before anyone sees it.

Owns one function for every error, event and log line, and one for everything that is kept or
sent. Invariants: a registered secret is always removed, plain or in the ways programs usually
spell it, and from errors and log lines what looks like a secret too; redacting twice changes
nothing more.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from .known_secrets import BLANK, KnownSecrets, is_unmistakable, spellings
from .words import word_set

__all__ = [
    "BLANK",
    "RedactingFilter",
    "Redactor",
    "add_secrets",
    "blank_json",
    "blank_value",
    "describe_error",
    "forget_secrets",
    "holds_secret",
    "is_secret",
    "known_secrets",
    "learn_environment",
    "one_line",
    "redact",
    "redact_known",
    "redact_logs",
    "redact_registered",
]

T = TypeVar("T")

_SHORTEST = 6
"""Shorter values are words that occur anywhere; no provider gives them out as secrets."""

_KEY_ENDING = "_API_KEY"
"""How the variables end in which providers' keys are looked up."""

_LONGEST_LINE = 300

_MOST = 4096
"""How many secrets are known at a time; the oldest are forgotten first."""

_CREDENTIALS = r"(?<=://)[^/\s@]{1,500}@"
_SCHEME = r"(?i)\b(bearer|basic)\s+[^\s\"',;]+"
_SHAPES = (
    r"\b(?:(?:sk|pk|rk|gsk|xai|hf|npm|glpat|whsec|gh[opsur]|xox[a-z]|github_pat)[-_][\w*-]{8,}"
    r"|AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b)"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
)
_NAMED = (
    r"(?i)((?<![\w-])[\w-]{0,40}?(?:api[_-]?key|access[_-]?key|private[_-]?key|secret(?:[_-]?key)?"
    r"|token|password|passwd|passphrase|credential|authorization|cookie|jwt)s?"
    r"\\?[\"']?\s{0,3}[=:]\s{0,3}\\?[\"']?)"
    r"(?!(?:true|false|null|none|bearer|basic|[\d.]+)\b)([^\s\"',;&\\]{4,})"
)


class Redactor:
    """Removes secrets from text: registered ones, and what looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self.known: KnownSecrets | None = None
        """Those that are taken out of everything that is kept or sent; None without any."""
        self._lock = threading.Lock()
        self.add(*secrets)

    def add(self, *secrets: str) -> None:
        """Take `secrets` out of every text from now on; safe from any thread."""
        given = [secret.strip() for secret in secrets]
        added = [secret for secret in given if len(secret) >= _SHORTEST]
        if all(each in self._secrets for each in added):
            return
        with self._lock:
            kept = {**self._secrets, **dict.fromkeys(added)}
            self._secrets = dict.fromkeys([*kept][-_MOST:])
            spelled = {each for secret in self._secrets for each in spellings(secret)}
            longest_first = sorted(spelled, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
            sure = [secret for secret in self._secrets if is_unmistakable(secret)]
            self.known = KnownSecrets(sure) if sure else None

    def clear(self) -> None:
        """Forget all secrets; what looks like a secret is still taken out."""
        with self._lock:
            self._secrets, self._pattern, self.known = {}, None, None

    def __call__(self, text: str) -> str:
        """Return `text` without secrets."""
        text = self.redact_registered(text)
        text = re.sub(_CREDENTIALS, f"{BLANK}@", text)
        text = re.sub(_SCHEME, rf"\1 {BLANK}", text)
        text = re.sub(_SHAPES, BLANK, text)
        return re.sub(_NAMED, rf"\1{BLANK}", text)

    def redact_registered(self, text: str) -> str:
        """Return `text` without registered secrets; what only looks like one stays."""
        return text if self._pattern is None else self._pattern.sub(BLANK, text)

    def __repr__(self) -> str:
        return "Redactor()"


_shared = Redactor()


def add_secrets(*secrets: str) -> None:
    """Take `secrets` out of every text in this process from now on."""
    _shared.add(*secrets)


def learn_environment(environ: Mapping[str, str]) -> None:
    """Know the keys of providers in an environment before they are used."""
    add_secrets(*(value for name, value in environ.items() if name.endswith(_KEY_ENDING)))


def forget_secrets() -> None:
    """Forget the secrets of this process, such as those of a test that is over."""
    _shared.clear()


def redact(text: str) -> str:
    """Return `text` without the secrets of this process and what looks like one.

    >>> redact("401 for sk-proj-abcdefgh, password=hunter22")
    '401 for …, password=…'
    """
    return _shared(text)


def redact_registered(text: str) -> str:
    """Return `text` without the secrets of this process, also those that are ordinary words.

    For what quotes an error, where a word too many that is missing costs nothing.
    """
    return _shared.redact_registered(text)


def known_secrets() -> KnownSecrets | None:
    """Return the secrets that nothing may hold which is kept or sent; another object for others."""
    return _shared.known


def redact_known(text: str) -> str:
    """Return `text` without the secrets of this process; for what people and programs wrote.

    A file that a tool reads may hold words like those of a secret, and stays as it is. So do
    secrets that are ordinary words, see `is_unmistakable`.
    """
    known = _shared.known
    return text if known is None else known.blank_text(text)


def blank_json(data: bytes) -> bytes:
    """Return a JSON document without the secrets of this process, as `redact_known` does."""
    known = _shared.known
    return data if known is None else known.blank_json(data)


def blank_value(value: T) -> T:
    """Return a struct or a container without the secrets of this process in its texts."""
    known = _shared.known
    return value if known is None else known.blank_value(value)


class RedactingFilter(logging.Filter):
    """Redacts records, with their arguments and their tracebacks.

    Add it to a handler of your own, or call `redact_logs` for the loggers of Treadle.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, without secrets."""
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_text = record.exc_text and redact(record.exc_text)
        record.stack_info = record.stack_info and redact(record.stack_info)
        return True


_filter = RedactingFilter()
_guarded = 0
"""How many loggers there were when they were guarded."""


def redact_logs() -> None:
    """Redact the records of every logger of Treadle; call it again after new ones are made."""
    global _guarded
    known = logging.root.manager.loggerDict
    if len(known) == _guarded:
        return
    for name in ("treadle", *[name for name in known if name.startswith("treadle.")]):
        logging.getLogger(name).addFilter(_filter)
    _guarded = len(known)


_SECRET_WORDS = word_set(
    "KEY KEYS APIKEY TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE PASS "
    "CREDENTIAL CREDENTIALS CREDS AUTH BEARER JWT PAT COOKIE COOKIES DSN WEBHOOK"
)
_SECRET_ENDINGS = tuple(
    word_set("APIKEY SECRETKEY PRIVATEKEY ACCESSKEY TOKEN SECRET PASSWORD PASSWD PASSPHRASE")
)
_SECRET_NAMES = word_set(
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DOCKER_HOST "
    "DOCKER_AUTH_CONFIG DATABASE_URL PGPASS PGPASSFILE SSHPASS KUBECONFIG NETRC XAUTHORITY"
)
_SIGNED = r"(?i)[?&](?:sig|x-amz-signature|x-goog-signature)=[\w%+/=-]{16,}"
"""What gives access to whoever has the address."""
_URL_WITH_LOGIN = r"://[^/\s:@]*:[^/\s@]+@"
_ASSIGNED_NAME = r"([A-Za-z][\w-]*)[\"']?\s*[=:]\s*[\"']?"
_ASSIGNED_VALUE = r"[^\s\"',;&]+"


def is_secret(name: str, value: str = "") -> bool:
    """Return whether a variable holds a secret, or gives access to one.

    >>> is_secret("OPENAI_API_KEY"), is_secret("TOKENIZERS_PARALLELISM")
    (True, False)
    """
    words = [word.rstrip("0123456789") for word in name.upper().split("_")]
    return (
        name.upper() in _SECRET_NAMES
        or name.upper().endswith(("_PWD", "_SAS"))
        or not _SECRET_WORDS.isdisjoint(words)
        or any(word.endswith(_SECRET_ENDINGS) for word in words)
        or re.search(_URL_WITH_LOGIN, value) is not None
    )


def holds_secret(value: str) -> bool:
    """Return whether a value has a known secret in it, or something that looks like one.

    >>> holds_secret("ghp_abcdefghijkl"), holds_secret("ssh://git@example.org/repository")
    (True, False)
    """
    return redact_known(value) != value or _looks_secret(value)


@lru_cache(maxsize=1024)
def _looks_secret(value: str) -> bool:
    shapes = (_SCHEME, _SHAPES, _NAMED, _SIGNED)
    return any(re.search(shape, value) is not None for shape in shapes)


def one_line(text: str) -> str:
    """Return `text` on one line, short, and without what looks like a secret."""
    redacted = redact(text[: _LONGEST_LINE * 64])
    line = " ".join(redacted[: _LONGEST_LINE * 8].split()).encode(errors="replace").decode()
    line = _without_values(line)
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


def describe_error(error: BaseException) -> str:
    """Return an error in one line."""
    try:
        message = one_line(str(error))
    except Exception:  # noqa: BLE001 - an error's own code may raise anything
        message = ""
    return one_line(f"{type(error).__name__}: {message or 'no message'}")


def _without_values(line: str) -> str:
    """Return `line` without what stands behind the names of secrets."""
    value_pattern = re.compile(_ASSIGNED_VALUE)
    kept, done = [], 0
    for name in re.finditer(_ASSIGNED_NAME, line):
        value = value_pattern.match(line, name.end())
        if value and name.start() >= done and is_secret(name[1].replace("-", "_")):
            kept += [line[done : name.end()], BLANK]
            done = value.end()
    return "".join([*kept, line[done:]])
