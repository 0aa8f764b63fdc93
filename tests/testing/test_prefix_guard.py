from __future__ import annotations

from pathlib import Path

import pytest

import treadle.testing

ROOT = Path(__file__).parents[2]

BREAKING = """
import pytest
from tests.context.scenes import call, output, scene

async def break_a_prefix():
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        await found.send()
        await found.thread.log.append(output(1))
        await found.send()
"""

SUITE = (
    BREAKING
    + """
async def test_quiet():
    async with scene() as found:
        await found.turn("u1")
        await found.turn("u2")

async def test_explained():
    async with scene() as found:
        await found.turn("u1")
        await found.turn("u2")
        await found.thread.rollback()
        await found.turn("u3")

async def test_breaks():
    await break_a_prefix()

@pytest.mark.moves_cache_prefix(reason="it is what this test is about")
async def test_means_to_break():
    await break_a_prefix()

@pytest.mark.moves_cache_prefix(reason="nothing of the kind")
async def test_does_not_break():
    pass

@pytest.mark.moves_cache_prefix
async def test_does_not_say_why():
    await break_a_prefix()

@pytest.mark.moves_cache_prefix(reason="it fails for another reason")
async def test_fails_otherwise():
    assert "this" == "that"

@pytest.fixture
async def broken():
    await break_a_prefix()

async def test_breaks_in_its_fixture(broken):
    pass

@pytest.fixture
async def breaking_at_last():
    yield
    await break_a_prefix()

async def test_breaks_in_the_end(breaking_at_last):
    pass
"""
)


INI = f"""
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
pythonpath = {ROOT}
addopts = --strict-markers
"""


def test_a_test_fails_when_it_breaks_a_prefix_and_does_not_say_so(pytester):
    pytester.makeconftest('pytest_plugins = ["treadle.testing.prefix_guard"]')
    pytester.makeini(INI)
    pytester.makepyfile(SUITE)
    run = pytester.runpytest_subprocess("-v", "-p", "no:cacheprovider", "-p", "no:inline_snapshot")
    run.assert_outcomes(passed=4, failed=4, errors=2)
    run.stdout.fnmatch_lines_random(
        [
            "*::test_quiet PASSED*",
            "*::test_explained PASSED*",
            "*::test_breaks FAILED*",
            "*::test_means_to_break PASSED*",
            "*::test_does_not_break FAILED*",
            "*::test_does_not_say_why ERROR*",
            "*::test_fails_otherwise FAILED*",
            "*::test_breaks_in_its_fixture FAILED*",
            "*::test_breaks_in_the_end PASSED*",
            "*::test_breaks_in_the_end ERROR*",
            "request 3 of thread 'thr_*' broke its prefix at item 5, and no epoch entry says why;*",
            "no prefix broke here; take the moves_cache_prefix marker away",
            'say why: @pytest.mark.moves_cache_prefix(reason="…")',
            "*AssertionError: assert 'this' == 'that'*",
        ]
    )


def test_the_package_offers_the_guard_the_contracts_and_layouts():
    assert {"contracts", "prefix_guard", "layout"} <= set(treadle.testing.__all__)
    assert treadle.testing.prefix_guard.MARKER == "moves_cache_prefix"
    assert treadle.testing.contracts.__name__ == "treadle.testing.contracts"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = treadle.testing.nothing
