"""The life of a container on a real engine of Docker or Podman.

    TREADLE_WHERE=docker:python:3.13 python -m pytest -n 0 tests/executors/real_docker.py

Not one of the tests, for it needs an engine and an image with Python.
"""

from __future__ import annotations

import os

import pytest

from tests.harness.scenes import hear, scripted
from treadle.executors import ExecutorChoice, find_source
from treadle.store.shared_store import open_shared
from treadle.testing.script import Answer
from treadle.thread.deletion import delete_thread
from treadle.tools.executor_life import ExecutorGone

from .test_threads_elsewhere import Place, outputs, record_of, run, told

WHERE = os.environ["TREADLE_WHERE"]


async def test_a_thread_has_its_container_until_it_is_deleted(tmp_path):
    place = Place(tmp_path)
    model = scripted(
        run("pwd > made; echo inner > /tmp/inner; hostname"),
        Answer(text="one"),
        run("cat made /tmp/inner"),
        Answer(text="two"),
        run("cat /tmp/inner"),
        Answer(text="three"),
    )
    source = find_source(ExecutorChoice(where=WHERE), cwd=place.cwd)
    assert source is not None
    async with place.open(model, executor=WHERE) as thread:
        await hear(thread, "go")
        record, name = record_of(thread), thread.id
    assert (place.cwd / "made").read_text() == f"{place.cwd}\n"
    async with place.open(model, name) as thread:
        assert f"{place.cwd}\ninner\n" in outputs(await hear(thread, "go on"))[0]
    await source.stop(record)
    with pytest.raises(ExecutorGone):
        await source.connect(record)
    async with place.open(model, name) as thread:
        assert "No such file" in outputs(await hear(thread, "and again"))[0]
        assert "may be gone" in told(thread)[-1]
        record = record_of(thread)
    async with open_shared(place.home) as shared:
        await delete_thread(name, shared.store, shared.index, home=place.home)
    with pytest.raises(ExecutorGone):
        await source.connect(record)
    await model.close()
