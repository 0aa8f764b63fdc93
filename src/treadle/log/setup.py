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
from ..core.capability import offers
from ..core.entries import Head
from ..core.redact import blank_value, known_secrets
from ..core.specs import ToolSpec
from ..core.text import TruncationPolicy
from ..models.catalog import Catalog
from ..models.contract import Capabilities, DescribesModel, Model
from ..models.profile import ModelProfile
from ..prompt.executor_place import rights_there
from ..prompt.instructions import base_instructions
from ..prompt.kept_docs import KeptDocs
from ..prompt.machine import DocsRules, observe_machine, printable
from ..prompt.prompt_context import ExecutorFacts, PromptContext
from ..prompt.today import Clock

__all__ = ["RequestSetup"]


class RequestSetup(Struct, kw_only=True, eq=False):
    """What the requests of one thread are made with; it may change between turns."""

    catalog: Catalog
    model: str
    profile: ModelProfile
    """The facts about the model."""
    cwd: Path
    home: Path | None = None
    output_limit: int | None = None
    """Tokens of a tool's output that are kept; None for the model's own limit."""
    tools: tuple[ToolSpec, ...] = ()
    api: str = ""
    """The API that the model's connection speaks; empty for the provider's usual one."""
    capabilities: Capabilities | None = None
    """What that API takes; None before there is a connection."""
    choices: Choices = field(default_factory=Choices)
    finish_head: Callable[[Head], Head] | None = None
    """Applies the plan of the present attempt to a head."""
    instructions: str = "auto"
    """The base instructions that the user chose: a family, or the path of a text."""
    family: str = ""
    """The family of instructions and tools that was decided; empty before there is a plan."""
    settings: PromptContext = field(default_factory=lambda: PromptContext(cwd=""))
    """What fragments should say beyond what the machine shows."""
    tells_skills: bool = False
    """Whether the model hears of skills from us, so that a harness tells none of its own."""
    docs: DocsRules | None = None
    """How AGENTS.md files are found."""
    shell: str = "bash"
    """The shell that runs command lines."""
    clock: Clock | None = None
    """Says what day it is; None where no date is told."""
    executor: ExecutorFacts | None = None
    """Where tools act; None for this machine."""
    extend_context: Callable[[PromptContext], PromptContext] = lambda context: context
    """Adds what only the running thread knows to what fragments see."""
    _docs: KeptDocs = field(default_factory=KeptDocs)
    _head: tuple[tuple[object, ...], Head] | None = None
    """The newest head, and all that it was made of."""

    def use_model(self, name: str) -> None:
        """Ask this model from now on."""
        self.model = self.catalog.full_name(name)
        self.profile = self.catalog.profile(self.model)

    @property
    def rights(self) -> PromptContext:
        """The settings, as they hold where tools act."""
        return rights_there(msgspec.structs.replace(self.settings, executor=self.executor))

    @property
    def workspace(self) -> Path:
        """The thread's directory, as it is called where tools act."""
        there = self.executor.workspace if self.executor else ""
        return Path(there) if there else Path(self.cwd)

    @property
    def truncation(self) -> TruncationPolicy:
        """How much of a tool's output is kept, by tools and in the log alike."""
        return self.profile.truncation_policy(self.output_limit)

    @property
    def takes_freeform(self) -> bool:
        """Whether freeform tools can be offered; other APIs' formats write them as functions."""
        able = self.capabilities
        return able is None or able.freeform_tools or self.api != "responses"

    @property
    def takes_images(self) -> bool:
        """Whether images can be sent; a model that says nothing of itself takes them."""
        return self.capabilities is None or self.capabilities.images

    @property
    def takes_deferred(self) -> bool:
        """Whether the provider has a form of its own for tools that a search finds."""
        return self.capabilities is not None and self.capabilities.deferred_tools

    @property
    def offers_by(self) -> tuple[ModelProfile, bool, bool, bool]:
        """What decides which of the tools there are can be offered, and in which form."""
        return self.profile, self.takes_freeform, self.takes_images, self.takes_deferred

    def connect_to(self, model: Model) -> None:
        """Make requests as `model` takes them, by its API and what it says of itself."""
        self.api, self.capabilities = model.format.name, model.capabilities
        if offers(model, DescribesModel) and (facts := model.metadata):
            self.profile = self.catalog.profile(self.model, facts)

    async def observe(self) -> PromptContext:
        """Return what fragments would see now."""
        return await asyncio.to_thread(self.observe_blocking)

    def observe_blocking(self) -> PromptContext:
        """Return what fragments would see now. Blocks on files."""
        profile = self.profile
        settings = msgspec.structs.replace(
            self.rights,
            model=profile.slug,
            model_instructions=self._base_instructions(),
        )
        seen = observe_machine(
            self.cwd,
            settings=settings,
            home=self.home,
            rules=self.docs,
            open_file=self.open_file,
            shell=self.executor.shell if self.executor else self.shell,
            clock=self.clock,
            find_docs=self._docs.discover,
        )
        if self.executor is not None:
            seen = msgspec.structs.replace(seen, cwd=printable(self.workspace))
        return self.extend_context(seen)

    def open_file(self, path: Path) -> io.BufferedReader:
        """Open a file for the model; what is hidden from commands stays hidden."""
        from ..sandbox.reading import open_for_model  # many threads read no file

        return open_for_model(self.cwd, self.home, path)

    async def head(self, before: Head | None) -> Head:
        """Return the head that is asked for; instructions never change within a thread."""
        if before is not None:
            head = self.head_with(before.instructions, before.refused_images)
            if self._head is not None and head is not before and head == before:
                self._head = self._head[0], before  # one is enough, and threads share it
            return head
        return self.head_with(await asyncio.to_thread(self._base_instructions))

    def _base_instructions(self) -> str:
        """Return the text that a thread begins with. Blocks on files."""
        chosen = self.instructions
        if chosen == "auto" and "small" in (self.family, self.profile.family):
            chosen = self.family or "auto"
        return base_instructions(self.profile, self.home, chosen)

    def head_with(self, instructions: str, refused_images: tuple[str, ...] = ()) -> Head:
        """Return the head that is asked for, with these instructions."""
        choices = (self.profile, self.tools, self.choices, self.api, self.finish_head)
        made_of = (instructions, refused_images, *choices, known_secrets())
        if self._head is None or self._head[0] != made_of:
            head = build_head(
                self.profile,
                instructions=instructions,
                tools=self.tools,
                choices=self.choices,
                api=self.api,
            )
            head = head if self.finish_head is None else self.finish_head(head)
            head = msgspec.structs.replace(head, refused_images=refused_images)
            self._head = made_of, blank_value(head)
        return self._head[1]
