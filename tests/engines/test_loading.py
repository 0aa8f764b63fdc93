from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.core.errors import ConfigError, EngineConflict, EngineFailed
from treadle.engines.contract import EngineInfo
from treadle.engines.linear import LinearEngine
from treadle.engines.loading import (
    EngineContext,
    EngineProblem,
    EngineRegistry,
    Resolution,
    canonical_name,
    engine_registry,
)

from .packages import install, install_engine

CONTEXT = EngineContext(config={"depth": 3}, cwd=Path("/somewhere"))


class Mine(LinearEngine):
    info = EngineInfo(id="mine", name="Mine")

    def __init__(self, context: EngineContext | None = None) -> None:
        self.context = context


@pytest.fixture
def registry() -> EngineRegistry:
    return EngineRegistry()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    return place


async def problem(registry: EngineRegistry, engine: str) -> EngineProblem:
    resolved = await registry.resolve(engine, CONTEXT)
    assert resolved.engine is None
    assert resolved.problem is not None
    return resolved.problem


@pytest.mark.parametrize("name", ["linear", "legacy", " linear\n", " legacy "])
async def test_linear_is_built_in_and_legacy_is_another_name_for_it(registry, name):
    resolved = await registry.resolve(name, CONTEXT)
    assert isinstance(resolved.engine, LinearEngine)
    assert (resolved.id, resolved.owner, resolved.problem) == ("linear", "treadle", None)


async def test_names_are_compared_with_their_case(registry):
    assert str(await problem(registry, "Linear")) == (
        "no context engine 'Linear' is installed; did you mean 'linear'? "
        "`treadle engines` lists what there is; install it, or choose another"
    )
    assert canonical_name("Legacy") == "Legacy"


async def test_a_host_registers_an_engine_that_is_made_with_its_context(registry):
    registry.register(" mine ", Mine)
    resolved = await registry.resolve("mine", CONTEXT)
    assert isinstance(resolved.engine, Mine)
    assert resolved.engine.context == CONTEXT
    assert resolved == Resolution(id="mine", owner="host", engine=resolved.engine)


async def test_a_factory_may_be_async(registry):
    async def factory(context: EngineContext) -> Mine:
        await asyncio.sleep(0)
        return Mine(context)

    registry.register("mine", factory)
    assert isinstance((await registry.resolve("mine", CONTEXT)).engine, Mine)


async def test_every_resolution_makes_a_fresh_engine(registry):
    registry.register("mine", Mine)
    first, second = [(await registry.resolve("mine", CONTEXT)).engine for _ in range(2)]
    assert first is not second


async def test_an_engine_that_failed_is_made_again_when_it_is_asked_for_again(registry):
    broken = [True]

    def factory(context: EngineContext) -> Mine:
        if broken:
            broken.pop()
            raise OSError("the disk is away")
        return Mine(context)

    registry.register("mine", factory)
    assert (await problem(registry, "mine")).kind == "factory"
    assert isinstance((await registry.resolve("mine", CONTEXT)).engine, Mine)


def test_an_id_has_one_owner(registry):
    registry.register("mine", Mine, owner="a")
    with pytest.raises(EngineConflict) as caught:
        registry.register("mine", Mine, owner="b")
    assert (caught.value.engine, caught.value.existing, caught.value.claimant) == ("mine", "a", "b")
    assert str(caught.value) == (
        "context engine 'mine' belongs to 'a', so 'b' cannot register it; "
        "choose another id, or remove one of the two"
    )
    assert registry.conflicts() == (caught.value,)


async def test_the_first_owner_keeps_the_id_and_the_user_hears_of_the_other(registry):
    registry.register("mine", Mine, owner="a")
    with pytest.raises(EngineConflict):
        registry.register("mine", lambda _: None, owner="b")
    resolved = await registry.resolve("mine", CONTEXT)
    assert (resolved.owner, type(resolved.engine)) == ("a", Mine)
    assert resolved.notes == (str(EngineConflict("mine", "a", "b")),)


async def test_an_owner_replaces_its_engine_only_on_purpose(registry):
    registry.register("mine", lambda _: None, owner="a")
    with pytest.raises(EngineConflict, match=r"'a' has registered .* pass refresh=True"):
        registry.register("mine", Mine, owner="a")
    registry.register("mine", Mine, owner="a", refresh=True)
    assert isinstance((await registry.resolve("mine", CONTEXT)).engine, Mine)
    assert registry.conflicts() == ()


@pytest.mark.parametrize("name", ["linear", "legacy"])
def test_reserved_ids_are_nobody_else_s(registry, name):
    with pytest.raises(EngineConflict, match=f"{name!r} belongs to 'treadle'"):
        registry.register(name, Mine, refresh=True)
    with pytest.raises(ConfigError, match="the owner 'treadle' is Treadle itself"):
        registry.register(name, Mine, owner="treadle", refresh=True)


@pytest.mark.parametrize("name", ["", "  ", "Mine", "a.b", "a/b", "../x", "1st", "a" * 65, "a b"])
def test_an_id_is_plain(registry, name):
    with pytest.raises(ConfigError, match="must start with a lower-case letter"):
        registry.register(name, Mine)
    assert [plugin.name for plugin in registry.engines()] == ["linear", "lossless"]


def test_the_process_has_one_registry():
    assert engine_registry() is engine_registry()


def test_an_engine_has_a_directory_of_its_own_that_nobody_makes_for_it(tmp_path):
    context = EngineContext.of("mine", home=tmp_path, config={"a": 1}, cwd=Path("/x"))
    assert context == EngineContext(
        home=tmp_path / "engines" / "mine", config={"a": 1}, cwd=Path("/x")
    )
    assert list(tmp_path.iterdir()) == []
    assert EngineContext.of("mine", home=None, cwd=Path("/x")).home is None


async def test_a_package_offers_an_engine_by_entry_point(registry, site):
    install_engine(site, "found")
    resolved = await registry.resolve("found", CONTEXT)
    assert (resolved.id, resolved.owner, resolved.problem) == ("found", "treadle-found", None)
    assert resolved.engine is not None
    assert resolved.engine.info.version == "1.2"
    offers = [(plugin.name, plugin.owner, plugin.target) for plugin in registry.engines()]
    assert offers == [
        ("linear", "treadle", ""),
        ("lossless", "treadle", ""),
        ("found", "treadle-found", "pkg_found_:Engine"),
    ]


async def test_packages_are_loaded_only_when_they_are_chosen(registry, site):
    install_engine(site, "chosen")
    install_engine(site, "ignored", body="raise SystemExit(3)\n")
    assert len(registry.engines()) == 4
    assert not {name for name in sys.modules if name.startswith("pkg_ignored")}
    assert (await registry.resolve("chosen", CONTEXT)).engine is not None
    assert not {name for name in sys.modules if name.startswith("pkg_ignored")}


async def test_of_two_packages_that_claim_an_id_none_is_chosen(registry, site):
    install_engine(site, "twice", distribution="zebra")
    install_engine(site, "twice", distribution="aardvark")
    assert await problem(registry, "twice") == EngineProblem(
        kind="conflict",
        cause="context engine 'twice' is offered by 'aardvark' and 'zebra'",
        remedy="uninstall all but one of them",
    )
    assert list(map(str, registry.conflicts())) == [
        str(EngineConflict("twice", "aardvark", "zebra"))
    ]
    assert not {name for name in sys.modules if name.startswith("pkg_twice")}


async def test_a_host_s_engine_comes_before_a_package_s_and_the_user_hears_of_it(registry, site):
    install_engine(site, "mine", distribution="stranger")
    registry.register("mine", Mine)
    resolved = await registry.resolve("mine", CONTEXT)
    assert isinstance(resolved.engine, Mine)
    assert resolved.notes == (str(EngineConflict("mine", "host", "stranger")),)


async def test_a_package_that_is_known_keeps_its_id(registry, site):
    install_engine(site, "known")
    assert len(registry.engines()) == 3
    with pytest.raises(EngineConflict, match="'known' belongs to 'treadle-known'"):
        registry.register("known", Mine)
    resolved = await registry.resolve("known", CONTEXT)
    assert resolved.owner == "treadle-known"
    assert resolved.notes == (str(EngineConflict("known", "treadle-known", "host")),)


async def test_a_package_that_registers_what_it_offers_is_no_conflict(registry, site):
    install_engine(site, "same", distribution="treadle-same")
    registry.register("same", Mine, owner="treadle-same")
    assert isinstance((await registry.resolve("same", CONTEXT)).engine, Mine)
    assert registry.conflicts() == ()


async def test_a_package_cannot_take_a_reserved_id(registry, site):
    install_engine(site, "linear", distribution="greedy")
    install_engine(site, "legacy", distribution="greedier")
    assert [str(each) for each in registry.conflicts()] == [
        str(EngineConflict("legacy", "treadle", "greedier")),
        str(EngineConflict("linear", "treadle", "greedy")),
    ]
    for name in ("linear", "legacy"):
        assert isinstance((await registry.resolve(name, CONTEXT)).engine, LinearEngine)


async def test_a_package_with_an_id_that_is_not_plain_is_refused(registry, site):
    install_engine(site, "found")
    install(site, "odd", {"health.json": "pkg_found_:Engine"})
    found = await problem(registry, "health.json")
    assert (found.kind, found.remedy) == (
        "unsound",
        "update or remove 'odd', or choose another engine",
    )


@pytest.mark.parametrize(
    ("target", "text", "why"),
    [
        ("pkg_gone:make", None, "ModuleNotFoundError: No module named 'pkg_gone'"),
        ("pkg_a:make", "x = 1", "AttributeError: module 'pkg_a' has no attribute 'make'"),
        ("pkg_b:make", "1 / 0", "ZeroDivisionError: division by zero"),
        ("pkg_c:make", "raise SystemExit(3)", "ImportError: it raised SystemExit(3)"),
        (
            "pkg_d:make",
            "make = 'engine'",
            "it is a value of type 'str', not a function that makes an engine",
        ),
        (
            "pkg_e",
            "make = 1",
            "it is a value of type 'module', not a function that makes an engine",
        ),
    ],
)
async def test_a_package_that_cannot_be_loaded_is_named(registry, site, target, text, why):
    module = target.partition(":")[0]
    install(site, "treadle-broken", {"broken": target}, {module: text} if text else {})
    assert await problem(registry, "broken") == EngineProblem(
        kind="import",
        cause=f"context engine 'broken' cannot be loaded from {target!r} "
        f"of 'treadle-broken': {why}",
        remedy="update or remove 'treadle-broken', or choose another engine",
    )


async def test_an_import_that_hangs_is_left_alone(registry, site):
    install_engine(site, "stuck", body="import threading\nthreading.Event().wait()\n")
    registry.timeout = 0.05
    found = await problem(registry, "stuck")
    assert (found.kind, found.cause) == (
        "import",
        (
            "context engine 'stuck' cannot be loaded from 'pkg_stuck_:Engine' of "
            "'treadle-stuck': no end within 0.05 s"
        ),
    )


async def test_metadata_that_cannot_be_read_is_told_with_what_is_missing(registry, site):
    about = install_engine(site, "found") / "treadle_found-1.0.dist-info"
    (about / "entry_points.txt").write_bytes(b"[treadle.engines]\n\xff\xfe = x:y\n")
    found = await problem(registry, "found")
    assert (found.kind, "repair or remove the package" in found.message) == ("missing", True)
    with pytest.raises(ConfigError, match="cannot be searched for 'treadle"):
        registry.engines()
    assert (await registry.resolve("linear", CONTEXT)).engine is not None


def _raises(_: EngineContext) -> Any:
    raise ValueError("no\nsuch   table")


def _exits(_: EngineContext) -> Any:
    raise SystemExit(1)


async def _raises_later(_: EngineContext) -> Any:
    await asyncio.sleep(0)
    raise KeyError("depth")


async def _cancels_itself(_: EngineContext) -> Any:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (_raises, "ValueError: no such table"),
        (_exits, "RuntimeError: it tried to end the process"),
        (_raises_later, "KeyError: 'depth'"),
        (_cancels_itself, "it cancelled itself"),
    ],
)
async def test_a_factory_that_fails_is_told(registry, factory, reason):
    registry.register("mine", factory)
    assert await problem(registry, "mine") == EngineProblem(
        kind="factory",
        cause=str(EngineFailed("mine", "factory", reason)),
        remedy="check its settings, or choose another engine",
    )


async def test_a_factory_that_hangs_is_cancelled(registry):
    ended = []

    async def factory(_: EngineContext) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    registry.register("mine", factory)
    registry.timeout = 0.05
    found = await problem(registry, "mine")
    assert found.cause == "context engine 'mine' failed at factory: no answer within 0.05 s"
    assert ended == [True]


async def test_whoever_waits_for_a_factory_can_be_cancelled(registry):
    began, ended = asyncio.Event(), []

    async def factory(_: EngineContext) -> Any:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    registry.register("mine", factory)
    task = asyncio.create_task(registry.resolve("mine", CONTEXT))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_a_candidate_with_defects_is_told_with_all_of_them_and_let_go(registry):
    disposed = []

    class Poor:
        info = EngineInfo(id="", name="Poor")

        async def dispose(self) -> None:
            disposed.append(True)

        async def ingest(self, given): ...
        async def assemble(self, given): ...

    registry.register("mine", lambda _: Poor())
    assert await problem(registry, "mine") == EngineProblem(
        kind="unsound",
        cause=("context engine 'mine' is not valid: info.id is blank, and 'compact' is missing"),
        remedy="update it, or choose another engine",
        defects=("info.id is blank", "'compact' is missing"),
    )
    assert disposed == [True]


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, None, "no", lambda _: None])
async def test_a_candidate_that_cannot_be_let_go_is_rejected_all_the_same(registry, broken):
    registry.register("mine", lambda _: type("Poor", (), {"dispose": broken})())
    assert (await problem(registry, "mine")).kind == "unsound"


async def test_an_id_of_its_own_is_the_engine_s_business(registry):
    registry.register("other", Mine)
    resolved = await registry.resolve("other", CONTEXT)
    assert resolved.engine is not None
    assert (resolved.id, resolved.engine.info.id) == ("other", "mine")


async def test_a_factory_can_be_named_by_module(registry, site):
    install_engine(site, "found")
    found = await registry.examine("pkg_found_:Engine", CONTEXT)
    assert found.problem is None
    assert found.engine is not None
    assert (await registry.examine("pkg_found_:Engine.info", CONTEXT)).problem == EngineProblem(
        kind="import",
        cause=(
            "context engine 'pkg_found_:Engine.info' cannot be loaded from 'pkg_found_:Engine.info'"
            ": it is a value of type 'EngineInfo', not a function that makes an engine"
        ),
        remedy="correct what it names, or choose another engine",
    )
