"""The skills of a thread: the list that its model is told, and the texts that enter it.

Owns when a body is sent and when a note stands for it. Invariants: what the model has is read
from the view, so that resume, fork, rollback and compaction need no bookkeeping; the same text
never stands in a view twice; the user is told once of what keeps a skill from being used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..context.skill_texts import skill_texts
from ..core.items import Message, text_of
from ..core.provenance import InputProvenance
from ..core.typed import decode_json
from ..prompt.fragment import Fragment
from ..prompt.prompt_context import ListedSkill
from ..prompt.skill_fragments import SkillAgain, SkillsState, loaded_note
from ..prompt.state_fragment import Known
from .catalogue import build_catalogue
from .discovery import FoundSkills
from .skill_file import SkillFile, short_digest
from .skill_library import SkillLibrary, SkillRefusal

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog

__all__ = ["ThreadSkills"]


class ThreadSkills:
    """What one thread does with skills."""

    def __init__(self, log: ThreadLog, library: SkillLibrary, warn: Callable[[str], None]) -> None:
        self.library = library
        self._log = log
        self._warn = warn
        self._warned: set[str] = set()

    def look(self) -> FoundSkills:
        """Return the skills that there are now. Blocks on files."""
        return self.library.look(self._log.setup.cwd)

    def listed(self) -> tuple[ListedSkill, ...]:
        """Return what the model is told of them. Blocks on files."""
        window = self._log.setup.profile.effective_window
        catalogue = build_catalogue(self.look().skills, window)
        if catalogue.left_out:
            self._tell(
                f"{len(catalogue.left_out)} skills are not listed for the model, because all "
                f"together take more than {catalogue.budget:,} tokens; disable some in [skills]"
            )
        return catalogue.listed

    async def called_by(
        self, message: Message, provenance: InputProvenance | None
    ) -> tuple[Fragment, ...]:
        """Return the texts of the skills that a message of the user's calls."""
        if provenance is not None and provenance.kind != "external_user":
            return ()
        text = text_of(message.content)
        if "$" not in text and not text.lstrip().startswith("/"):
            return ()
        return await asyncio.to_thread(self._called_by, text)

    def _called_by(self, text: str) -> tuple[Fragment, ...]:
        from .mentioned_skills import mentioned_names  # most messages call no skill

        found = self.look()
        waiting = {each.skill.name.casefold() for each in found.untrusted}
        known = {each.name.casefold() for each in found.skills} | waiting
        fragments: list[Fragment] = []
        for name in mentioned_names(text, lambda name: name.casefold() in known):
            skill = self.library.load(self._log.setup.cwd, name)
            if isinstance(skill, SkillRefusal):
                self._tell(skill.reason)
            else:
                fragments.append(self._fragment(skill))
        return tuple(fragments)

    async def load(self, name: str) -> str | SkillRefusal:
        """Return the text of a skill for the model that asks for it, or a note."""
        return await asyncio.to_thread(self._load, name)

    def _load(self, name: str) -> str | SkillRefusal:
        skill = self.library.load(self._log.setup.cwd, name)
        if isinstance(skill, SkillRefusal):
            return skill
        if not skill.for_model:
            return SkillRefusal(f"only the user can call the skill {name!r}")
        if self._is_in_view(skill):
            return loaded_note(skill.name)
        changed = self._has_changed(skill)
        return skill.fragment(changed=changed).render(self._log.registry.vocabulary)

    def _fragment(self, skill: SkillFile) -> Fragment:
        if self._is_in_view(skill):
            return SkillAgain(skill.name)
        return skill.fragment(changed=self._has_changed(skill))

    def _is_in_view(self, skill: SkillFile) -> bool:
        digest = short_digest(skill.digest)
        found = skill_texts(self._log.view.rows)
        return any((each.name, each.digest) == (skill.name, digest) for each in found)

    def _has_changed(self, skill: SkillFile) -> bool:
        """Return whether the model was told of another state of the file."""
        known = self._log.view.baselines.get(SkillsState.id)
        if not isinstance(known, Known):
            return False
        told: Sequence[ListedSkill] = decode_json(known.snapshot, SkillsState.snapshot_type | None)
        digests = {each.name: each.digest for each in told or ()}
        return digests.get(skill.name, short_digest(skill.digest)) != short_digest(skill.digest)

    def _tell(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)
