from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inline_snapshot import snapshot

from tests.context.scenes import (
    OTHER_MODEL,
    Scene,
    call,
    open_thread,
    output,
    reasoning,
    scene,
    user,
    verdict,
)
from treadle.context.cuts import step_boundary
from treadle.context.layout import row_lines
from treadle.context.request import RequestEncoder
from treadle.context.row import Row
from treadle.core.entries import Draft, Head, Origin, Reason
from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    ExecAction,
    FunctionCallOutput,
    InputText,
    Item,
    LocalShellCall,
    Message,
    WebSearchCall,
    decode_item,
    encode_item,
    text_of,
)
from treadle.core.specs import FunctionTool, parameters
from treadle.prompt import AgentsDocs
from treadle.testing import layout


@pytest.fixture
async def woven() -> AsyncIterator[Scene]:
    """Request n of the worked cases: C0, two summaries, a difference, u7 r c o u8."""
    async with scene() as found:
        for n in range(1, 4):
            await found.turn(f"u{n}")
        found.change(cwd="/repo/src")
        for n in range(4, 7):
            await found.turn(f"u{n}")
        before = [await found.summary(1, 4, 20), await found.summary(2, 21, 40)]
        await found.thread.log.epochs.rebase(
            len(found.thread.view.rows), reason=Reason.PUBLISH, before=before, by="test"
        )
        await found.say("u7")
        await found.call_tool(7)
        await found.say("u8")
        await found.send()
        yield found


async def test_request_n_is_the_first_context_the_summaries_the_difference_and_the_rest(woven):
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       u8
""")
    assert verdict(woven.ledger[-1]) == snapshot("epoch 30; 7 items shared")


async def test_nothing_changes(woven):
    await woven.thread.log.requests.record_answer([reasoning(8), call(8)])
    await woven.thread.log.append(output(8))
    before = woven.thread.request()
    await woven.say("u9")
    row = await woven.send()
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       u8
11 reasoning
12 call       exec_command({"cmd":"ls"})
13 output     exec_command README.md
14 user       u9
""")
    assert woven.thread.request().body.startswith(before.body[:-2])
    assert verdict(row) == snapshot("epoch 30; 11 items shared")


async def test_the_directory_changes(woven):
    woven.change(cwd="/elsewhere")
    await woven.say("u9")
    row = await woven.send()
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       u8
11 user       <environment>
12 user       u9
""")
    assert verdict(row) == snapshot("epoch 30; 11 items shared")


async def test_agents_md_is_edited(woven):
    woven.change(agents_docs=AgentsDocs("/repo", "Run them twice."))
    await woven.say("u9")
    row = await woven.send()
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       u8
11 user       <agents_md>
12 user       u9
""")
    assert verdict(row) == snapshot("epoch 30; 11 items shared")
    (told,) = [r for r in woven.thread.view.rows[-2:] if r.contextual]
    assert isinstance(told.item, Message)
    assert text_of(told.item.content) == snapshot("""\
# AGENTS.md instructions for /repo

<INSTRUCTIONS>
These AGENTS.md instructions replace all that were given earlier:

Run them twice.
</INSTRUCTIONS>\
""")


async def test_guidance_changes(woven):
    woven.change(guidance="Recall before you ask.")
    await woven.say("u9")
    woven.change(guidance="Ask before you recall.")
    await woven.say("u10")
    row = await woven.send()
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       u8
11 developer  <guidance>
12 user       u9
13 developer  <guidance>
14 user       u10
""")
    assert verdict(row) == snapshot("epoch 30; 11 items shared")


async def test_a_publish_between_steps_keeps_the_older_summaries_and_the_live_message(woven):
    await woven.say("u9")
    await woven.call_tool(9)
    before = woven.thread.request()
    older = woven.nodes()
    await woven.thread.log.epochs.rebase(
        woven.start_of_turn(),
        reason=Reason.PUBLISH,
        before=[*older, await woven.summary(3, 41, 60)],
        by="test",
    )
    row = await woven.send()
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       summary 3
06 user       <environment>
07 user       u9
08 reasoning
09 call       exec_command({"cmd":"ls"})
10 output     exec_command README.md
""")
    assert verdict(row) == snapshot("epoch 45; 5 items shared; publish at item 5")
    shared = before.body[: row.shared_size]
    assert shared.endswith(encode_item(user("summary 2")))
    assert woven.thread.request().body.startswith(shared)


async def test_what_changed_since_is_one_difference_after_the_new_summaries(woven):
    woven.change(cwd="/elsewhere")
    await woven.say("u9")
    woven.change(cwd="/nowhere", approval_policy="never")
    await woven.turn("u10")
    await woven.thread.log.epochs.rebase(
        len(woven.thread.view.rows),
        before=[*woven.nodes(), await woven.summary(3, 41, 60)],
    )
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       summary 3
06 developer  <permissions>
07 user       <environment>
""")
    told = woven.thread.view.rows[-1].item
    assert isinstance(told, Message)
    assert text_of(told.content) == snapshot("""\
<environment_context>
  <cwd>/nowhere</cwd>
  <approval_policy>never</approval_policy>
  <shell>bash</shell>
</environment_context>\
""")


async def test_a_rollback_of_two_turns_past_an_epoch_starts_from_the_earlier_recipe(woven):
    base = woven.thread.view.base
    woven.change(cwd="/elsewhere")
    await woven.say("u9")
    await woven.call_tool(9)
    await woven.thread.log.epochs.rebase(
        woven.start_of_turn(), before=[*woven.nodes(), await woven.summary(3, 41, 60)]
    )
    await woven.send()
    await woven.thread.rollback(2)
    assert woven.thread.view.base == base
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
""")
    await woven.say("u8 again")
    row = await woven.send()
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       <environment>
11 user       u8 again
""")
    assert verdict(row) == snapshot("epoch 48; 5 items shared; rollback at item 5")


async def test_after_a_rollback_the_state_baseline_is_the_one_before_the_cut(woven):
    known = dict(woven.thread.view.baselines)
    woven.change(cwd="/elsewhere", guidance="Recall.")
    await woven.turn("u9")
    assert woven.thread.view.baselines != known
    await woven.thread.rollback()
    assert woven.thread.view.baselines == known


async def test_a_fork_inside_a_summary_starts_from_raw_entries(woven):
    store = woven.thread.store
    second = next(r for r in await store.read(woven.thread.id) if r.turn == 2 and r.kind == "item")
    child = await store.fork(woven.thread.id, second.seq - 1)
    async with open_thread(store, child.id) as forked:
        assert layout(forked) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 assistant  answer to u1
""")


async def test_a_fork_after_a_publish_starts_from_its_recipe(woven):
    cut = woven.thread.view.upto
    await woven.say("u9")
    await woven.thread.log.epochs.rebase(
        woven.start_of_turn(), before=[await woven.summary(9, 1, 60)]
    )
    child = await woven.thread.store.fork(woven.thread.id, cut)
    async with open_thread(woven.thread.store, child.id) as forked:
        assert layout(forked) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       u8
""")
        assert forked.view.base == woven.ledger[-1].epoch


async def test_a_fork_between_call_and_result_moves_to_the_step_boundary(woven):
    thread = woven.thread
    (called,) = [row for row in thread.view.rows if row.shape.type == "function_call"]
    cut = await step_boundary(thread.store, thread.id, thread.registry, called.seq)
    child = await thread.store.fork(thread.id, cut)
    async with open_thread(thread.store, child.id) as forked:
        assert layout(forked) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
""")


async def test_another_model_goes_on_with_the_same_items(woven):
    long = "x" * 30_000
    await woven.thread.log.requests.record_answer([call(8)])
    await woven.thread.log.append(output(8, long))
    woven.thread.log.setup.use_model(OTHER_MODEL)
    woven.change(model="gpt-5.2", model_instructions="Be brief.")
    await woven.say("u9")
    row = await woven.send()
    assert layout(woven.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       summary 1
04 user       summary 2
05 user       <environment>
06 user       u7
07 reasoning
08 call       exec_command({"cmd":"ls"})
09 output     exec_command README.md
10 user       u8
11 call       exec_command({"cmd":"ls"})
12 output     exec_command xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
13 developer  <model_switch>
14 user       u9
""")
    assert verdict(row) == snapshot("epoch 42; 0 items shared; model at params")
    assert long.encode() in woven.thread.request().body


async def test_other_tools_end_the_prefix_and_nothing_else(woven):
    items = layout(woven.thread)
    woven.thread.log.setup.tools = (
        FunctionTool(name="look", description="Looks.", parameters=parameters({})),
    )
    await woven.say("u9")
    row = await woven.send()
    assert layout(woven.thread).removeprefix(items) == snapshot("11 user       u9\n")
    assert verdict(row) == snapshot("epoch 39; 0 items shared; tools at tools")


async def test_a_summary_is_shown_with_what_it_covers(woven):
    lines = row_lines(woven.thread.view.rows, woven.thread.registry)
    assert [str(line) for line in lines[3:6]] == snapshot(
        [
            "03 summary    4-20: summary 1",
            "04 summary    21-40: summary 2",
            "05 user       <environment>",
        ]
    )
    assert [line.fragments for line in lines[2:4]] == [("environment",), ()]


@pytest.mark.parametrize("model", ["anthropic:claude-opus-5", "openrouter:some/model"])
async def test_a_request_in_another_wire_format_has_the_same_layout(model):
    async with scene(model=model) as found:
        await found.say("u1")
        await found.call_tool(1)
        assert layout(found.thread) == snapshot("""\
00 developer  <permissions>
01 user       <agents_md>
02 user       <environment>
03 user       u1
04 call       exec_command({"cmd":"ls"})
05 output     exec_command README.md
""")


def test_every_kind_of_item_has_a_line():
    items: list[Item] = [
        CustomToolCall(call_id="a", name="apply_patch", input="*** Begin Patch"),
        CustomToolCallOutput(call_id="a", output="Success"),
        LocalShellCall(call_id="b", status="completed", action=ExecAction(command=("ls",))),
        FunctionCallOutput(call_id="b", output=(InputText(text="x" * 80),)),
        FunctionCallOutput(name="event", output="ping"),
        WebSearchCall(status="completed"),
        decode_item(b'{"type":"hologram"}'),
    ]
    origin = Origin("openai", "responses")
    rows = [Row.of_draft(Draft(body=encode_item(item), origin=origin)) for item in items]
    request = RequestEncoder(Head(model="m")).encode(rows, epoch=1, upto=1)
    assert layout(request) == snapshot("""\
00 call       apply_patch(*** Begin Patch)
01 output     apply_patch Success
02 call       local_shell
03 output     xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
04 output     event ping
05 web_search_call
06 unknown    hologram
""")
