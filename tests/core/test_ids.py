from __future__ import annotations

from uuid import UUID, uuid5

import pytest

from treadle.core.ids import derived_id, is_prefixed, new_id, uuid7


def test_fresh_ids_sort_by_creation():
    made = [uuid7() for _ in range(5_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {(value.version, value.variant) for value in made} == {(7, "specified in RFC 4122")}


def test_a_new_id_has_its_prefix():
    assert new_id("thr").startswith("thr_")
    assert is_prefixed(new_id("thr"))


def test_a_derived_id_depends_on_all_of_its_parts_and_nothing_else():
    namespace = UUID("90d38d3e-6a5b-4d52-bfe2-2f1e634bfac4")
    assert derived_id("fco", "fc_1") == f"fco_{uuid5(namespace, 'fco:fc_1')}"
    assert derived_id("fco", "fc_1") == derived_id("fco", "fc_1")
    ids = {derived_id("fco", "fc_1"), derived_id("ctco", "fc_1"), derived_id("fco", "fc_1", 2)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [("msg_1", True), ("a_b_c", True), ("_1", False), ("msg_", False), ("msg", False), ("", False)],
)
def test_a_prefixed_id_has_something_on_both_sides(value, expected):
    assert is_prefixed(value) is expected
