from __future__ import annotations

import gc
import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import cache

import pytest
from blockbuster import BlockBuster
from hypothesis import HealthCheck, settings

from tests.postgres import postgres_server, postgres_url, share_server
from treadle.core.redact import forget_secrets

__all__ = ["postgres_server", "postgres_url"]

pytest_plugins = ["pytester", "treadle.testing.prefix_guard", "treadle.testing.matrix.plugin"]

settings.register_profile(
    "quick",
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "soak", parent=settings.get_profile("quick"), max_examples=2000, derandomize=False
)
settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # A worker inherits the home of the process that started it.
    # Commands of the tests start login shells. What the developer's own start-up files do takes
    # time, and one that is killed in the middle may leave a lock behind that blocks all others.
    home = tempfile.mkdtemp(prefix="treadle-tests-home-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    before = os.environ.get("HOME")
    os.environ["HOME"] = home
    config.add_cleanup(lambda: _set_home(before))
    share_server(home)


def _set_home(path: str | None) -> None:
    os.environ.pop("HOME", None)
    if path is not None:
        os.environ["HOME"] = path


# All that collection makes lives to the end; looking through it for garbage took a third of
# its time, and again with each of the tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A background job of a script ignores Ctrl-C, and so would every child of ours: a signal
    # that is ignored stays so over `exec`, one with a handler gets its default action.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def secrets_are_forgotten() -> Iterator[None]:
    yield
    # A key that one test planted may be a word that another one expects to read.
    forget_secrets()


@pytest.fixture(autouse=True)
def the_loop_never_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    if not inspect.iscoroutinefunction(getattr(request, "function", None)):
        yield
        return
    guard = _guard()
    guard.activate()
    try:
        yield
    finally:
        guard.deactivate()


@cache
def _guard() -> BlockBuster:
    """Return what finds calls that block; making it takes ten times as long as switching it on."""
    # Not `treadle.thread.thread`: hooks and engines begin below it, and may do as they like.
    return BlockBuster(["treadle.store", "treadle.context", "treadle.thread.opening"])
