"""The contract matrix: what Weft promises, as rows of data that run anywhere.

`row` reads the rows in `rows/`, `drivers/` play what a row gives, `stage` is a harness
in front of a scripted model, `runner` compares, `report` tells. Third parties bring a
harness, an engine or a model and run the same rows. Invariant: a row holds no code, and
a driver knows no row.
"""

from __future__ import annotations

from .row import DOMAINS, Domain, Row, load_rows
from .runner import Result, play, run
from .stage import Stage, codex_stage, weft_stage

__all__ = [
    "DOMAINS",
    "Domain",
    "Result",
    "Row",
    "Stage",
    "codex_stage",
    "load_rows",
    "play",
    "run",
    "weft_stage",
]
