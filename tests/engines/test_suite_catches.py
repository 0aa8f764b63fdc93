from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from .broken_engines import KINDS

ROOT = Path(__file__).parents[2]

CAUGHT_BY = {
    "Careless": "no_call_and_no_output_stands_alone",
    "Chatty": "threads_keep_to_themselves",
    "Curious": "what_is_volatile_is_not_kept",
    "Deaf": "the_present_input_is_shown_or_covered",
    "Eager": "what_was_caught_up_with_can_still_be_handed_over",
    "Fickle": "the_same_input_gives_the_same_view",
    "Forgetful": "what_it_took_in_outlives_it",
    "Fragile": "letting_go_twice_is_harmless",
    "Greedy": "a_view_fits_its_budget_or_is_no_larger_than_it_was",
    "Grudging": "what_was_hidden_does_not_come_back",
    "Hoarding": "a_turn_that_comes_again_changes_nothing",
    "Idle": "a_compaction_frees_something_or_says_why_not",
    "Inventive": "its_tools_stay_the_same",
    "Meddling": "what_it_is_given_stays_as_it_is",
    "Mumbling": "what_it_shows_can_be_read",
    "Repeating": "the_second_commit_of_a_key_is_a_duplicate",
}

CLASS = """
class Test{0.__name__}(ContextEngineContract):
    factory = "tests.engines.broken_engines:{0.__name__}.made"
"""

INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""

FAILED = re.compile(r"^FAILED \S+::Test(\w+)::test_(\w+)", re.MULTILINE)


def test_the_suite_catches_engines_that_break_the_contract(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    suites = "".join(map(CLASS.format, KINDS))
    pytester.makepyfile(f"from treadle.testing.contracts import ContextEngineContract\n{suites}")
    pytester.makeini(INI)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    meant = " or ".join(CAUGHT_BY.values())
    done = pytester.runpytest_subprocess("-q", "-k", meant, "--tb=no", "-p", "no:cacheprovider")
    caught: dict[str, set[str]] = defaultdict(set)
    for name, test in FAILED.findall(done.stdout.str()):
        caught[name].add(test)
    assert [kind.__name__ for kind in KINDS] == list(CAUGHT_BY)
    missed = {name: test for name, test in CAUGHT_BY.items() if test not in caught[name]}
    assert missed == {}
