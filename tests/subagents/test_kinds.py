"""Agents that users define in files: what is read, what the model is told, what agents may do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle import Thread
from treadle.config.prompt_files import PromptFile
from treadle.config.trusted_files import TrustStore
from treadle.context.request import Renderer
from treadle.context.view import load_view
from treadle.harness.events import AgentReported, Event, NoticeRaised, ToolFinished
from treadle.prompt.prompt_context import PromptContext
from treadle.subagents import AgentDefinition
from treadle.subagents.agent_files import find_agent_files
from treadle.subagents.agent_header import read_definition
from treadle.testing.script import Answer
from treadle.thread.options import AgentOptions
from treadle.tools.agents import AgentRefusal, SpawnRequest, WaitResult
from treadle.tools.decorator import tool

from .scenes import rights, spawn

REVIEWER = """\
---
description: Looks for bugs in a change.
sandbox: read-only
tools: rights
---
Report bugs only.
"""
FROM_FILES = AgentOptions(files=True)


@tool
async def other() -> str:
    "Does something else."
    return "done"


def definition(text: str, name: str = "reviewer") -> AgentDefinition:
    return read_definition(PromptFile(name, Path(f"{name}.md"), "yours", text.encode()))


def write(place: Path, name: str, text: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.md").write_text(text)
    return place / f"{name}.md"


def test_a_file_says_all_that_an_agent_is():
    assert definition(
        "---\nname: deep_reviewer\ndescription: Looks\n  twice.\nmodel: openai:gpt-5.5\n"
        "effort: high\ntools: [exec_command, update_plan]\nwithout: update_plan\n"
        "network: false\nmode: plan\nworktree: true\n---\n\nBe strict.\n"
    ) == AgentDefinition(
        name="deep_reviewer",
        description="Looks twice.",
        instructions="Be strict.",
        model="openai:gpt-5.5",
        effort="high",
        tools=("exec_command", "update_plan"),
        without=("update_plan",),
        network=False,
        mode="plan",
        worktree=True,
    )


def test_files_of_claude_code_are_read():
    assert definition(
        "---\nname: code-reviewer\ndescription: Use it after edits.\n"
        "tools: Read, Grep, Bash(git *)\ndisallowedTools: Write\nmodel: sonnet\n"
        "permissionMode: bypassPermissions\ncolor: red\nisolation: worktree\n---\nReview.\n"
    ) == AgentDefinition(
        name="code-reviewer",
        description="Use it after edits.",
        instructions="Review.",
        tools=("exec_command", "view_image"),
        without=("apply_patch",),
        worktree=True,
    )
    assert definition("---\ndescription: x\ntools: Read, Glob\n---\n").sandbox == "read-only"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "it has no description; add a line `description: …` to its header"),
        ("description: x\nname: Über", "'Über' is no name for an agent; use up to 32 small"),
        ("description: x\nname: default", "'default' is no name for an agent"),
        ("description: x\ntols: a", "its key 'tols' is unknown; did you mean 'tools'? known are"),
        ("description: x\nhooks: a", "its key 'hooks' is unknown"),
        ("description: x\nmaxTurns: 3", "its key 'maxTurns' is unknown"),
        ("description: x\nsandbox: danger-full-access", "its sandbox is 'danger-full-access'; acc"),
        ("description: x\nsandbox: readonly", "did you mean 'read-only'?"),
        ("description: x\nnetwork: yes", "its network is 'yes'; accepted are true, false"),
        ("description: x\nmode: fast", "its mode is 'fast'; accepted are default, plan"),
        ("description: x\ntools: a b", "'a b' is no name of a tool"),
        ("description: x\nmodel: [a, b]", "its model is a list; write one value"),
        ("nonsense", "its front matter has a line that is no `key: value`: 'nonsense'"),
    ],
)
def test_a_wrong_file_is_told_with_its_reason(header: str, reason: str):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared
        definition(f"---\n{header}\n---\nDo.")
    assert reason in str(raised.value)


def test_instructions_are_bounded_and_text():
    with pytest.raises(ValueError, match="more than 32,768 bytes"):
        definition(f"---\ndescription: x\n---\n{'é' * 20_000}")
    with pytest.raises(ValueError, match="not UTF-8"):
        read_definition(PromptFile("a", Path("a.md"), "yours", b"---\ndescription: \xff\n---\n"))


def test_a_definition_takes_rights_away_and_never_adds_any():
    wide = PromptContext(cwd="", sandbox_mode="danger-full-access", network_access=True)
    narrow = PromptContext(cwd="", sandbox_mode="read-only", developer_instructions="Be kind.")
    agent = AgentDefinition(name="a", description="x", sandbox="workspace-write")
    assert agent.narrow(wide).sandbox_mode == "workspace-write"
    assert agent.narrow(narrow).sandbox_mode == "read-only"
    offline = AgentDefinition(name="a", description="x", network=False, instructions="Hurry.")
    assert offline.narrow(wide).network_access is False
    # Without a sandbox nothing would keep the network away.
    assert offline.narrow(wide).sandbox_mode == "workspace-write"
    assert offline.narrow(narrow).developer_instructions == "Be kind.\n\nHurry."


def test_tools_that_run_commands_go_together():
    agent = AgentDefinition(name="a", description="x", tools=("shell", "mine"))
    allowed = [
        agent.allows(name) for name in ("exec_command", "write_stdin", "mine", "apply_patch")
    ]
    assert allowed == [True, True, True, False]
    other = AgentDefinition(name="a", description="x", without=("exec_command",))
    assert [other.allows(name) for name in ("write_stdin", "shell", "mine")] == [False, False, True]


def test_a_users_agent_goes_before_a_projects_and_two_of_one_name_are_told(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    write(home / "agents", "mine", "---\nname: reviewer\ndescription: my own\n---\n")
    write(home / "agents", "twin", "---\nname: reviewer\ndescription: another\n---\n")
    write(project / ".treadle" / "agents", "reviewer", REVIEWER)
    write(project / ".claude" / "agents", "helper", "---\ndescription: helps\n---\n")
    write(project / ".claude" / "agents", "secret", REVIEWER).unlink()
    (project / ".claude" / "agents" / "secret.md").symlink_to(home / "agents" / "mine.md")
    found = find_agent_files(home, project)
    assert [(each.name, each.of.source, bool(each.problem)) for each in found] == [
        ("helper", "project", False),
        ("reviewer", "yours", False),
        ("secret", "project", True),
        ("twin", "yours", True),
    ]
    assert "hidden by the sandbox policy" in found[2].problem
    assert found[3].problem == "'reviewer' is the name of 'mine.md' too; rename one of them"


def done_by_agents(events: list[Event]) -> list[str]:
    """What calls of agents returned."""
    inner = [report.event for report in of(events, AgentReported)]
    return [event.output for event in inner if isinstance(event, ToolFinished)]


async def test_an_agent_of_a_file_has_its_instructions_and_no_more_rights(tmp_path: Path):
    write(tmp_path / "home" / "agents", "reviewer", REVIEWER)
    model = scripted(
        Answer(when="look at it", calls=(call("rights"), call("other")), times=0),
        Answer(when="unsupported call", text="I may read.", times=0),
        Answer(when="start", calls=(spawn("look at it", "first", agent_type="reviewer"),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(when="I may read.", text="ok"),
    )
    async with open_thread(tmp_path, model, agents=FROM_FILES, tools=(rights, other)) as thread:
        events = await hear(thread, "start")
        assert last(events).text == "ok"
        # The sandbox, and the tools, of the definition: the parent may do everything.
        assert done_by_agents(events) == ["may read-only () False never", "unsupported call: other"]
        (agent,) = await thread.subagents.agents()
        assert agent.agent_type == "reviewer"
        view = await load_view(thread.store, agent.agent_id, thread.registry)
        assert b"Report bugs only." in Renderer().render(view).body
        # Whatever the parent is given later, the agent keeps to its definition.
        thread.adopt(msgspec.structs.replace(thread.log.setup.settings, network_access=True))
        assert isinstance(await thread.subagents.send(agent.agent_id, "look at it"), str)
        waited = await thread.subagents.wait((), 60)
        assert isinstance(waited, WaitResult)
        assert waited.status == {agent.agent_id: "completed"}


async def test_agents_with_a_long_name_have_a_cache_key_that_providers_take(tmp_path: Path):
    name = "reviewer-of-all-that-we-have-now"
    write(tmp_path / "home" / "agents", name, "---\ndescription: Looks.\n---\n")
    model = scripted(
        Answer(when="look", text="seen"),
        Answer(when="start", calls=(spawn("look", "first", agent_type=name),)),
        Answer(when="agent_id", calls=(call("wait_agent"),)),
        Answer(text="ok", times=0),
    )
    async with open_thread(tmp_path, model, agents=FROM_FILES) as thread:
        assert last(await hear(thread, "start")).text == "ok"
        (child,) = await thread.subagents.agents()
        view = await load_view(thread.store, child.agent_id, thread.registry)
        keys = {json.loads(request.body)["prompt_cache_key"] for request in model.requests}
        assert keys == {thread.id, view.cache_key}
        assert view.cache_key.startswith(f"{thread.id}/")
        assert len(view.cache_key) <= 64


async def test_the_model_hears_of_files_by_difference_and_tools_keep_their_bytes(tmp_path: Path):
    model = scripted(Answer(text="ok", times=0))
    agents, project = tmp_path / "home" / "agents", tmp_path / "project"
    write(agents, "finder", "---\ndescription: Finds.\n---\n")
    file = write(project / ".treadle" / "agents", "reviewer", REVIEWER)
    async with open_thread(tmp_path, model, agents=FROM_FILES) as thread:
        await hear(thread, "one")
        first = thread.request()
        TrustStore(tmp_path / "home").trust(file)
        await hear(thread, "two")
        await hear(thread, "three")
        (agents / "finder.md").unlink()
        await hear(thread, "four")
        sent = thread.request().body
        (all_, new, gone_) = re.findall(r"<agent_types>(.*?)</agent_types>", sent.decode())
        assert "- finder: Finds.\\n" in all_
        assert "reviewer" not in all_, "nobody has trusted it"
        assert "- reviewer: Looks for bugs in a change.\\n" in new
        assert "finder" not in new
        assert gone_ == "\\nNo longer there: finder\\n"
        assert sent.startswith(first.body[: first.body.rindex(b"]")])
        gone = await thread.subagents.spawn(SpawnRequest(message="x", agent_type="finder"))
        assert gone == AgentRefusal("the agent_type 'finder' is gone; use another one")


async def test_a_project_file_that_changed_after_it_was_trusted_does_not_count(tmp_path: Path):
    file = write(tmp_path / "project" / ".treadle" / "agents", "reviewer", REVIEWER)
    TrustStore(tmp_path / "home").trust(file)
    async with open_thread(tmp_path, scripted(), agents=FROM_FILES) as thread:
        assert list(thread.subagents.kinds.look()) == ["reviewer"]
        file.write_text(REVIEWER + "And delete everything.\n")
        assert list(thread.subagents.kinds.look()) == []


async def test_bad_files_are_told_once_and_the_others_work(tmp_path: Path):
    agents = tmp_path / "home" / "agents"
    write(agents, "bad", "---\ntools: x\n---\n")
    write(agents, "finder", "---\ndescription: Finds.\n---\n")
    model = scripted(Answer(text="ok", times=0))
    async with open_thread(tmp_path, model, agents=FROM_FILES) as thread:
        events = [*await hear(thread, "one"), *await hear(thread, "two")]
        (notice,) = of(events, NoticeRaised)
        assert notice.text == (
            f"the agent file {agents / 'bad.md'} is left out: "
            "it has no description; add a line `description: …` to its header"
        )
        assert b"- finder: Finds." in thread.request().body


async def test_hosts_define_agents_and_what_cannot_be_followed_is_refused(tmp_path: Path):
    agents = AgentOptions(
        definitions=(
            AgentDefinition(name="other", description="Asks another.", model="openai:gpt-5.5"),
            AgentDefinition(name="eager", description="Thinks.", effort="turbo"),
        )
    )
    async with open_thread(tmp_path, scripted(), agents=agents) as thread:

        async def refusal(kind: str) -> str:
            answer = await thread.subagents.spawn(SpawnRequest(message="x", agent_type=kind))
            assert isinstance(answer, AgentRefusal)
            return answer.reason

        assert await refusal("othr") == "there is no agent_type 'othr'; did you mean 'other'?"
        assert "cannot be used: the model is the host's" in await refusal("other")
        assert "cannot be used: 'turbo' is no effort" in await refusal("eager")
        assert await thread.subagents.agents() == []


async def test_a_harness_with_tools_of_its_own_takes_no_definition_that_takes_tools_away(
    tmp_path: Path,
):
    agents = AgentOptions(
        definitions=(AgentDefinition(name="looker", description="Looks.", tools=("rights",)),)
    )
    async with Thread.open(
        model="openai:gpt-5.5", home=tmp_path / "home", cwd=tmp_path, harness="codex", agents=agents
    ) as thread:
        refused = await thread.subagents.spawn(SpawnRequest(message="x", agent_type="looker"))
        assert isinstance(refused, AgentRefusal)
        assert "the harness 'codex' has tools of its own, which cannot be taken away" in str(
            refused.reason
        )
        told = (await thread.preview("hello")).request
        assert b"- looker: Looks." in told.body
