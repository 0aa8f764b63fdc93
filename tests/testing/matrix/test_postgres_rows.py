"""The rows of the matrix with threads in PostgreSQL: what is promised holds in a database, too."""

from __future__ import annotations

from treadle.testing.matrix import load_rows
from treadle.testing.matrix.runner import run_rows
from treadle.testing.matrix.tested_harnesses import harnesses_under_test, thread_defaults


async def test_every_row_of_our_own_loop_holds_in_a_database(postgres_url: str) -> None:
    harnesses = harnesses_under_test("treadle", thread_defaults(store=postgres_url))
    results = [each async for each in run_rows(load_rows(), harnesses)]
    assert len(results) > 250
    assert [f"{each.id}: {each.reason}" for each in results if each.status == "failed"] == []
