"""Configuration: a file is settings or a `ConfigError`, and every value can be explained."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import msgspec

from treadle.config import load_config
from treadle.core.errors import ConfigError

__all__ = ["WORDS", "check"]

WORDS = (
    *(b'model = "a:b"\n', b"[engines.x]\n", b"[models.x]\n", b"[[hooks]]\n", b"[hooks.x]\n"),
    *(b"[prices.x]\ninput = ", b"[channels.x]\n", b'kind = "webhook"\n', b'command = ["x"]\n'),
    *(b"[agents]\n", b"[providers.x]\n", b"a = ", b"a.b", b"[", b"]", b"{", b"}", b'"""', b"'''"),
    *(b"nan", b"1e999", b"0x", b"9" * 40, b"1979-05-27T07:32:00Z", b"true", b"\n", b"# ", b"\\u"),
)


@cache
def _home() -> Path:
    return Path(tempfile.mkdtemp(prefix="treadle-fuzz-"))


def check(data: bytes) -> None:
    """Whatever the file says, it is refused by name or explained line by line."""
    home = _home()
    (home / "config.toml").write_bytes(data)
    try:
        config = load_config(home, home, {}, {})
    except ConfigError:
        return
    lines = data.count(b"\n") + 1
    for told in config.explain():
        line = told.source.removeprefix(str(home / "config.toml")).removeprefix(":")
        assert not line or 1 <= int(line) <= lines
        msgspec.json.encode(told)
