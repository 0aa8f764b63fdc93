from __future__ import annotations


def test_a_promise_is_kept(weft_row):
    weft_row.check()
