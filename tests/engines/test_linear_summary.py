from __future__ import annotations

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle.core.loopback import LoopbackRequest
from treadle.harness.events import CompactionFinished, NoticeRaised
from treadle.prompt.instructions import compaction_prompt
from treadle.testing.script import Answer, Tokens
from treadle.tools.decorator import tool

ASKS = compaction_prompt()[:40]
FILLER = " ".join(f"w{(at * 104729) % 9973}" for at in range(1_500))
"""About 2,000 tokens of which nothing matters."""
SMALL = "context_window = 16384\nauto_compact_token_limit = 14745"


@tool
async def look(at: str) -> str:
    """Looks at something."""
    seen = {
        "deploy": "region = eu-west-2\nbuild 3f2a9bc was rolled out by Ingrid Holm",
        "queue": "queue depth: 4711\nlast error: BrokerGone: no heartbeat for 90 s",
        "limits": "MAX_RETRIES = 7\nsrc/app/limits.py says it",
    }
    return seen[at]


def shown(request: LoopbackRequest) -> str:
    """All that a request shows."""
    return request.body.decode()


FOUND_OUT = (
    "The broker listens on port 8843.",
    "We decided to drop the cache because eviction took 12.5 s.",
    "The flaky test is tests/test_clock.py::test_leap.",
    "Release 4.2.1 is the last one with Python 3.9.",
)


async def test_what_was_found_and_seen_outlives_a_poor_summary(tmp_path):
    looks = [Answer(calls=(call("look", at=at),)) for at in ("deploy", "queue", "limits")]
    model = scripted(
        *looks,
        Answer(text=" ".join(FOUND_OUT) + f" {FILLER}"),
        Answer(text="They looked at some things."),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "Look around. Never restart the broker.")
        done = await thread.compact()
        await hear(thread, "What did we find?")
    sent = shown(model.requests[-1])
    assert "They looked at some things." in sent
    told = ("8843", "12.5 s", "tests/test_clock.py", "4.2.1", "eu-west-2", "3f2a9bc", "Ingrid Holm")
    seen = (
        "4711",
        "BrokerGone",
        "MAX_RETRIES = 7",
        "src/app/limits.py",
        "Never restart the broker",
    )
    assert [fact for fact in (*told, *seen) if fact not in sent] == []
    assert done.tokens_after < done.tokens_before / 3


async def test_a_decision_outlives_two_poor_summaries(tmp_path):
    decided = "I decided to replace the queue by a plain table."
    model = scripted(
        Answer(text=f"{decided} {FILLER}"),
        Answer(text="They talked."),
        Answer(text=f"Nothing new. {FILLER}"),
        Answer(text="They talked on."),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model) as thread:
        for said in ("Do something about the mail.", "And now?"):
            await hear(thread, said)
            await thread.compact()
        await hear(thread, "Do you remember?")
    sent = shown(model.requests[-1])
    assert f"- {decided}" in sent
    assert f"- - {decided}" not in sent


async def test_what_is_listed_below_a_summary_outlives_the_next_one(tmp_path):
    model = scripted(
        Answer(text=f"The broker listens on port 8843. {FILLER}"),
        Answer(text="They talked."),
        Answer(text=f"The mirror listens on port 9921. {FILLER}"),
        Answer(text="They talked on."),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model) as thread:
        for said in ("Which port?", "And the mirror?"):
            await hear(thread, said)
            await thread.compact()
        await hear(thread, "Do you remember?")
    sent = shown(model.requests[-1])
    assert "They talked on." in sent
    assert "8843" in sent
    assert "9921" in sent


async def test_a_statement_that_contradicts_what_was_said_is_taken_out(tmp_path):
    wrong = "State: the tests passed.\nKeep: the broker listens on port 8834.\nGoal: mend it."
    model = scripted(
        Answer(text=f"The tests failed. The broker listens on port 8843. {FILLER}"),
        Answer(text=wrong),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "Mend it.")
        await thread.compact()
        await hear(thread, "And?")
    sent = shown(model.requests[-1])
    assert "Goal: mend it." in sent
    assert "8843" in sent
    assert "8834" not in sent
    assert "the tests passed" not in sent


async def test_a_summary_that_goes_round_in_circles_is_asked_for_once_more(tmp_path):
    model = scripted(
        Answer(text=f"The broker listens on port 8843. {FILLER}"),
        Answer(text="The work goes on as it was planned.\n" * 4),
        Answer(text="The broker was looked at."),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "Look at it.")
        await thread.compact()
        await hear(thread, "And?")
    assert "Write half as much" in shown(model.requests[2])
    sent = shown(model.requests[-1])
    assert "The broker was looked at." in sent
    assert "as it was planned" not in sent


async def test_where_no_summary_can_be_used_excerpts_take_its_place(tmp_path):
    echo = Answer(when=ASKS, times=0, text=compaction_prompt())
    model = scripted(
        Answer(text=f"The broker listens on port 8843. {FILLER}"), echo, Answer(text="Yes.")
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "Look at it.")
        await thread.compact()
        await hear(thread, "And?")
    assert "The broker listens on port 8843." in shown(model.requests[-1])
    assert "Write facts, not narration" not in shown(model.requests[-1])


async def test_a_summary_cut_by_length_is_asked_for_again_shorter(tmp_path):
    model = scripted(
        Answer(text=FILLER),
        Answer(text="Half a summ", stop="length"),
        Answer(text="A whole one."),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        await thread.compact()
        await hear(thread, "two")
    first, second = (
        request.payload["input"][-1]["content"][0]["text"] for request in model.requests[1:3]
    )
    assert second.startswith(first)
    assert second != first
    sent = shown(model.requests[-1])
    assert "A whole one." in sent
    assert "Half a summ" not in sent


async def test_a_summary_that_is_cut_twice_is_made_of_excerpts(tmp_path):
    cut = Answer(when=ASKS, times=2, text="Half a summ", stop="length")
    model = scripted(Answer(text=f"Port 8843 it is. {FILLER}"), cut, Answer(text="Yes."))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "Which port?")
        await thread.compact()
        assert last(await hear(thread, "two")).text == "Yes."
    assert "Port 8843 it is." in shown(model.requests[-1])


async def test_in_a_small_window_what_the_user_said_does_not_fill_it(tmp_path):
    said = [f"Number {n}. {FILLER}" for n in range(8)]
    sums_up = Answer(when=ASKS, times=0, text="They counted.")
    model = scripted(sums_up, *[Answer(text="Noted.")] * 9, loop=True)
    async with open_thread(tmp_path, model, facts=SMALL) as thread:
        heard = []
        for text in said:
            heard += await hear(thread, text)
        tokens = thread.view.tokens
    done = [each for each in of(heard, CompactionFinished) if each.error is None]
    assert of(heard, NoticeRaised) == []
    assert 1 <= len(done) < len(said) / 2, "not at every turn"
    assert all(each.tokens_after < 14_745 / 2 for each in done)
    assert tokens < 14_745


async def test_a_wish_too_old_to_stay_word_for_word_is_listed(tmp_path):
    model = scripted(
        Answer(text="Noted.", usage=Tokens(input=1_000)),
        Answer(text="Noted.", usage=Tokens(input=2_000)),
        Answer(text="They talked."),
        Answer(text="Yes."),
    )
    async with open_thread(tmp_path, model, facts=SMALL) as thread:
        await hear(thread, f"Never delete the folder legacy. {FILLER}")
        await hear(thread, f"Go on with the rest. {FILLER} {FILLER}")
        await thread.compact()
        await hear(thread, "Well?")
    assert "Never delete the folder legacy." in shown(model.requests[-1])
