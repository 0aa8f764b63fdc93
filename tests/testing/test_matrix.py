from __future__ import annotations


def test_a_promise_is_kept(treadle_row):
    treadle_row.check()
