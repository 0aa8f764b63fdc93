"""The header of an agent file: what its keys mean, also those of Claude Code.

Owns the way from text to a definition. Invariants: a key that would take something away from
an agent is never passed over; whatever is refused is named, with what is accepted.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from ..config.prompt_files import HeaderValue, PromptFile
from ..core.choices import near_hint
from ..prompt.prompt_context import MODES
from .definition import AgentDefinition, NarrowedSandbox

__all__ = ["MOST_INSTRUCTIONS", "read_definition"]

MOST_INSTRUCTIONS = 32 << 10
"""Bytes of the instructions of one agent."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TOOL = re.compile(r"[A-Za-z][\w.:/-]{0,127}")
_KEYS = (
    "name",
    "description",
    "model",
    "effort",
    "tools",
    "without",
    "sandbox",
    "network",
    "mode",
    "worktree",
)
_UNREAD = frozenset(
    ("background", "color", "mcpservers", "memory", "permissionmode", "skills", "initialprompt")
)
"""Keys of Claude Code that take nothing away from an agent."""
_INHERITED = frozenset(("inherit", "sonnet", "opus", "haiku", "fable"))
"""Names that models have there; they mean the parent's model."""
_READING = ("exec_command", "view_image")
_TOOLS = {
    "Bash": ("exec_command",),
    "Read": _READING,
    "Grep": _READING,
    "Glob": _READING,
    "LS": _READING,
    "Edit": ("apply_patch",),
    "MultiEdit": ("apply_patch",),
    "Write": ("apply_patch",),
    "NotebookEdit": ("apply_patch",),
    "TodoWrite": ("update_plan",),
    "Task": ("spawn_agent", "send_input", "wait_agent", "list_agents", "interrupt_agent"),
}
"""Tools of Claude Code, and ours that do the same."""
_ONLY_READING = frozenset(name for name, ours in _TOOLS.items() if ours is _READING)
_WRITING = frozenset(("Bash", "Edit", "MultiEdit", "Write", "NotebookEdit"))


def read_definition(file: PromptFile) -> AgentDefinition:
    """Return what a file says. Raises `ValueError`."""
    try:
        file.body.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8; save it as UTF-8") from None
    said = _known_keys(file.header)
    name = _text(said, "name") or file.name
    if not _NAME.fullmatch(name) or name == "default":
        raise ValueError(
            f"{name!r} is no name for an agent; use up to 32 small letters, digits, - and _, "
            "a letter first, and not 'default'"
        )
    description = " ".join(_text(said, "description").split())
    if not description:
        raise ValueError("it has no description; add a line `description: …` to its header")
    if len(file.prompt.encode()) > MOST_INSTRUCTIONS:
        raise ValueError(f"its instructions have more than {MOST_INSTRUCTIONS:,} bytes; cut them")
    model, tools = _text(said, "model"), _names(said, "tools")
    return AgentDefinition(
        name=name,
        description=description,
        instructions=file.prompt,
        model=None if model in _INHERITED else model or None,
        effort=_text(said, "effort") or None,
        tools=None if tools is None else _translate(tools),
        without=_translate(_names(said, "without") or ()),
        sandbox=_sandbox(said, tools or ()),
        network=_flag(said, "network", usual=True),
        mode=_choice(said, "mode", MODES) or "default",
        worktree=_flag(said, "worktree", usual=False),
    )


def _known_keys(header: dict[str, HeaderValue]) -> dict[str, HeaderValue]:
    """Return the header by our names of its keys. Raises `ValueError` for unknown ones."""
    said: dict[str, HeaderValue] = {}
    for key, value in header.items():
        match key.lower().replace("-", "").replace("_", ""):
            case "disallowedtools":
                said["without"] = value
            case "isolation" if value == "worktree":
                said["worktree"] = "true"
            case known if known in _KEYS:
                said[known] = value
            case unread if unread not in _UNREAD:
                hint = near_hint(key, _KEYS)
                raise ValueError(f"its key {key!r} is unknown; {hint}known are {_commas(_KEYS)}")
    return said


def _text(said: dict[str, HeaderValue], key: str) -> str:
    value = said.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"its {key} is a list; write one value")  # noqa: TRY004 - of a file
    return value


def _names(said: dict[str, HeaderValue], key: str) -> tuple[str, ...] | None:
    """Return a list of tools; None where there is none, or all are meant."""
    value = said.get(key)
    if value is None or value in ("", "*"):
        return None
    names = value.split(",") if isinstance(value, str) else value
    names = tuple(_bare_name(each.strip()) for each in names if each.strip())
    for name in names:
        if not _TOOL.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a tool; write names with commas between them")
    return names


def _bare_name(tool: str) -> str:
    """Return a tool's name without what Claude Code allows it for, as in ``Bash(git log)``."""
    return tool.partition("(")[0] if tool.endswith(")") else tool


def _translate(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that our tools have, each once."""
    ours = [our for name in names for our in _TOOLS.get(name, (name,))]
    return tuple(dict.fromkeys(ours))


def _sandbox(said: dict[str, HeaderValue], tools: tuple[str, ...]) -> NarrowedSandbox | None:
    """Return the sandbox: read-only too where tools of Claude Code's can only read."""
    given: Any = _choice(said, "sandbox", get_args(NarrowedSandbox))
    only_reads = not _ONLY_READING.isdisjoint(tools) and _WRITING.isdisjoint(tools)
    return given or ("read-only" if only_reads else None)


def _choice(said: dict[str, HeaderValue], key: str, accepted: tuple[str, ...]) -> str | None:
    value = _text(said, key)
    if value and value not in accepted:
        hint = near_hint(value, accepted)
        raise ValueError(f"its {key} is {value!r}; {hint}accepted are {_commas(accepted)}")
    return value or None


def _flag(said: dict[str, HeaderValue], key: str, *, usual: bool) -> bool:
    value = _choice(said, key, ("true", "false"))
    return usual if value is None else value == "true"


def _commas(names: tuple[str, ...]) -> str:
    return ", ".join(names)
