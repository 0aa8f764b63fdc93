"""Configuration: the settings of a user, from files, environment variables and flags.

`load_config` reads the layers and joins them; each value knows where it came from.
"""

from __future__ import annotations

from .layers import Config, ExplainedSetting, load_config
from .settings import Settings

__all__ = ["Config", "ExplainedSetting", "Settings", "load_config"]
