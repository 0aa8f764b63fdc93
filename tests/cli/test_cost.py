from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec import Raw

from tests.answered import OPUS, SOL, Answered
from treadle.core.entries import Head, SettingsChange
from treadle.core.usage import TokenUsage
from treadle.core.wire import json_bytes
from treadle.store.sqlite import SqliteStore
from treadle.subagents.records import LINEAGE, Lineage

from .scripts import scripted
from .terminal import Treadle

_HOUR = datetime.now(UTC).hour
ZONE = f"Etc/GMT-{12 - _HOUR if _HOUR < 12 else 1 if _HOUR < 22 else 14}"
"""A place to the east where no day ends while the tests run."""
TODAY = datetime.now(ZoneInfo(ZONE)).replace(hour=0, minute=30, second=0, microsecond=0)
USED = TokenUsage(
    input_tokens=100_000, cached_input_tokens=80_000, output_tokens=1_000, total_tokens=101_000
)
"""With Sol: 20,000 at $2, 80,000 at $0.10, 1,000 at $10: $0.058."""


def at(days_ago: int = 0, minutes: int = 0) -> int:
    """Half an hour after midnight there, which is the day before in UTC."""
    day = TODAY - timedelta(days=days_ago) + timedelta(minutes=minutes)
    return int(day.timestamp() * 1000)


@pytest.fixture
def spent(treadle: Treadle) -> Treadle:
    """A home with two projects, three models and an agent."""
    treadle.environ["TZ"] = ZONE
    asyncio.run(spend(treadle.home))
    return treadle


async def spend(home: Path) -> None:
    async with await SqliteStore.open(home) as store:
        first = await Answered.begin(store, "/projects/first")
        await first.use(SOL, at(3, -60))
        await first.answer(USED, at(3, -60))
        await first.answer(USED, at(3))
        await first.use(OPUS, at(2))
        await first.answer(USED, at(2))
        agent = await Answered.begin(store, "/projects/first")
        lineage = Lineage(thread=agent.thread, parent=first.thread, depth=1, nickname="Ada")
        await agent.control(SettingsChange({LINEAGE: Raw(json_bytes(lineage))}), at(2))
        await agent.use(SOL, at(2))
        await agent.answer(USED, at(2))
        second = await Answered.begin(store, "/projects/second")
        await second.use(Head(provider="acme", model="mystery"), at(1, -60))
        await second.answer(USED, at(1, -60))


def test_a_day_ends_at_midnight_here(spent):
    found = spent("cost", "--json").json
    days = [day["key"] for day in found["groups"]]
    # Two came half an hour before midnight.
    assert days == [str((TODAY - timedelta(days=ago)).date()) for ago in (4, 3, 2)]
    assert [day["answers"] for day in found["groups"]] == [1, 1, 3]


def test_sums_say_at_least_where_a_price_is_not_known(spent):
    done = spent("cost", "--by", "model")
    header, *rows, total = done.text.split("\n\n")[0].splitlines()
    assert header.split() == ["MODEL", "ANSWERS", "INPUT", "CACHED", "OUTPUT", "COST"]
    assert [row.split() for row in rows] == [
        ["openai:gpt-6.1-sol", "3", "300,000", "240,000", "3,000", "$0.1740"],
        # 20,000 at $4, 80,000 at $0.20, 1,000 at $20
        ["anthropic:claude-opus-5-5", "1", "100,000", "80,000", "1,000", "$0.1160"],
        ["acme:mystery", "1", "100,000", "80,000", "1,000", "not", "known"],
    ]
    assert total.split()[-3:] == ["at", "least", "$0.2900"]
    assert "answers without a known price: acme:mystery (1)" in done.text


def test_prices_of_the_user_s_own_count(spent):
    (spent.home / "config.toml").write_text(
        '[prices."acme:mystery"]\ninput = 1.0\ncached_input = 0.0\noutput = 10.0\n'
        '[prices."gpt-6.1-sol"]\ninput = 1.0\noutput = 1.0\ncurrency = "EUR"\n'
    )
    total = spent("cost", "--json").json["total"]
    assert total["unpriced"] == 0
    assert {name: round(amount, 6) for name, amount in total["cost"].items()} == {
        "EUR": 0.303,
        "USD": 0.146,
    }


def test_a_wrong_configuration_hides_no_thread(spent):
    listed = spent("threads", "--json").json
    (spent.home / "config.toml").write_text("prices = 7\n")
    done = spent("threads", "--json")
    assert [each["cost"] for each in done.json] == [each["cost"] for each in listed]
    assert "config.toml" in done.err
    assert done.err.endswith("; costs are shown without your own prices\n")


def test_projects_threads_and_agents_are_told_apart(spent):
    def by(what: str) -> list[tuple[str, int]]:
        groups = spent("cost", "--by", what, "--json").json["groups"]
        return [
            (re.sub(r"thr_[\w-]+", "THR", group["label"]), group["answers"]) for group in groups
        ]

    assert by("project") == [("/projects/first", 4), ("/projects/second", 1)]
    assert [count for _, count in by("thread")] == [3, 1, 1]
    assert by("agent") == [("no agent", 4), ("Ada of THR", 1)]


def test_only_what_came_since_counts(spent):
    day = str((TODAY - timedelta(days=2)).date())
    for since in (day, "3d"):
        assert spent("cost", "--since", since, "--json").json["total"]["answers"] == 3
    assert spent("cost", "--since", "1h").text == "nothing was spent in this time\n"
    said = spent.refused("cost", "--since", "yesterday", code=2)
    assert "'yesterday' is no day and no length of time; use 2026-11-01, 7d or 36h" in said


def test_bars_fit_the_terminal_and_need_no_blocks(spent):
    for columns in (60, 80):
        spent.environ["COLUMNS"] = str(columns)
        blocks = spent("cost", "--by", "model", "--plot").lines
        plain = spent("cost", "--by", "model", "--plot", "--plain").lines
        assert all(len(line) <= columns for line in (*blocks, *plain))
        assert "\n".join(plain).isascii()
        full, half, none = (line.count("█") for line in blocks[:3])
        assert (full > half > 10, none) == (True, 0)
        assert plain[0].count("#") == full
        assert blocks[0].endswith(" $0.1740")
        assert blocks[-1] == "total at least $0.2900"
    spent.environ["COLUMNS"] = "80"
    days = spent("cost", "--plot").lines
    assert [line.split()[0] for line in days[:-1]] == [
        str((TODAY - timedelta(days=ago)).date()) for ago in (4, 3, 2)
    ]


def test_a_picture_is_drawn_into_a_file(spent, tmp_path):
    spent("cost", "--by", "project", "--svg", str(tmp_path / "cost.svg"))
    drawn = (tmp_path / "cost.svg").read_text()
    assert drawn.startswith("<svg ")
    assert drawn.count("<rect") == 2
    assert "/projects/second" in drawn
    said = spent.refused("cost", "--svg", str(tmp_path / "none" / "cost.svg"))
    assert said.endswith("No such file or directory; name another file\n")


def test_a_home_without_threads_has_spent_nothing(treadle):
    assert treadle("cost").text == "nothing was spent in this time\n"
    assert not (treadle.home / "log.db").exists()


def test_what_was_deleted_counts_no_more(spent):
    before = spent("cost", "--json").json["total"]["answers"]
    listed = spent("threads", "--json").json
    gone = next(thread["id"] for thread in listed if thread["cwd"] == "/projects/second")
    spent("delete", gone, "--yes")
    assert spent("cost", "--json").json["total"]["answers"] == before - 1


def test_a_turn_of_the_command_line_counts(treadle):
    model = scripted(
        treadle, {"text": "Done.", "usage": {"input": 1_000, "cached": 800, "output": 10}}
    )
    (treadle.home / "config.toml").write_text(
        f'[prices."{model}"]\ninput = 2.0\ncached_input = 0.5\noutput = 8.0\n'
    )
    treadle("exec", "go", "--model", model)
    total = treadle("cost", "--json").json["total"]
    assert (total["answers"], round(total["cost"]["USD"], 6)) == (1, 0.00088)
