"""Agent definitions: kinds of agents that users and hosts describe.

Owns what a definition says, and how it narrows what an agent gets from its parent. Invariant:
a definition takes rights and tools away and never adds any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..prompt.prompt_context import PromptContext, SandboxMode, named_mode

__all__ = ["AgentDefinition", "NarrowedSandbox"]

NarrowedSandbox: TypeAlias = Literal["read-only", "workspace-write"]

_ORDER: tuple[SandboxMode, ...] = (
    "read-only",
    "workspace-write",
    "danger-full-access",
    "external-sandbox",
)
"""The sandboxes from the narrowest to the widest."""

_COMMANDS = frozenset({"exec_command", "write_stdin", "shell", "shell_command", "local_shell"})
"""Tools that run commands. A model has the ones that it knows."""
_ALWAYS = frozenset({"read_output"})
"""Reads what the agent's own calls have returned."""


class AgentDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of agent: what it is for, its instructions, and its share of its parent's rights."""

    name: str
    """What `spawn_agent` calls it: small letters, digits, ``-`` and ``_``."""
    description: str
    """When to start it; the model reads this."""
    instructions: str = ""
    """What the agent is told beside the instructions that every agent has."""
    model: str | None = None
    """The model that it asks; None for its parent's."""
    effort: str | None = None
    tools: tuple[str, ...] | None = None
    """The only tools that it has, of those of its parent; None for all of them."""
    without: tuple[str, ...] = ()
    """Tools that it does not have."""
    sandbox: NarrowedSandbox | None = None
    """Its sandbox, where its parent's is wider."""
    network: bool = True
    """False takes the network away."""
    mode: str = "default"
    """``plan`` for an agent that changes nothing."""
    worktree: bool = False
    """Whether it works in a git worktree of its own."""

    def allows(self, tool: str) -> bool:
        """Return whether the agent has this tool, if its parent has it."""
        if tool in _family(self.without):
            return False
        return self.tools is None or tool in _ALWAYS or tool in _family(self.tools)

    def narrow(self, settings: PromptContext) -> PromptContext:
        """Return the settings of the parent, with no more rights, as the agent gets them."""
        # Without a sandbox nobody could keep the network away.
        widest = self.sandbox or (_ORDER[-1] if self.network else "workspace-write")
        mode = min(settings.sandbox_mode, widest, key=_ORDER.index)
        narrowed = msgspec.structs.replace(settings, sandbox_mode=mode)
        if not self.network:
            narrowed = msgspec.structs.replace(narrowed, network_access=False, network_hosts=())
        if self.mode != "default":
            narrowed = msgspec.structs.replace(narrowed, collaboration_mode=named_mode(self.mode))
        told = (settings.developer_instructions, self.instructions)
        joined = "\n\n".join(each for each in told if each and each.strip())
        return msgspec.structs.replace(narrowed, developer_instructions=joined or None)


def _family(names: Iterable[str]) -> frozenset[str]:
    """Return names with all tools that run commands, where one of those is among them."""
    chosen = frozenset(names)
    return chosen | _COMMANDS if chosen & _COMMANDS else chosen
