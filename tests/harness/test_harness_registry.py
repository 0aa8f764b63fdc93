from __future__ import annotations

from pathlib import Path

import pytest

from treadle.core.errors import ConfigError, HarnessConflict, MissingHarness
from treadle.harness.builtin import codex_options
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.loop import LoopHarness
from treadle.harness.offers import HarnessOffer, Registration
from treadle.harness.registry import HarnessRegistry, canonical

from .packages import MODULE, Parrot, install


def parrot(name: str = "parrot", **options) -> Registration:
    return Registration(id=name, label="A parrot", factory=lambda _: Parrot(), **options)


def offer(place: Path, **config) -> HarnessOffer:
    return HarnessOffer(home=place, environ={"PATH": "/nowhere"}, config=config)


@pytest.fixture
def site(tmp_path: Path, monkeypatch) -> Path:
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    return place


async def loaded(**options) -> HarnessRegistry:
    registry = HarnessRegistry(**options)
    await registry.load()
    await registry.load()
    return registry


def ids(registry: HarnessRegistry) -> list[str]:
    return [each.id for each in registry.harnesses()]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("", "treadle"),
        ("  ", "treadle"),
        ("loop", "treadle"),
        (" TREADLE ", "treadle"),
        ("Codex", "codex"),
        ("codex-app-server", "codex"),
        ("default", "auto"),
        ("AUTO", "auto"),
        ("Mine", "mine"),
    ],
)
def test_names_are_trimmed_in_lower_case_and_no_aliases(said, meant):
    assert canonical(said) == meant


async def test_treadle_and_codex_are_always_there(tmp_path):
    registry = HarnessRegistry()
    assert ids(registry) == ["codex", "treadle"]
    assert registry.find("codex-app-server").label == "Codex app-server"
    assert await registry.make("loop", offer(tmp_path)) == LoopHarness()


async def test_a_host_registers_its_own(tmp_path):
    registry = HarnessRegistry()
    registry.register(parrot(" Parrot "))
    assert ids(registry) == ["codex", "treadle", "parrot"]
    assert await registry.make("PARROT", offer(tmp_path)) == Parrot()


@pytest.mark.parametrize(
    "taken", ["treadle", "codex", "auto", "default", "loop", "Codex-App-Server"]
)
def test_ids_and_names_of_treadle_are_nobody_elses(taken):
    registry = HarnessRegistry()
    with pytest.raises(HarnessConflict) as caught:
        registry.register(parrot(taken), refresh=True)
    assert (caught.value.existing, caught.value.claimant) == ("treadle", "host")
    assert registry.conflicts() == (caught.value,)


def test_the_first_owner_keeps_an_id():
    registry = HarnessRegistry()
    registry.register(parrot(owner="first"))
    with pytest.raises(HarnessConflict, match="belongs to 'first', so 'second' cannot"):
        registry.register(parrot(owner="second"), refresh=True)
    with pytest.raises(HarnessConflict, match="refresh=True"):
        registry.register(parrot(owner="first"))
    registry.register(parrot(owner="first", providers=None), refresh=True)
    assert registry.find("parrot").providers is None
    assert [each.claimant for each in registry.conflicts()] == ["second"]


def test_nobody_registers_as_treadle_or_under_a_wrong_id():
    with pytest.raises(ConfigError, match="register under your own name"):
        HarnessRegistry().register(parrot(owner="treadle"))
    with pytest.raises(ConfigError, match="must start with a letter"):
        HarnessRegistry().register(parrot("7 seas"))


async def test_packages_offer_harnesses(site, tmp_path):
    install(site, "Parrot")
    install(site, "made", module=MODULE + "made = harness\ndef harness():\n    return made\n")
    registry = await loaded()
    assert ids(registry) == ["codex", "treadle", "made", "parrot"]
    assert registry.find("parrot").owner == "treadle-parrot"
    assert (await registry.make("parrot", offer(tmp_path))).name == "parrot"
    assert registry.problems == {}


async def test_a_package_that_is_broken_is_in_nobodys_way(site):
    install(site, "gone", module="raise OSError('token=hunter2 the disk is away')\n")
    install(site, "wrong", module="harness = 7\n")
    install(site, "slow", module="import time\ntime.sleep(60)\n")
    install(site, "leaves", module="raise SystemExit(3)\n")
    registry = await loaded(import_seconds=1.0)
    assert ids(registry) == ["codex", "treadle"]
    assert sorted(registry.problems) == ["gone", "leaves", "slow", "wrong"]
    assert "hunter2" not in registry.problems["gone"]
    with pytest.raises(MissingHarness, match="the disk is away") as caught:
        registry.find("gone")
    assert caught.value.known == ("codex", "treadle")
    with pytest.raises(MissingHarness, match="expected a `Registration`"):
        registry.find("wrong")


async def test_of_two_packages_that_claim_one_id_none_is_chosen(site):
    install(site, "parrot", distribution="aardvark")
    install(site, "Parrot", distribution="zebra")
    registry = await loaded()
    with pytest.raises(MissingHarness, match="'aardvark' and 'zebra' offer it"):
        registry.find("parrot")


async def test_a_package_takes_no_id_that_is_taken(site):
    install(site, "codex", distribution="greedy")
    install(site, "parrot")
    registry = HarnessRegistry()
    registry.register(parrot())
    await registry.load()
    assert [(each.harness, each.claimant) for each in registry.conflicts()] == [
        ("codex", "greedy"),
        ("parrot", "treadle-parrot"),
    ]
    assert registry.find("parrot").owner == "host"


async def test_a_factory_that_fails_is_told_by_its_name(tmp_path):
    def fails(_: HarnessOffer) -> Parrot:
        raise OSError("api_key=hunter2 was refused")

    async def slow(_: HarnessOffer) -> Parrot:
        return Parrot("slow")

    registry = HarnessRegistry()
    registry.register(Registration(id="fails", label="", factory=fails))
    registry.register(Registration(id="slow", label="", factory=slow))
    registry.register(Registration(id="none", label="", factory=lambda _: object()))  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigError, match=r"'fails' of 'host' cannot be made: OSError") as caught:
        await registry.make("fails", offer(tmp_path))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match="is not valid: 'name' is missing"):
        await registry.make("none", offer(tmp_path))
    assert (await registry.make("slow", offer(tmp_path))).name == "slow"


def test_the_binary_in_codex_s_table_is_a_path_written_as_text(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    table = {"binary": "~/bin/codex", "home": "user", "request_timeout": 5}
    assert codex_options(offer(tmp_path, **table)) == CodexOptions(
        binary=Path("/home/me/bin/codex"), home="user", request_timeout=5.0
    )


@pytest.mark.parametrize("table", [{"projection": "third"}, {"binary": 7}, {"binari": "codex"}])
async def test_codex_says_what_is_wrong_with_its_table(tmp_path, table):
    with pytest.raises(ConfigError, match="the table 'codex' cannot be used"):
        await HarnessRegistry().make("codex", offer(tmp_path, **table))


def test_an_offer_shows_no_secrets(tmp_path):
    shown = repr(HarnessOffer(home=tmp_path, environ={"K": "hunter2"}, config={"k": "hunter2"}))
    assert "hunter2" not in shown
