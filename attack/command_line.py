"""The command line of Treadle, as a user runs it: in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from attack.ground import Ground
from attack.processes import Finished, fork_and_wait

__all__ = ["treadle"]


def treadle(
    ground: Ground,
    *words: str,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    seconds: float = 60,
) -> Finished:
    """Run ``treadle WORDS`` in the workspace."""

    def run() -> None:
        from treadle.cli import main

        sys.argv = ["treadle", *words]
        main()

    return fork_and_wait(
        run,
        environ={**ground.environ, **(environ or {})},
        cwd=cwd or ground.workspace,
        seconds=seconds,
    )
