from __future__ import annotations

from treadle.core.sharing import share


def test_equal_bytes_that_are_long_enough_are_kept_once():
    first, second = bytes(range(256)) * 8, bytes(range(256)) * 8
    assert first is not second
    assert share(first) is share(second)


def test_no_more_than_a_few_are_kept():
    first, again = bytes(range(256)) * 8, bytes(range(256)) * 8
    kept = share(first)
    for number in range(1_000):
        share(b"%d" % number * 1_000)
    assert share(again) is not kept
