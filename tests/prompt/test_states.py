from __future__ import annotations

from inline_snapshot import snapshot
from msgspec import Raw
from msgspec.structs import replace

from treadle.prompt import AgentsDocs, CollaborationMode, ContextUpdate, PlanStep, Subagent, Task
from treadle.prompt.executor_place import rights_there
from treadle.prompt.prompt_context import AgentType, ExecutorFacts

from .state_texts import CTX, said, said_after_unknown, told, with_


def test_developer_instructions_whole_replaced_and_removed():
    first, second = with_(developer_instructions="Be brief."), with_(developer_instructions="Sing.")
    assert said("developer_instructions", first) == ["Be brief."]
    assert said("developer_instructions", second, first) == snapshot(
        [
            """\
These developer instructions replace all that were given earlier:

Sing.\
"""
        ]
    )
    assert said("developer_instructions", CTX, second) == snapshot(
        ["The developer instructions given earlier are gone and no longer apply."]
    )
    assert said("developer_instructions", with_(developer_instructions=" \n"), CTX) == []


def test_agents_md_whole_replaced_and_removed():
    first = with_(agents_docs=AgentsDocs("/repo", "Run the tests."))
    second = with_(agents_docs=AgentsDocs("/repo", "Run no tests."))
    assert said("agents_md", first) == snapshot(
        [
            """\
# AGENTS.md instructions for /repo

<INSTRUCTIONS>
Run the tests.
</INSTRUCTIONS>\
"""
        ]
    )
    assert said("agents_md", second, first) == snapshot(
        [
            """\
# AGENTS.md instructions for /repo

<INSTRUCTIONS>
These AGENTS.md instructions replace all that were given earlier:

Run no tests.
</INSTRUCTIONS>\
"""
        ]
    )
    assert said("agents_md", CTX, second) == snapshot(
        [
            """\
# AGENTS.md instructions for /repo

<INSTRUCTIONS>
The AGENTS.md instructions given earlier are gone and no longer apply.
</INSTRUCTIONS>\
"""
        ]
    )


def test_agents_md_told_by_someone_else_is_replaced_too():
    now = with_(agents_docs=AgentsDocs("/repo", "Run the tests."))
    assert said_after_unknown("agents_md", now) == snapshot(
        [
            """\
# AGENTS.md instructions for /repo

<INSTRUCTIONS>
These AGENTS.md instructions replace all that were given earlier:

Run the tests.
</INSTRUCTIONS>\
"""
        ]
    )


def test_problems_with_files_are_not_told():
    docs = AgentsDocs("/repo", "", problems=("'/repo/AGENTS.md' is not text",))
    assert said("agents_md", with_(agents_docs=docs)) == []


def test_guidance_whole_replaced_and_removed():
    first, second = with_(guidance="Search first."), with_(guidance="Recall first.")
    assert said("guidance", first) == snapshot(
        [
            """\
<engine_guidance>
Search first.
</engine_guidance>\
"""
        ]
    )
    assert said("guidance", second, first) == snapshot(
        [
            """\
<engine_guidance>
This guidance replaces the earlier one:

Recall first.
</engine_guidance>\
"""
        ]
    )
    assert said("guidance", CTX, second) == snapshot(
        [
            """\
<engine_guidance>
The earlier guidance no longer applies.
</engine_guidance>\
"""
        ]
    )


def test_personality_whole_replaced_and_removed():
    first, second = with_(personality="Dry."), with_(personality="Warm.")
    assert said("personality", first) == snapshot(
        [
            """\
<personality_spec>
Dry.
</personality_spec>\
"""
        ]
    )
    assert said("personality", second, first) == snapshot(
        [
            """\
<personality_spec>
The user asked for another manner of speaking. From now on, in tone only:

Warm.
</personality_spec>\
"""
        ]
    )
    assert said("personality", CTX, second) == snapshot(
        [
            """\
<personality_spec>
The user no longer asks for a particular manner of speaking; use your own.
</personality_spec>\
"""
        ]
    )


def test_plan_mode_brings_its_words_and_its_end_is_told():
    plan = with_(collaboration_mode=CollaborationMode("plan"))
    default = with_(collaboration_mode=CollaborationMode("default"))
    assert said("collaboration_mode", plan) == snapshot(
        [
            """\
<collaboration_mode>
Plan mode is on. Work out what should be done and leave everything as it is:
- Read, search and run whatever changes nothing. Write no files, apply no patches, install nothing.
- Settle from the code what the code can settle. Ask the user only what is theirs to decide.
- End with one plan that somebody else could carry out: the goal, the steps in order, the files
  they touch, how each is checked, and what stays open.
A request to start the work is a request for the plan of that work, until this mode ends.
</collaboration_mode>\
"""
        ]
    )
    assert said("collaboration_mode", default, plan) == snapshot(
        [
            """\
<collaboration_mode>
The earlier collaboration mode has ended. Work as usual.
</collaboration_mode>\
"""
        ]
    )
    assert said("collaboration_mode", default) == []


def test_a_mode_may_bring_its_own_instructions_or_just_a_name():
    pair = with_(collaboration_mode=CollaborationMode("pair", "Ask before each edit."))
    solo = with_(collaboration_mode=CollaborationMode("solo"))
    assert said("collaboration_mode", pair) == snapshot(
        [
            """\
<collaboration_mode>
Ask before each edit.
</collaboration_mode>\
"""
        ]
    )
    assert said("collaboration_mode", solo, pair) == snapshot(
        [
            """\
<collaboration_mode>
The collaboration mode has changed. From now on:

The collaboration mode is `solo`.
</collaboration_mode>\
"""
        ]
    )


def test_the_place_of_commands_is_told_once_and_again_when_it_is_another():
    box = ExecutorFacts(place="a container", workspace="/w", contains=True)
    anew, moved = replace(box, number=2), replace(box, number=3, carried=True)
    home = ExecutorFacts(place="", workspace="", number=4, carried=True)
    first, second, third, back = (with_(executor=each) for each in (box, anew, moved, home))
    assert said("executor", first) == snapshot(
        [
            """\
<executor>
Commands, patches and files are those of a container, not of the user's machine.
</executor>\
"""
        ]
    )
    assert said("executor", first, first) == []
    assert "may be gone: look before you rely" in said("executor", second, first)[0]
    assert "were taken along; what was installed" in said("executor", third, second)[0]
    assert "machine again.\nThe files of the workspace" in said("executor", back, third)[0]
    assert "the user's machine again.\nFiles that were" in said("executor", with_(), first)[0]
    assert said("executor", back) == []


def test_a_container_is_not_confined_a_second_time():
    box = ExecutorFacts(place="a container", workspace="/w", contains=True)
    far = replace(box, contains=False)
    settings = with_(sandbox_mode="workspace-write")
    assert rights_there(replace(settings, executor=box)).sandbox_mode == "external-sandbox"
    assert rights_there(replace(settings, executor=far)).sandbox_mode == "workspace-write"
    careful = with_(sandbox_mode="read-only", executor=box)
    assert rights_there(careful).sandbox_mode == "read-only"


def test_the_first_model_is_noted_without_words():
    telling = told(with_(model="gpt-5.2", model_instructions="You are…"))
    assert [(mark.id, mark.snapshot) for mark in telling.silent] == [
        ("model", Raw(b'{"model":"gpt-5.2"}'))
    ]
    assert said("model", with_(model="gpt-5.2")) == []


def test_another_model_gets_its_instructions_in_a_message_of_its_own():
    before = with_(model="gpt-5.2")
    now = with_(model="gpt-5.5", model_instructions="Work in small steps.", guidance="Recall.")
    telling = told(now, before)
    assert [[mark.id for mark in m.marks] for m in telling.messages] == [["guidance"], ["model"]]
    assert said("model", now, before) == snapshot(
        [
            """\
<model_switch>
Another model wrote the conversation so far. Go on from where it stands.
Follow these instructions instead of the ones at the start:

Work in small steps.
</model_switch>\
"""
        ]
    )
    assert said("model", with_(model="gpt-5.5"), before) == snapshot(
        [
            """\
<model_switch>
Another model wrote the conversation so far. Go on from where it stands.
</model_switch>\
"""
        ]
    )


def test_new_instructions_of_the_same_model_are_not_told():
    before = with_(model="gpt-5.2", model_instructions="One.")
    assert told(with_(model="gpt-5.2", model_instructions="Two."), before) == ContextUpdate()


def test_kinds_of_agents_whole_changed_and_gone():
    finder, reviewer = AgentType("finder", "Finds things."), AgentType("reviewer", "Reviews.")
    first = with_(agent_types=(finder,))
    second = with_(agent_types=(AgentType("finder", "Finds " + "more" * 200), reviewer))
    assert said("agent_types", first) == snapshot(
        [
            """\
<agent_types>
Values of `agent_type` for spawn_agent, each with instructions of its own:
- finder: Finds things.
</agent_types>\
"""
        ]
    )
    (changed,) = said("agent_types", second, first)
    assert changed.startswith(
        "<agent_types>\nThe values of `agent_type` have changed. New or described anew:\n"
        "- finder: Finds moremore"
    )
    assert changed.endswith("morem…\n- reviewer: Reviews.\n</agent_types>")
    assert len(changed) < 600
    assert said("agent_types", first, second) == snapshot(
        [
            """\
<agent_types>
The values of `agent_type` have changed. New or described anew:
- finder: Finds things.
No longer there: reviewer
</agent_types>\
"""
        ]
    )
    assert said("agent_types", CTX, first) == snapshot(
        [
            """\
<agent_types>
No longer there: finder
</agent_types>\
"""
        ]
    )
    assert said("agent_types", first, first) == []


def test_subagents_whole_changed_and_gone():
    first = with_(subagents=(Subagent("/root/explore", "Ada"),))
    second = with_(subagents=(Subagent("/root/explore", "Ada"), Subagent("/root/fix", "Bo")))
    assert said("subagents", first) == snapshot(
        [
            """\
<subagents>
- /root/explore: Ada
</subagents>\
"""
        ]
    )
    assert said("subagents", second, first) == snapshot(
        [
            """\
<subagents>
- /root/explore: Ada
- /root/fix: Bo
</subagents>\
"""
        ]
    )
    assert said("subagents", CTX, second) == snapshot(
        [
            """\
<subagents>
No agents are left.
</subagents>\
"""
        ]
    )


def test_task_state_whole_changed_and_gone():
    plan = (
        PlanStep("Find it", "completed"),
        PlanStep("Fix it", "in_progress"),
        PlanStep("Test it"),
    )
    first = with_(task=Task("Fix the parser", plan, ("src/parse.py", "tests/test_parse.py")))
    second = with_(task=Task(files=("src/parse.py",)))
    assert said("task_state", first) == snapshot(
        [
            """\
<task_state>
Goal: Fix the parser

Plan:
- [x] Find it
- [>] Fix it
- [ ] Test it

Files touched:
- src/parse.py
- tests/test_parse.py
</task_state>\
"""
        ]
    )
    assert said("task_state", second, first) == snapshot(
        [
            """\
<task_state>
Files touched:
- src/parse.py
</task_state>\
"""
        ]
    )
    assert said("task_state", CTX, second) == snapshot(
        [
            """\
<task_state>
The task described earlier is no longer open.
</task_state>\
"""
        ]
    )


def test_task_state_waits_for_a_new_base():
    now = with_(task=Task("Fix the parser"))
    assert "task_state" not in {
        mark.id for m in told(now, rebase=False).messages for mark in m.marks
    }
    assert told(now, CTX, rebase=False) == ContextUpdate()
    assert [mark.id for m in told(now, CTX).messages for mark in m.marks] == ["task_state"]


def test_the_same_picture_gives_the_same_bytes():
    now = with_(guidance="Recall.", agents_docs=AgentsDocs("/repo", "Run the tests."))
    assert told(now) == told(now)
