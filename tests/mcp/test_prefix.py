"""Thirty turns with servers and skills that come, go and change; not one unexplained break."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
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


class Life:
    """A thread of thirty turns, with all that happens around it."""

    def __init__(self, place: Path, direct: int) -> None:
        self.place, self.direct = place, direct
        place.mkdir()
        self.bodies: list[bytes] = []
        self.reasons: list[Reason] = []
        self.own = {
            name: OwnServer(place, name, tools=tools(name), instructions=f"{name}!")
            for name in "abc"
        }
        self.own["b"].change(modern=True)
        self.own["d"] = OwnServer(place, "d", tools=["echo"])

    async def live(self) -> None:
        """Go through the turns, with two restarts."""
        script = [
            each for turn in range(TURNS) for each in (*answers(turn), Answer(text=f"turn {turn}"))
        ]
        name = None
        skills = SkillRules(user=False, packages=False, directories=(str(self.place / "skills"),))
        # Restarted after ten turns each; the second time without `b`, the third with a new `d`.
        spans = [("abc", range(10)), ("ac", range(10, 20)), ("abcd", range(20, TURNS))]
        for there, turns in spans:
            model = scripted(*script[len(self.bodies) :])
            own = [self.own[each] for each in there]
            async with (
                servers_of(self.place, *own, direct_tools=self.direct) as servers,
                open_thread(
                    self.place,
                    model,
                    thread=name,
                    tools=ToolOptions(tools=(), mcp=servers),
                    skills=skills,
                ) as thread,
            ):
                name = thread.id
                for turn in turns:
                    also = self.change(turn)
                    assert last(await hear(thread, f"turn {turn}{also}")).status == "completed"
                entries = await thread.store.read(thread.id)
                self.bodies += [each.body for each in model.requests]
        assert len(self.bodies) == len(script)
        controls = [each.control for each in entries if each.kind == "epoch"]
        self.reasons = [each.reason for each in controls if isinstance(each, Epoch)]

    def change(self, turn: int) -> str:
        """Change servers and skills before a turn; return what the user says besides."""
        if turn % 4 == 3:
            self.own["a"].change(tools=tools("a", 40 + turn % 3, turn))
        if turn == 12:
            self.own["c"].change(dead=True)
        if turn == 17:
            self.own["c"].change(dead=False)
        return change_skills(self.place / "skills", turn)

    @property
    def breaks(self) -> int:
        """How many requests do not begin with the one before."""
        return sum(
            not after.startswith(before.removesuffix(b"]}"))
            for before, after in pairwise(self.bodies)
        )

    def row(self, label: str, breaks: str) -> str:
        """Return the row of the page that tells what was sent."""
        first, total = round(len(self.bodies[0]), -4), sum(map(len, self.bodies))
        return f"| {label} | {first // 1000} kB | {ceil(total / 1e6)} MB | {breaks} |"


async def test_thirty_turns_with_changing_servers_and_skills_break_no_prefix(tmp_path):
    deferred, direct = Life(tmp_path / "deferred", 10), Life(tmp_path / "direct", 1_000)
    await deferred.live()
    assert deferred.breaks == 0
    told_of_skills = deferred.bodies[-1].decode()
    for turn in (2, 8, 14, 26):  # each text that was called, as it was then
        assert f"Do it as on turn {turn}." in told_of_skills
    for word in ("Added:", "Changed; a text", "Gone:"):
        assert word in told_of_skills
    assert deferred.reasons == [Reason.START]
    # The same life with every tool in every request. How many of the changed lists are seen
    # before the next turn begins is a matter of time; each of them is one break, and explained.
    await direct.live()
    start, *breaks = direct.reasons
    assert (start, set(breaks)) == (Reason.START, {Reason.TOOLS})
    assert direct.breaks == len(breaks)
    page = PAGE.read_text(encoding="utf-8")
    for row in (
        deferred.row("deferred", "none"),
        direct.row("all in the prefix", "one for each change that is seen"),
    ):
        assert row in page, row
