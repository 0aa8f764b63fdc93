from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from .broken_harnesses import KINDS

ROOT = Path(__file__).parents[2]

CAUGHT_BY = {
    "Boastful": "it_says_who_it_is_and_what_it_can_do",
    "Careless": "a_failing_model_fails_the_turn_and_not_the_thread",
    "Confused": "threads_beside_one_another_hear_only_their_own",
    "Counting": "what_the_provider_does_not_count_is_not_told_as_nothing",
    "Loud": "a_turn_begins_once_and_ends_once_around_everything_else",
    "Silent": "every_item_is_in_the_log_and_told",
    "Stubborn": "an_interrupt_in_a_call_leaves_a_legal_log",
    "Wordy": "nothing_is_said_or_offered_twice",
}

SUITES = """
from tests.harness.broken_harnesses import *
from treadle.testing.contracts import HarnessContract
"""
CLASS = """
class Test{0.__name__}(HarnessContract):
    def factory(self, offer):
        return {0.__name__}()
"""
INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""
FAILED = re.compile(r"^FAILED \S+::Test(\w+)::test_(\w+)", re.MULTILINE)


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, text: str, *args: str) -> str:
    pytester.makepyfile(test_suites=SUITES + text)
    pytester.makeini(INI)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    options = ("-q", "--tb=no", "-p", "no:cacheprovider", "--timeout", "20")
    return pytester.runpytest_subprocess(*options, *args).stdout.str()


def test_the_suite_catches_harnesses_that_break_the_contract(pytester, monkeypatch):
    suites = "".join(map(CLASS.format, KINDS))
    meant = [f"test_suites.py::Test{name}::test_{test}" for name, test in CAUGHT_BY.items()]
    shown = run(pytester, monkeypatch, suites, *meant)
    assert [kind.__name__ for kind in KINDS] == list(CAUGHT_BY)
    assert dict(FAILED.findall(shown)) == CAUGHT_BY


def test_a_harness_that_serves_no_engine_and_says_so_keeps_the_contract(pytester, monkeypatch):
    modest = """
class TestModest(HarnessContract):
    def factory(self, offer):
        return Modest()
"""
    assert "5 passed" in run(pytester, monkeypatch, modest, "-k", "engine or past")
