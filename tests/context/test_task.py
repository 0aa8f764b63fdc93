from __future__ import annotations

import pytest
from msgspec import Raw

from tests.context.scenes import answer, output, user
from treadle.context.row import Row
from treadle.context.task import read_task
from treadle.core.entries import Draft
from treadle.core.items import (
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    encode_item,
)
from treadle.prompt import PlanStep, Task

APPLIED = "Success. Updated the following files:\nA new.py\nM moved.py\nD gone.py\n"
FILES = ("new.py", "moved.py", "gone.py")


def rows(*items: Item) -> list[Row]:
    return [Row.of_draft(Draft(body=encode_item(item)), seq) for seq, item in enumerate(items, 1)]


def plan(arguments: str, call_id: str = "p") -> FunctionCall:
    return FunctionCall(name="update_plan", arguments=arguments, call_id=call_id)


def applied(call_id: str = "q", text: str = APPLIED) -> CustomToolCallOutput:
    return CustomToolCallOutput(call_id=call_id, output=text)


def test_a_conversation_without_a_plan_has_no_task():
    assert read_task(rows(user("hi"), answer(), output()), {}) == Task()


def test_the_last_plan_counts():
    first = plan('{"plan":[{"step":"read"}]}')
    second = plan('{"explanation":"go","plan":[{"step":"write","status":"in_progress"}]}')
    task = read_task(rows(first, output("p"), second), {})
    assert task == Task(plan=(PlanStep("write", "in_progress"),))


@pytest.mark.parametrize("arguments", ["", "no JSON", '{"plan":3}', '{"plan":[{"status":"?"}]}'])
def test_a_plan_that_cannot_be_read_changes_nothing(arguments):
    kept = plan('{"plan":[{"step":"read"}]}')
    assert read_task(rows(kept, plan(arguments)), {}) == Task(plan=(PlanStep("read"),))


def test_an_empty_plan_clears_it():
    assert read_task(rows(plan('{"plan":[{"step":"read"}]}'), plan('{"plan":[]}')), {}) == Task()


def test_a_patch_that_was_applied_names_its_files():
    assert read_task(rows(applied()), {}) == Task(files=FILES)


def test_a_patch_that_was_not_applied_touches_nothing():
    assert read_task(rows(applied(text="patch rejected")), {}) == Task()


def test_a_patch_may_have_been_applied_from_a_shell():
    told = f"Wall time: 0.0043 seconds\nOutput:\n{APPLIED}\nA not-a-file"
    done = FunctionCallOutput(call_id="q", output=told)
    assert read_task(rows(done), {}) == Task(files=FILES)


def test_files_are_named_once_in_the_order_they_were_touched():
    second = "Success. Updated the following files:\nM b.py\nM new.py\n"
    listed = rows(applied(), applied("r", second))
    assert read_task(listed, {}) == Task(files=(*FILES, "b.py"))


def test_what_was_known_before_goes_on():
    before = Task("Ship it", (PlanStep("read"),), ("a.py",))
    assert read_task([], {}, before) == before
    after = read_task(rows(applied()), {}, before)
    assert after == Task("Ship it", (PlanStep("read"),), ("a.py", *FILES))


@pytest.mark.parametrize(("goal", "expected"), [(b'"Ship it"', "Ship it"), (b"null", "")])
def test_the_goal_is_a_setting(goal, expected):
    assert read_task([], {"goal": Raw(goal)}, Task("Old goal")) == Task(expected)
