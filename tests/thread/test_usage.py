"""What a provider counted outlives the process that it was counted for."""

from __future__ import annotations

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle.core.usage import ThreadUsage, TokenUsage
from treadle.harness.events import CompactionFinished, UsageReported
from treadle.testing.script import Answer, Tokens
from treadle.tools.decorator import tool

LIMIT = "auto_compact_token_limit = 9000"
LONG = "many words " * 500
FULL = Tokens(input=9_500)


@tool
async def look() -> str:
    """Looks."""
    return "seen"


async def test_a_thread_that_was_full_is_compacted_by_the_process_that_opens_it_next(tmp_path):
    async with open_thread(tmp_path, scripted(Answer(text=LONG, usage=FULL)), facts=LIMIT) as one:
        await hear(one, "one")
    model = scripted(Answer(text="a summary"), Answer(text="fresh"))
    async with open_thread(tmp_path, model, thread=one.id, facts=LIMIT) as again:
        events = await hear(again, "next")
    assert (len(of(events, CompactionFinished)), last(events).text) == (1, "fresh")


async def test_an_opened_thread_is_as_full_as_it_was_left(tmp_path):
    model = scripted(
        Answer(calls=(call("look"),), usage=Tokens(input=700, output=20)),
        Answer(text=LONG, usage=Tokens(input=800, output=30)),
    )
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "look")
        left = thread.log.requests.occupied
    assert left == 830
    async with open_thread(tmp_path, scripted(), tools=(look,), thread=thread.id) as again:
        assert again.log.requests.occupied == left


async def test_where_nobody_counted_the_head_counts_by_its_size(tmp_path):
    model = scripted(Answer(text="hi", usage=Tokens(input=0, output=0)))
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        await hear(thread, "look")
        size, tokens = thread.log.requests.head_tokens, thread.view.tokens
    assert size > 100
    async with open_thread(tmp_path, scripted(), tools=(look,), thread=thread.id) as again:
        assert again.log.requests.head_tokens == size
        assert again.log.requests.occupied == size + tokens


async def test_after_a_rollback_the_answer_before_it_counts(tmp_path):
    model = scripted(
        Answer(text="one", usage=Tokens(input=300)), Answer(text=LONG, usage=Tokens(input=9_000))
    )
    async with open_thread(tmp_path, model) as thread:
        events = await hear(thread, "one")
        (counted,) = of(events, UsageReported)
        await hear(thread, "two")
        await thread.rollback()
        assert thread.log.requests.occupied == counted.occupied
    async with open_thread(tmp_path, scripted(), thread=thread.id) as again:
        assert again.log.requests.occupied == counted.occupied


async def test_hosts_read_what_a_thread_has_cost_over_all_processes(tmp_path):
    first, second = Tokens(input=100, cached=40, output=10), Tokens(input=200, output=5)
    async with open_thread(tmp_path, scripted(Answer(text="a", usage=first))) as thread:
        assert await thread.usage() == ThreadUsage(
            context_window=thread.log.setup.profile.effective_window
        )
        await hear(thread, "one")
    model = scripted(Answer(text="b", usage=second))
    async with open_thread(tmp_path, model, thread=thread.id) as again:
        assert (await again.usage()).last == TokenUsage(100, 40, None, 10, 0, 110)
        await hear(again, "two")
        usage = await again.usage()
    assert (usage.total.input_tokens, usage.total.output_tokens) == (300, 15)
    assert usage.last.total_tokens == 205
