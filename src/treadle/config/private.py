"""Private files: small JSON files of the user's that nobody else may read.

Invariant: a file is replaced whole, with mode 0600 from its first byte on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import read_bounded, replace_file

__all__ = ["MOST_BYTES", "read_private", "write_private"]

MOST_BYTES = 16 << 20
"""The largest file that is read."""

T = TypeVar("T", bound=Struct)


def read_private(path: Path, kind: type[T]) -> T:
    """What the file holds; the defaults of `kind` when there is none. Raises `ConfigError`."""
    try:
        return msgspec.json.decode(read_bounded(path, MOST_BYTES), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return kind()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no file that Treadle wrote"
        raise ConfigError(f"cannot read {str(path)!r}: {why}; mend or remove it") from None


def write_private(path: Path, value: Struct) -> None:
    """Put `value` in the place of the file."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
