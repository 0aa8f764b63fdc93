"""Request setup: what the next request of a thread starts with, besides its items.

Owns the model, the tools, the choices and the settings that fragments tell. Invariant: the
same setup and the same view give the same head, without known secrets.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ..context.head import Choices, build_head
from ..core.entries import Head
from ..core.redact import blank_value, known_secrets
from ..core.specs import ToolSpec
from ..models.catalog import Catalog
from ..models.profile import ModelProfile
from ..prompt.instructions import base_instructions
from ..prompt.machine import DocsRules, observe_machine
from ..prompt.prompt_context import PromptContext

__all__ = ["RequestSetup"]


class RequestSetup(Struct, kw_only=True, eq=False):
    """What the requests of one thread are made with; it may change between turns."""

    catalog: Catalog
    model: str
    profile: ModelProfile
    """The facts about the model."""
    cwd: Path
    home: Path | None = None
    tools: tuple[ToolSpec, ...] = ()
    api: str = ""
    """The API that the model's connection speaks; empty for the provider's usual one."""
    choices: Choices = field(default_factory=Choices)
    finish_head: Callable[[Head], Head] | None = None
    """Applies the plan of the present attempt to a head."""
    settings: PromptContext = field(default_factory=lambda: PromptContext(cwd=""))
    """What fragments should say beyond what the machine shows."""
    docs: DocsRules | None = None
    """How AGENTS.md files are found."""
    extend_context: Callable[[PromptContext], PromptContext] = lambda context: context
    """Adds what only the running thread knows to what fragments see."""
    _head: tuple[tuple[object, ...], Head] | None = None
    """The newest head, and all that it was made of."""

    def use_model(self, name: str) -> None:
        """Ask this model from now on."""
        self.model, self.profile = name, self.catalog.profile(name)

    async def observe(self) -> PromptContext:
        """Return what fragments would see now."""
        return await asyncio.to_thread(self.observe_blocking)

    def observe_blocking(self) -> PromptContext:
        """Return what fragments would see now. Blocks on files."""
        profile = self.profile
        settings = msgspec.structs.replace(
            self.settings,
            model=profile.slug,
            model_instructions=base_instructions(profile, self.home),
        )
        seen = observe_machine(
            self.cwd,
            settings=settings,
            home=self.home,
            rules=self.docs,
            open_file=self.open_file,
        )
        return self.extend_context(seen)

    def open_file(self, path: Path) -> io.BufferedReader:
        """Open a file for the model; what is hidden from commands stays hidden."""
        from ..sandbox.reading import open_for_model  # many threads read no file

        return open_for_model(self.cwd, self.home, path)

    async def head(self, before: Head | None) -> Head:
        """Return the head that is asked for; instructions never change within a thread."""
        if before is not None:
            return self.head_with(before.instructions)
        return self.head_with(await asyncio.to_thread(base_instructions, self.profile, self.home))

    def head_with(self, instructions: str) -> Head:
        """Return the head that is asked for, with these instructions."""
        choices = (self.model, self.tools, self.choices, self.api, self.finish_head)
        made_of = (instructions, *choices, known_secrets())
        if self._head is None or self._head[0] != made_of:
            head = build_head(
                self.profile,
                instructions=instructions,
                tools=self.tools,
                choices=self.choices,
                api=self.api,
            )
            head = head if self.finish_head is None else self.finish_head(head)
            self._head = made_of, blank_value(head)
        return self._head[1]
