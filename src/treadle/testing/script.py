"""Scripts: what a scripted model answers, in which order, and with which faults.

Owns the file format, which `docs/providers.md` explains. Invariant: the same script
and the same requests give the same answers, byte for byte.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.typed import convert, decode_json

__all__ = [
    "Answer",
    "Api",
    "Break",
    "Call",
    "Playback",
    "Script",
    "ScriptedError",
    "Tokens",
    "load_script",
]

Api: TypeAlias = Literal["responses", "chat", "messages"]


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a script file: an unknown key is an error."""


class Call(_Table, frozen=True, kw_only=True):
    """A call of a tool: a function with `arguments`, or a freeform tool with `input`."""

    name: str
    arguments: dict[str, Any] | str = {}
    input: str | None = None
    namespace: str | None = None
    id: str = ""
    """Invented when it is empty."""

    @property
    def arguments_json(self) -> str:
        """Return the arguments as JSON text."""
        if isinstance(self.arguments, str):
            return self.arguments
        return msgspec.json.encode(self.arguments).decode()


class Tokens(_Table, frozen=True, kw_only=True):
    """Usage to report; what is not given is counted, four bytes a token."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None


class ScriptedError(_Table, frozen=True, kw_only=True):
    """An error: with `status` instead of an answer, without one at the end of the stream."""

    status: int = 0
    code: str = ""
    message: str = ""
    body: str | None = None
    """Sent as it is instead of the format's own error."""
    headers: dict[str, str] = {}


class Break(_Table, frozen=True, kw_only=True):
    """A place in a stream: behind so many events, or so many bytes."""

    events: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    """How long a stall lasts; without it, until the client goes away."""


class Answer(_Table, frozen=True, kw_only=True):
    """One answer."""

    when: str = ""
    """Only given if a text after the model's last item contains this."""
    times: int = 1
    """How often it may be given; 0 is any number."""
    endpoint: Literal["stream", "compact"] = "stream"
    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Tokens = Tokens()
    delay: float = 0.0
    """Seconds before the answer begins."""
    pace: float = 0.0
    """Seconds between its events."""
    headers: dict[str, str] = {}
    events: tuple[dict[str, Any], ...] = ()
    """Raw events to send before the content."""
    body: str | None = None
    """Sent as it is instead of the content; `headers` can name its type."""
    stop: Literal["", "length", "filter"] = ""
    """Ends the answer early, as if a limit or a filter had."""
    error: ScriptedError | None = None
    cut: Break | None = None
    """Where the connection is closed."""
    stall: Break | None = None
    """Where the server stops sending."""


class Script(_Table, frozen=True, kw_only=True):
    """A list of answers."""

    answers: tuple[Answer, ...] = field(name="answer", default=())
    loop: bool = False
    """Begin again when every answer has been given."""
    scope: Literal["server", "thread"] = "server"
    """Whether all clients go through one script, or each thread through its own."""
    api: Api = "responses"
    """The API of a scripted model."""


def load_script(path: Path) -> Script:
    """Read a script from a TOML file, or from a file with one answer per line as JSON."""
    try:
        data = path.read_bytes()
        if path.suffix == ".toml":
            return convert(tomllib.loads(data.decode()), Script)
        lines = [line for line in data.splitlines() if line.strip()]
        return Script(answers=tuple(decode_json(line, Answer) for line in lines))
    except OSError as error:
        raise ConfigError(
            f"cannot read the script {str(path)!r}: {error.strerror}; check the path"
        ) from error
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the script {str(path)!r} cannot be used: {error}; correct it"
        ) from error


class Playback:
    """A script and the position in it."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._given = [0] * len(script.answers)

    def next(self, texts: Sequence[str], endpoint: str = "stream") -> Answer | None:
        """Return the first answer that is left and fits; None if there is none."""
        found = self._find(texts, endpoint)
        if found is None and self._script.loop and not self.left:
            self._given = [0] * len(self._given)
            found = self._find(texts, endpoint)
        return found

    @property
    def left(self) -> tuple[Answer, ...]:
        """Return the answers that must be given and were not given yet."""
        counted = zip(self._script.answers, self._given, strict=True)
        return tuple(answer for answer, given in counted if given < answer.times)

    def _find(self, texts: Sequence[str], endpoint: str) -> Answer | None:
        for index, answer in enumerate(self._script.answers):
            spent = answer.times and self._given[index] >= answer.times
            fits = not answer.when or any(answer.when in text for text in texts)
            if not spent and fits and answer.endpoint == endpoint:
                self._given[index] += 1
                return answer
        return None
