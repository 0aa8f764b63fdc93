"""The planted-facts experiment, with the stand-in: does it measure what it says?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.quality.__main__ import arguments
from benchmarks.quality.planted import LANGUAGES, Exchange, PlantedTalk, plant
from benchmarks.quality.report import misses, table
from benchmarks.quality.stand_in import UNKNOWN, StandIn
from benchmarks.quality.trial import AskedModel, Condition, Outcome, hold_trial

WINDOW = 16_384


async def trial(tmp_path, condition: Condition, talk: PlantedTalk) -> Outcome:
    async with StandIn(talk.facts).server as server:
        asked = AskedModel("stand-in", server.base_url, WINDOW)
        return await hold_trial(tmp_path, talk, asked, condition)


def spoken(talk: PlantedTalk) -> Iterator[Exchange]:
    return (turn for part in talk.parts for turn in part)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_fact_is_told_once_and_no_question_has_its_answer(language):
    talk = plant(language, 3)
    sources = [fact.source for fact in talk.facts]
    assert (len(talk.parts), sources.count("user"), sources.count("assistant")) == (3, 8, 8)
    for fact in talk.facts:
        told = [
            turn for turn in spoken(talk) if fact.is_in(f"{turn.said} {turn.answer} {turn.output}")
        ]
        assert len(told) == 1, fact
        assert fact.is_in(fact.told), fact
        assert not any(fact.is_in(f"{other.question} {other.asked}") for other in talk.facts), fact


async def test_what_a_fold_leaves_out_is_not_answered_and_what_it_keeps_is(tmp_path):
    talk = plant("en", 2, most=2)
    found = {}
    for condition in ("whole", "linear", "lossless", "extracts"):
        (tmp_path / condition).mkdir()
        found[condition] = await trial(tmp_path / condition, condition, talk)
    assert {name: len(each.replies) for name, each in found.items()} == dict.fromkeys(found, 6)
    assert found["whole"].share() == 1.0
    assert found["whole"].view_after == found["whole"].view_before
    assert found["lossless"].share() == found["extracts"].share() == 1.0
    assert found["linear"].view_after < found["linear"].view_before
    assert not any(reply.recalled for reply in found["linear"].replies)
    assert any(reply.recalled for reply in found["lossless"].replies)
    shown = table(list(found.values()))
    assert "| en | whole | 6 of 6 | 2 | 2 | 2 |" in shown


async def test_a_model_that_is_shown_nothing_knows_nothing(tmp_path):
    talk = plant("en", 1, most=1)
    unsaid = PlantedTalk(((Exchange("Hello.", "Hello."),),), talk.facts)
    outcome = await trial(tmp_path, "whole", unsaid)
    assert outcome.share() == 0.0
    assert {reply.text for reply in outcome.replies} == {UNKNOWN}
    assert len(list(misses([outcome]))) == 3


def test_a_model_goes_with_its_server():
    assert arguments(["--base-url", "http://127.0.0.1:1/v1", "--model", "qwen"]).model == "qwen"
    for given in (["--model", "qwen"], ["--base-url", "http://127.0.0.1:1/v1"]):
        with pytest.raises(SystemExit):
            arguments(given)
