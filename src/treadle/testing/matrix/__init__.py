"""The contract matrix: what Treadle promises, as rows of data that run anywhere.

`contract_rows` reads the rows in `rows/`, `drivers/` carry out what a row gives, `fixture`
is a harness in front of fake model servers, `tested_harnesses` lists those under test, `runner`
compares, `report` renders. Third parties bring a harness, an engine or a model and run the
same rows. Invariant: a row holds no code, and a driver knows no row.
"""

from __future__ import annotations

from .contract_rows import DOMAINS, ContractRow, Domain, LeftOut, load_left_out, load_rows
from .fixture import MatrixFixture, ThreadDefaults, codex_fixture, open_fixture, treadle_fixture
from .runner import FixturePool, Result, run_row, run_rows
from .tested_harnesses import HarnessUnderTest, harnesses_under_test, thread_defaults

__all__ = [
    "DOMAINS",
    "ContractRow",
    "Domain",
    "FixturePool",
    "HarnessUnderTest",
    "LeftOut",
    "MatrixFixture",
    "Result",
    "ThreadDefaults",
    "codex_fixture",
    "harnesses_under_test",
    "load_left_out",
    "load_rows",
    "open_fixture",
    "run_row",
    "run_rows",
    "thread_defaults",
    "treadle_fixture",
]
