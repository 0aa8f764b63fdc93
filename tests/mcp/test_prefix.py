"""Thirty turns with servers and skills that come, go and change; not one unexplained break."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from tests.harness.scenes import call, hear, last, open_thread, scripted
from tests.skills.scenes import write_skill
from treadle import SkillRules
from treadle.core.entries import Epoch, Reason
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions

from .scenes import OwnServer, servers_of

TURNS = 30
PAGE = Path(__file__).parents[2] / "docs/mcp.md"


def described(server: str, number: int, edition: int = 0) -> dict[str, object]:
    """A tool as servers have them: a few sentences and a handful of parameters."""
    about = f"Handles case {number} of {server}, edition {edition}. " + "It explains itself. " * 8
    fields = {
        f"field_{each}": {"type": "string", "description": f"What field {each} of the case holds."}
        for each in range(6)
    }
    schema = {"type": "object", "properties": fields, "required": ["field_0"]}
    return {"name": f"handle_{number}", "description": about, "inputSchema": schema}


def tools(server: str, count: int = 40, edition: int = 0) -> list[object]:
    return [*(described(server, each, edition) for each in range(count - 2)), "changes", "die"]


def answers(turn: int) -> list[Answer]:
    """What the model does in a turn: it searches, calls, or only talks."""
    name = "abc"[turn % 3]
    match turn % 5:
        case 0:
            return [Answer(calls=(call("tool_search", query=f"case {turn} of {name}", limit=2),))]
        case 1:
            named = {"name": f"mcp__{name}__changes", "arguments": {"text": "x"}}
            return [Answer(calls=(call("tool_call", **named),))]
        case 2 if turn % 10 == 2:
            return [Answer(calls=(call("tool_call", name="mcp__c__die", arguments={}),))]
        case _:
            return []


def change_skills(place: Path, turn: int) -> str:
    """Install, edit and remove skills; return what the user says besides in this turn."""
    if turn in (2, 8, 14, 20, 26):
        write_skill(place, f"skill-{turn // 12}", body=f"Do it as on turn {turn}.")
    if turn == 23:
        (place / "skill-0" / "SKILL.md").unlink()
    return {5: " by $skill-0", 9: " by $skill-0", 16: " by $skill-1", 28: " by $skill-2"}.get(
        turn, ""
    )


async def test_thirty_turns_with_changing_servers_and_skills_break_no_prefix(tmp_path):
    own = {
        name: OwnServer(tmp_path, name, tools=tools(name), instructions=f"{name}!")
        for name in "abc"
    }
    own["b"].change(modern=True)
    script = [
        each for turn in range(TURNS) for each in (*answers(turn), Answer(text=f"turn {turn}"))
    ]
    bodies: list[bytes] = []
    name = None
    skills = SkillRules(user=False, packages=False, directories=(str(tmp_path / "skills"),))
    # Restarted after ten turns each; the second time without `b`, the third with a new `d`.
    spans = [("abc", range(10)), ("ac", range(10, 20)), ("abcd", range(20, TURNS))]
    own["d"] = OwnServer(tmp_path, "d", tools=["echo"])
    for there, turns in spans:
        model = scripted(*script[len(bodies) :])
        async with (
            servers_of(tmp_path, *(own[each] for each in there)) as servers,
            open_thread(
                tmp_path,
                model,
                thread=name,
                tools=ToolOptions(tools=(), mcp=servers),
                skills=skills,
            ) as thread,
        ):
            name = thread.id
            for turn in turns:
                if turn % 4 == 3:
                    own["a"].change(tools=tools("a", 40 + turn % 3, turn))
                if turn == 12:
                    own["c"].change(dead=True)
                if turn == 17:
                    own["c"].change(dead=False)
                also = change_skills(tmp_path / "skills", turn)
                assert last(await hear(thread, f"turn {turn}{also}")).status == "completed"
            entries = await thread.store.read(thread.id)
            bodies += [each.body for each in model.requests]
    assert len(bodies) == len(script)
    for before, after in pairwise(bodies):
        assert after.startswith(before.removesuffix(b"]}"))
    told_of_skills = bodies[-1].decode()
    for turn in (2, 8, 14, 26):  # each text that was called, as it was then
        assert f"Do it as on turn {turn}." in told_of_skills
    for word in ("Added:", "Changed; a text", "Gone:"):
        assert word in told_of_skills
    controls = [each.control for each in entries if each.kind == "epoch"]
    assert [each.reason for each in controls if isinstance(each, Epoch)] == [Reason.START]
    everything = sum(len(json.dumps(each)) for server in "abc" for each in tools(server))
    told = sizes(bodies, everything)
    assert told["all in the prefix"][0] > 8 * told["deferred"][0]
    for label, (first, final) in told.items():
        row = f"| {label} | {round(first, -4) // 1000} kB | {round(final, -4) // 1000} kB |"
        assert row in PAGE.read_text(encoding="utf-8"), told


def sizes(bodies: list[bytes], everything: int) -> dict[str, tuple[int, int]]:
    """Bytes of the first and the last request, as they are and with all tools in each."""
    first, final = len(bodies[0]), len(bodies[-1])
    return {
        "deferred": (first, final),
        "all in the prefix": (first + everything, final + everything),
    }
