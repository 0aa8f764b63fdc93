"""The contract matrix as a suite: a test for each row and harness.

Needs the plugin `treadle.testing.matrix.plugin`, whose options and settings say who plays.
"""

from __future__ import annotations

from ..matrix.plugin import PlayedRow

__all__ = ["MatrixContract"]


class MatrixContract:
    """What every harness, engine and model keeps, row by row."""

    def test_a_promise_is_kept(self, treadle_row: PlayedRow) -> None:
        """The row is seen as it was promised."""
        treadle_row.check()
