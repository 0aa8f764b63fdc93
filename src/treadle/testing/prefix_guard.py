"""The prefix guard: a pytest plugin that fails every test which breaks a prompt prefix.

Owns the marker ``moves_cache_prefix(reason="…")``. Activate it in a top conftest
with ``pytest_plugins = ["treadle.testing.prefix_guard"]``. Invariant: a request that does not
start like the one before needs an epoch entry or the marker, and a marker needs a
break.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from ..context.ledger import watch
from ..store.contract import LedgerRow

__all__ = ["MARKER"]

MARKER = "moves_cache_prefix"
"""Marks a test that means to break a prefix."""

_breaks = pytest.StashKey[list[LedgerRow]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    text = f"{MARKER}(reason): this test means to break a prefix without an epoch entry"
    config.addinivalue_line("markers", text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Watch the fixtures."""
    item.stash[_breaks] = []
    _check_reason(item)
    with _watch_prefixes(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Watch the test, and check it with its fixtures."""
    with _watch_prefixes(item):
        result = yield
    _check_breaks(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Watch the end of the fixtures."""
    item.stash[_breaks] = []
    with _watch_prefixes(item):
        result = yield
    if not _is_marked(item):
        _check_breaks(item)
    return result


@contextmanager
def _watch_prefixes(item: pytest.Item) -> Generator[None]:
    with watch(item.stash[_breaks].append):
        yield


def _check_reason(item: pytest.Item) -> None:
    marker = item.get_closest_marker(MARKER)
    if marker is not None and not marker.kwargs.get("reason"):
        pytest.fail(f'say why: @pytest.mark.{MARKER}(reason="…")', pytrace=False)


def _is_marked(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARKER) is not None


def _check_breaks(item: pytest.Item) -> None:
    breaks = item.stash[_breaks]
    if _is_marked(item) and not breaks:
        pytest.fail(f"no prefix broke here; take the {MARKER} marker away", pytrace=False)
    if breaks and not _is_marked(item):
        pytest.fail("\n".join(map(_describe_break, breaks)), pytrace=False)


def _describe_break(row: LedgerRow) -> str:
    return (
        f"request {row.number} of thread {row.thread!r} broke its prefix at {row.difference}, "
        f"and no epoch entry says why; append one, or mark the test with {MARKER}"
    )
