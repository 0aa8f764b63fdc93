"""Treadle's home directory.

Owns the one directory in which Treadle keeps its state. Invariant: nothing is read from
the environment or created on disk before `home` is called.
"""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ConfigError
from .former_name import find_home, is_home

__all__ = ["home", "home_path", "new_home_path"]


def home() -> Path:
    """Return Treadle's home; create it, for its owner only, if it does not exist."""
    directory = home_path()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot create Treadle's home {str(directory)!r} ({error.strerror}); "
            "set TREADLE_HOME to a directory that you can write"
        ) from error
    return directory


def home_path() -> Path:
    """Return the home in use: `new_home_path`, or one of the former name if there is only that."""
    place = new_home_path()
    if os.environ.get("TREADLE_HOME") or is_home(place):
        return place
    return find_home(os.environ) or place


def new_home_path() -> Path:
    """Return `TREADLE_HOME`, or the platform's data directory for users; it need not exist."""
    if named := os.environ.get("TREADLE_HOME"):
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("treadle", appauthor=False))
