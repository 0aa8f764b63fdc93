from __future__ import annotations

import inspect
import signal
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

from treadle.core.redact import forget_secrets

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
    # Not `treadle.thread.thread`: hooks and engines begin below it, and may do as they like.
    with blockbuster_ctx(["treadle.store", "treadle.context", "treadle.thread.opening"]):
        yield
