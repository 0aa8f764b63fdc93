"""The tool `skill`: by it a model reads a skill before it does what the skill is for.

Owns what the model is told of it. Invariant: its specification is the same bytes whichever
skills there are, so that installing one changes no prefix.
"""

# No postponed annotations: tools are made of them, and parsing them from text is slow.

from typing import Annotated, Protocol

from msgspec import Meta

from ..tools.contract import Tool, ToolResult
from ..tools.decorator import tool
from .skill_library import SkillRefusal

__all__ = ["LoadsSkills", "skill_tool"]


class LoadsSkills(Protocol):
    """Returns the text of a skill."""

    async def load(self, name: str) -> str | SkillRefusal:
        """Return what the model reads of a skill, or why it cannot be used."""
        ...


def skill_tool(skills: LoadsSkills) -> Tool:
    """Return the tool that loads the text of a skill."""

    async def skill(
        name: Annotated[str, Meta(min_length=1, max_length=64, description="A listed name.")],
    ) -> ToolResult:
        loaded = await skills.load(name.strip().removeprefix("$").removeprefix("/"))
        if isinstance(loaded, SkillRefusal):
            return ToolResult(f"skill failed: {loaded.reason}", success=False)
        return ToolResult(loaded)

    return tool(description="Load the instructions of a skill.", parallel=True, replay_safe=True)(
        skill
    )
