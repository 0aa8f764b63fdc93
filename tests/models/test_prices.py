"""What requests cost: the figures here were worked out by hand from the providers' lists."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from treadle.config.settings import Price
from treadle.core.money import Bill, Cost
from treadle.core.usage import InputDetails, TokenUsage, WireUsage
from treadle.models.catalog import Catalog
from treadle.models.known_models import RECOMMENDED
from treadle.models.known_prices import KNOWN_PRICES
from treadle.models.prices import cost, find_rate

CATALOG = Catalog.load()


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW = at("2026-11-18T12:00")


def amount(found: Cost | None) -> float:
    assert found is not None
    assert found.currency == "USD"
    return round(found.amount, 9)


def test_openai_counts_cached_and_written_tokens_inside_the_input() -> None:
    wire = WireUsage(
        input_tokens=100_000,
        input_tokens_details=InputDetails(80_000, 15_000),
        output_tokens=2_000,
    )
    found = cost(TokenUsage.from_wire(wire), CATALOG.profile("openai:gpt-6.1-sol"), at=NOW)
    # 5,000 at $2, 80,000 at $0.10, 15,000 at $2.50, 2,000 at $10
    assert amount(found) == 0.0755


def test_a_write_for_an_hour_costs_more_than_one_for_five_minutes() -> None:
    usage = TokenUsage(
        input_tokens=55_000,
        cached_input_tokens=50_000,
        cache_write_input_tokens=4_000,
        output_tokens=500,
    )
    profile = CATALOG.profile("anthropic:claude-opus-5-5")
    # 1,000 at $4, 50,000 at $0.20, 4,000 at $5 or $8, 500 at $20
    assert amount(cost(usage, profile, at=NOW)) == 0.044
    assert amount(cost(usage, profile, at=NOW, cache_ttl="5m")) == 0.044
    assert amount(cost(usage, profile, at=NOW, cache_ttl="1h")) == 0.056


def test_a_cache_hit_costs_what_the_list_says_at_that_hour() -> None:
    usage = TokenUsage(input_tokens=10_000, cached_input_tokens=9_000, output_tokens=1_000)
    profile = CATALOG.profile("deepseek:deepseek-v4-pro")
    # 1,000 at $1.32, 9,000 at $0.044, 1,000 at $3.96 on a Wednesday morning in Beijing
    busy = cost(usage, profile, at=at("2026-11-18T02:00"))
    assert amount(busy) == 0.005676
    for quiet in ("2026-11-18T12:00", "2026-11-21T02:00"):
        assert amount(cost(usage, profile, at=at(quiet))) == round(amount(busy) / 2, 9)


def test_a_long_prompt_costs_the_long_price_as_a_whole() -> None:
    profile = CATALOG.profile("openai:gpt-6.1-sol")
    short = TokenUsage(input_tokens=272_000, output_tokens=1_000)
    long = TokenUsage(input_tokens=272_001, output_tokens=1_000)
    assert amount(cost(short, profile, at=NOW)) == 0.554
    assert amount(cost(long, profile, at=NOW)) == 1.103004


def test_a_price_holds_from_the_day_on_which_it_begins() -> None:
    usage = TokenUsage(input_tokens=1_000_000)
    profile = CATALOG.profile("gemini:gemini-4-argon")
    assert amount(cost(usage, profile, at=at("2026-11-30T23:59"))) == 2.0
    assert amount(cost(usage, profile, at=at("2026-12-01T00:00"))) == 4.0
    # What DeepSeek charged before its list that we know is not known.
    earlier = at("2026-08-16T12:00")
    assert cost(usage, CATALOG.profile("deepseek:deepseek-v4-pro"), at=earlier) is None


@pytest.mark.parametrize(
    "name",
    [
        "openai:gpt-7-nobody-listed",
        "openai:gpt-6.1-sol-pro",
        "azure:gpt-6.1-sol",
        "together:openai/gpt-oss-120b",
        "ollama:qwen3-coder:480b-cloud",
    ],
)
def test_a_model_that_nobody_listed_has_no_price(name: str) -> None:
    assert cost(TokenUsage(input_tokens=1), CATALOG.profile(name), at=NOW) is None


def test_a_snapshot_costs_what_its_model_costs_and_a_model_at_home_nothing() -> None:
    usage = TokenUsage(input_tokens=100_000)
    for name, expected in (
        ("openai:gpt-6.1-sol-2026-09-29", 0.2),
        ("anthropic:claude-haiku-4-5-20251001", 0.1),
        ("codex:gpt-6.1-sol", 0.2),
        ("ollama:qwen3-coder", 0.0),
    ):
        assert amount(cost(usage, CATALOG.profile(name), at=NOW)) == expected, name


def test_a_service_tier_costs_what_it_costs_and_an_unknown_one_is_not_guessed() -> None:
    usage = TokenUsage(input_tokens=100_000)
    profile = CATALOG.profile("openai:gpt-6.1-sol")
    assert amount(cost(usage, profile, at=NOW, service_tier="priority")) == 0.4
    assert cost(usage, profile, at=NOW, service_tier="ultrafast") is None


def test_the_user_s_own_price_wins_for_one_provider_or_for_the_model_everywhere() -> None:
    usage = TokenUsage(input_tokens=1_000_000, cached_input_tokens=500_000)
    profile = CATALOG.profile("openai:gpt-6.1-sol")
    own = {"gpt-6.1-sol": Price(input=3.0, output=9.0, currency="EUR")}
    # Without a price of its own, cached input costs what other input costs.
    assert cost(usage, profile, at=NOW, own=own) == Cost(3.0, "EUR")
    own["openai:gpt-6.1-sol"] = Price(input=1.0, output=1.0, cached_input=0.0)
    assert amount(cost(usage, profile, at=NOW, own=own, service_tier="anything")) == 0.5


def test_a_write_without_a_price_costs_what_other_input_costs() -> None:
    usage = TokenUsage(input_tokens=10_000, cache_write_input_tokens=10_000)
    own = {"m": Price(input=1.0, output=1.0), "n": Price(input=1.0, output=1.0, cache_write=2.0)}
    rates = [find_rate("p", name, at=NOW, own=own) for name in "mn"]
    assert [amount(each.cost(usage, "1h")) for each in rates if each] == [0.01, 0.02]


def test_a_report_that_contradicts_itself_never_costs_less_than_nothing() -> None:
    usage = TokenUsage(
        input_tokens=10, cached_input_tokens=1_000_000, cache_write_input_tokens=1_000_000
    )
    found = cost(usage, CATALOG.profile("anthropic:claude-opus-5-5"), at=NOW)
    assert amount(found) == 0.2


def test_a_sum_with_an_unknown_part_is_the_least_that_was_spent() -> None:
    bill = Bill.of([Cost(0.5), None, Cost(0.75), Cost(2.0, "EUR")])
    assert str(bill) == "at least 2.00 EUR + $1.25"
    assert (bill.requests, bill.unpriced, bill.known) == (4, 1, False)
    assert str(Bill.of([None])) == "not known"
    assert str(Bill.of([])) == "$0.00"
    assert str(Bill.of([Cost(0.5)]) + Bill.of([Cost(0.25)])) == "$0.7500"


def test_what_is_recommended_has_a_price_and_every_price_says_when_it_was_read() -> None:
    for provider, model in RECOMMENDED.items():
        assert find_rate(provider, model, at=NOW), (provider, model)
    for models in KNOWN_PRICES.values():
        for spans in models.values():
            assert [each.since for each in spans] == sorted({each.since for each in spans})
            for each in spans:
                assert date.fromisoformat(each.looked_up) >= date(2026, 11, 18)
                assert each.source.startswith("https://")
                assert bool(each.long) == bool(each.long_from)
