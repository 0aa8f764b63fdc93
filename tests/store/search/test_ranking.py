"""What stands first among what a search finds: the principles of the ranking, one by one."""

from __future__ import annotations

import pytest

from tests.store.search.test_searcher import Home, answers, returns
from treadle.store import MemoryIndex, MemoryStore
from treadle.store.contract import Search
from treadle.store.search.query import HitReasons
from treadle.store.search.weights import RankWeights

ASIDE = "something else came up in between"


@pytest.fixture
async def home():
    store = MemoryStore()
    index = MemoryIndex(store)
    yield Home(store, index, (await store.create()).id)
    await index.close()


async def test_what_is_rare_the_threads_that_are_asked_decide(home):
    other = (await home.store.create()).id
    await home.say(*["amber"] * 300, thread=other)
    await home.say("amber", *(f"brook here {n}" for n in range(20)))
    await home.index.catch_up()
    within = Search("amber brook", threads=(home.thread,), limit=1)
    assert await home.seqs(within) == [1]
    everywhere = await home.index.search(Search("amber brook", limit=5))
    assert {hit.snippet[:10] for hit in everywhere} == {"brook here"}


async def test_what_only_repeats_a_better_hit_comes_last(home):
    await home.say(*["the gateway deploys at night"] * 3, *[ASIDE] * 9, "a gateway")
    found = await home.seqs("gateway deploys")
    assert (found[1], sorted(found)) == (13, [1, 2, 3, 13])
    talk = ("where is the gateway?", answers("on the left"))
    await home.say(*talk, *[ASIDE] * 9, *talk)
    found = await home.seqs("where is the old gateway deployed?", limit=6)
    assert {15, 26} <= set(found), "each is an answer of its own"


async def test_words_that_other_threads_use_all_the_time_still_tell_something(home):
    other = (await home.store.create()).id
    await home.say(*["retries again"] * 5_200, thread=other)
    await home.say("the retries stay at seven", ASIDE)
    await home.index.catch_up()
    told = Search("retries", threads=(home.thread,), skip_common=True)
    assert await home.seqs(told) == [1]
    assert await home.index.search(Search("retries", skip_common=True)) == []


async def test_a_long_text_counts_by_its_best_passage(home):
    scattered = " ".join(f"{word} {ASIDE * 20}" for word in ("signing", "keys", "rotate"))
    buried = f"{ASIDE * 60} we rotate the signing keys monthly {ASIDE * 60}"
    await home.say(answers(scattered), *[ASIDE] * 10, answers(buried), *[ASIDE] * 10)
    hits = await home.index.search("rotate signing keys")
    assert [hit.seq for hit in hits][:2] == [12, 1]
    assert "we rotate the signing keys monthly" in hits[0].snippet


async def test_a_hit_shows_as_much_of_its_passage_as_is_asked_for(home):
    await home.say(f"{'before ' * 400} the needle is here {'after ' * 400}")
    for width in (100, 700):
        (hit,) = await home.index.search(Search("needle", snippet=width))
        assert "the needle is here" in hit.snippet
        assert width // 2 < len(hit.snippet) <= width + width // 4 + 2


async def test_what_the_user_said_comes_before_answers_and_outputs(home):
    said = "the gateway deploys at night"
    await home.say(said, answers(said), returns(said, "c1"))
    assert await home.seqs("gateway deploys") == [1, 2, 3]


async def test_words_that_stand_together_come_before_words_that_are_apart(home):
    apart = "billing is slow, and there was also some trouble with the other worker"
    await home.say("there was some more trouble, the billing worker is slow", *[ASIDE] * 9, apart)
    assert await home.seqs("billing worker", limit=2) == [1, 11]


@pytest.mark.parametrize(
    ("question", "plain", "fitting"),
    [
        (
            "When is the gateway live?",
            "the gateway live before long",
            "the gateway live on Tuesday",
        ),
        ("How many workers has billing?", "some workers for billing", "five workers for billing"),
    ],
)
async def test_a_question_for_a_time_or_a_number_prefers_passages_with_one(
    home, question, plain, fitting
):
    await home.say(plain, *[ASIDE] * 9, fitting, *[ASIDE] * 9, plain)
    assert (await home.seqs(question))[0] == 11
    indifferent = Search(question, weights=RankWeights(answer=1.0, window=0, stretch=0))
    assert (await home.seqs(indifferent))[0] == 21


async def test_a_question_about_a_speaker_prefers_what_the_speaker_said(home):
    await home.say("Ines: Tomasz has a kayak", *[ASIDE] * 9, "Tomasz: a kayak, for years now")
    assert (await home.seqs("Since when does Tomasz have a kayak?"))[0] == 11


async def test_a_question_about_outputs_prefers_outputs(home):
    await home.say("the export fails", *[ASIDE] * 9, returns("export fails: E77", "c1"))
    assert (await home.seqs("What error was printed when the export fails?"))[0] == 11
    assert (await home.seqs("export fails"))[0] == 1


async def test_an_answer_after_a_question_back_is_found(home):
    filler = [f"note {n} about nothing" for n in range(30)]
    talk = ("how large do uploads to the ledger get?", answers("Shall I assume something?"))
    await home.say(*filler, *talk, "forty is plenty", answers("Noted."), *filler)
    assert 33 in (await home.seqs("What size do uploads to the ledger have?"))[:3]


async def test_turns_that_only_ask_come_after_turns_that_tell(home):
    await home.say("who owns the gateway parser?", *[ASIDE] * 9, "the gateway parser has an owner")
    assert await home.seqs("Who owns the gateway parser?", limit=1) == [11]


async def test_an_answer_counts_more_where_the_question_before_it_asks_the_same(home):
    asked = "Tomasz, {} the kayak?"
    talk = [answers(asked.format(word)) for word in ("who painted", "where do you keep")]
    await home.say(talk[0], "one of us", *[ASIDE] * 9, talk[1], "behind the church")
    hits = await home.index.search(Search("Where is the old kayak of Tomasz?", explain=True))
    replies = {hit.seq: hit.why.reply for hit in hits if hit.why is not None}
    assert replies[13] > 1.2 * replies[2] > 0
    assert [hit.seq for hit in hits if hit.seq in {2, 13}] == [13, 2]


async def test_what_makes_a_possessive_is_no_word_to_find(home):
    await home.say("it's late, isn't it, let's go", *[ASIDE] * 9, "Tomasz plans a kayak trip")
    hits = await home.index.search(Search("What are Tomasz's plans? How long is it?", explain=True))
    assert hits[0].seq == 11
    assert hits[0].why is not None
    assert hits[0].why.words.keys() == {"tomasz", "plan"}


async def test_hits_may_be_distinct_passages(home):
    await home.say(*["gateway one", "gateway two", "gateway three"], *[ASIDE] * 5, "gateway four")
    everything = Search("gateway", neighbours=2)
    assert len(await home.seqs(everything)) == 4
    hits = await home.index.search(Search("gateway", neighbours=2, distinct=True))
    assert [(hit.seq, hit.neighbours) for hit in hits] == [(9, (7, 8)), (3, (1, 2, 4, 5))]


async def test_a_hit_says_why_it_was_found(home):
    question = "When does the gateway worker stop?"
    await home.say(question, answers(ASIDE), "gateway workers stop on Monday")
    (first, *_) = await home.index.search(Search(question, explain=True))
    why = first.why
    assert isinstance(why, HitReasons)
    assert first.seq == 3
    assert why.words.keys() == {"gatewai", "worker", "stop"}
    assert why.pairs > 0
    assert why.factors.keys() == {"all words", "role", "has a time", "coverage"}
    own = (sum(why.words.values()) + why.pairs) * why.factors["all words"]
    total = (own + why.reply) * why.factors["role"]
    total = (total + why.window + why.stretch) * why.factors["has a time"] * why.factors["coverage"]
    assert first.score == pytest.approx(total, rel=0.05)
    (plain, *_) = await home.index.search("gateway")
    assert plain.why is None
