"""The contract matrix: what Treadle promises, as rows of data that run anywhere.

`row` reads the rows in `rows/`, `drivers/` play what a row gives, `stage` is a harness
in front of scripted models, `cast` says who plays, `runner` compares, `report` tells.
Third parties bring a harness, an engine or a model and run the same rows. Invariant: a
row holds no code, and a driver knows no row.
"""

from __future__ import annotations

from .cast import Player, cast, scenery
from .row import DOMAINS, Domain, LeftOut, Row, load_left_out, load_rows
from .runner import Result, Theatre, play, run
from .stage import Scenery, Stage, codex_stage, opened_stage, treadle_stage

__all__ = [
    "DOMAINS",
    "Domain",
    "LeftOut",
    "Player",
    "Result",
    "Row",
    "Scenery",
    "Stage",
    "Theatre",
    "cast",
    "codex_stage",
    "load_left_out",
    "load_rows",
    "opened_stage",
    "play",
    "run",
    "scenery",
    "treadle_stage",
]
