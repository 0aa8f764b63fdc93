"""Configuration: what a user has settled, in files, variables and flags.

Each value knows where it came from. `load_config` reads the layers and joins them.
"""

from __future__ import annotations

from .layers import Config, Explained, load_config
from .settings import Settings

__all__ = ["Config", "Explained", "Settings", "load_config"]
