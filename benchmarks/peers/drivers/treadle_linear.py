"""Treadle as in `treadle_library`, with the linear engine: what lossless adds."""

from __future__ import annotations

from functools import partial

from common import drive
from treadle_library import TreadleScenarios, opened

if __name__ == "__main__":
    drive("treadle", TreadleScenarios(partial(opened, engine="linear"), command="exec_command"))
