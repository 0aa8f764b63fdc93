"""Where things live.

Owns the one directory Weft keeps its state in. Invariant: nothing is read from
the environment or created on disk before `home` is called.
"""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ConfigError

__all__ = ["home"]


def home() -> Path:
    """`WEFT_HOME`, or the platform's data directory for users; created for its owner only."""
    directory = _chosen_home()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot create Weft's home {str(directory)!r} ({error.strerror}); "
            "set WEFT_HOME to a directory that you can write"
        ) from error
    return directory


def _chosen_home() -> Path:
    if named := os.environ.get("WEFT_HOME"):
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("weft", appauthor=False))
