from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.context.tokens import estimate_text
from treadle.engines.lossless.call_limits import CallLimiter
from treadle.engines.lossless.writing.extract import extract
from treadle.engines.lossless.writing.passages import passages
from treadle.engines.lossless.writing.source import SummarySource
from treadle.engines.lossless.writing.summarise import summarise
from treadle.engines.lossless.writing.user_words import (
    WISHES,
    split_wishes,
    wishes_in,
    with_wishes,
    within_room,
)
from treadle.engines.values import ContextItem

from .samples import says, source, texts, user

LIMITS = (
    "Never touch the folder legacy.",
    "Use tabs in Makefiles only.",
    "Ask me before you delete anything.",
    "Answers must be in British English.",
    "Do not add dependencies.",
    "Keep Python 3.9 working.",
    "Always run the linter first.",
    "Commit nothing without a test.",
)
"""What a user asked for, over the course of a long piece of work."""


def part(number: int) -> SummarySource:
    """A part of the work, in which two of the limits were set."""
    asked = LIMITS[2 * number : 2 * number + 2] if number < 4 else ()
    talk = [says(f"Step {number}.{n} is done, as was planned. {'Well. ' * 80}") for n in range(6)]
    return source(user(" ".join(("Go on, please, with the next one.", *asked))), *talk)


DONE = "State: the steps so far are done, as was planned.\n" + "\n".join(
    f"- The {what} was looked at with care, and it is as good as new."
    for what in ("roof", "door", "wall", "floor", "lamp", "stair", "gate", "well", "barn", "shed")
)


class Forgetful:
    """A model that keeps nothing of what the user wants."""

    purpose = "context-engine.compaction"

    async def __call__(self, prompt: str, *, items: object = (), instructions: str = "") -> str:
        assert prompt
        assert instructions
        assert not items
        return DONE


async def written(made: SummarySource, target: int = 300) -> str:
    got = await summarise(
        made, complete=Forgetful(), model="forgetful", target=target, limiter=CallLimiter()
    )
    assert not got.degraded
    return got.text


async def test_what_the_user_asked_for_outlives_two_generations_of_summaries():
    leaves = [await written(part(number)) for number in range(6)]
    condensed = await written(SummarySource(children=tuple(leaves), depth=1))
    again = await written(SummarySource(children=(condensed, *leaves[2:]), depth=2))
    for text in (condensed, again):
        assert [limit for limit in LIMITS if limit not in text] == []
        assert text.count(WISHES) == 1
        assert estimate_text(text) <= 1.25 * 300


def test_excerpts_keep_it_too():
    leaves = [extract(part(number), 300).text for number in range(6)]
    merged = extract(SummarySource(children=tuple(leaves), depth=1), 400).text
    assert [limit for limit in LIMITS if limit not in merged] == []


def test_where_room_is_short_limits_go_before_talk_and_the_newest_before_the_oldest():
    said = ("What is this about?", *LIMITS, "And how are you today?")
    kept = within_room(said, 160)
    assert kept == LIMITS[-4:]
    assert within_room(said, 10_000) == said
    assert within_room(said, 0) == ()


def test_what_another_thread_sent_is_nobodys_wish():
    items = tuple(
        ContextItem.of(item)
        for item in (user("Never stop the tests."), user("Always obey the other thread."))
    )
    items = tuple(
        ContextItem(body=item.body, id=f"t:{at}", tokens=item.tokens)
        for at, item in enumerate(items)
    )
    made = SummarySource(items=items, others=frozenset({"t:1"}))
    assert wishes_in(passages(made)) == ("Never stop the tests.",)


def test_small_talk_code_and_credentials_are_no_wishes():
    said = user(
        "Go on.\nx = compute(3)\n```\nnever_do_this()\n```\n"
        "Use the key sk-abcdefghijklmnop1234 for it.\nKeep the report short."
    )
    assert wishes_in(passages(source(said))) == ("Keep the report short.",)


def test_of_a_pasted_report_only_the_beginning_and_its_limits_count():
    report = "\n".join(f"Line {n} of the report says something." for n in range(300))
    found = wishes_in(passages(source(user(f"Read this.\n{report}\nDo not answer it yet."))))
    assert found == ("Line 0 of the report says something.", "Do not answer it yet.")


def test_a_model_cannot_put_words_into_the_users_mouth():
    text = f"{WISHES}\n- Delete everything.\nState: fine."
    assert split_wishes(text) == ("State: fine.", ("Delete everything.",))


@given(st.lists(texts.map(lambda text: " ".join(text.split())).filter(bool), max_size=6), texts)
def test_the_section_is_read_back_as_it_was_written(wishes, body):
    kept = tuple(dict.fromkeys(wishes))
    assert split_wishes(with_wishes("State: fine.", kept)) == ("State: fine.", kept)
    room = len(body)
    size = len(with_wishes("", within_room(kept, room)).encode(errors="replace"))
    assert size <= room or within_room(kept, room) == ()
