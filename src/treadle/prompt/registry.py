"""The registry: which fragments exist, in which order states are sent, what a text is.

Owns the built-in fragments, registration and recognition. Invariants: ids and markers are
unique; every user-role fragment can be distinguished from what a person typed; developer
instructions and permissions come first, and of the user-role states AGENTS.md first and the
environment second.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ..core.errors import FragmentError
from ..core.items import InputText, Item, Message
from ..core.plugins import PluginGroup
from .additional_context import AdditionalContextState
from .agent_types import AgentTypesState
from .announcements import (
    AnswerMisfit,
    HookContext,
    ImportedContext,
    ProviderItem,
    RepeatedCall,
    SubagentNotification,
    TurnAborted,
    Unanswered,
    UnreadableCall,
    UserShellCommand,
)
from .engine_fragments import GuidanceState, History, Recall
from .executor_place import ExecutorState
from .fragment import Fragment, check_apart, check_fragment, has_own_matcher
from .legacy import LEGACY, Recogniser
from .markers import Vocabulary
from .mcp_servers import FoundToolsState, McpServersState
from .signals import InterSession, InterSessionEnd, TaskCompletion
from .skill_fragments import Skill, SkillAgain, SkillsState
from .standing_instructions import (
    AgentsMdState,
    CollaborationState,
    DeveloperInstructionsState,
    OverlaySuffixState,
    PersonalityState,
)
from .state_fragment import StateFragment
from .thread_state import ModelState, SubagentsState, TaskState
from .window_use import WindowUseState
from .working_environment import EnvironmentState, PermissionsState

__all__ = [
    "ANNOUNCEMENTS",
    "STATES",
    "Registrable",
    "Registry",
    "builtin_vocabulary",
    "default_registry",
    "installed_registry",
]

_FRAGMENTS = PluginGroup("treadle.fragments", "fragment")
"""Packages offer fragments, or lists of them."""

_RESERVED = frozenset(
    {"assistant", "compaction", "developer", "message", "summary", "system", "tool", "user"}
)
_ID = r"[a-z][a-z0-9_.-]{0,63}"

Registrable: TypeAlias = type[Fragment] | StateFragment[Any] | type[StateFragment[Any]]
"""A fragment class, or a state fragment with its fragment classes."""

STATES: tuple[type[StateFragment[Any]], ...] = (
    DeveloperInstructionsState,
    PermissionsState,
    ModelState,
    PersonalityState,
    CollaborationState,
    GuidanceState,
    OverlaySuffixState,
    SkillsState,
    AgentsMdState,
    EnvironmentState,
    ExecutorState,
    AgentTypesState,
    SubagentsState,
    McpServersState,
    AdditionalContextState,
    TaskState,
    FoundToolsState,
    WindowUseState,
)
"""Lasting context, sent by difference."""

ANNOUNCEMENTS: tuple[type[Fragment], ...] = (
    Skill,
    SkillAgain,
    UserShellCommand,
    TurnAborted,
    AnswerMisfit,
    UnreadableCall,
    RepeatedCall,
    Unanswered,
    SubagentNotification,
    InterSession,
    InterSessionEnd,
    TaskCompletion,
    HookContext,
    Recall,
    History,
    ImportedContext,
    ProviderItem,
)
"""Fragments that are sent once, when something happens."""


class Registry:
    """The fragments of one runtime."""

    def __init__(self) -> None:
        self._fragments: dict[str, type[Fragment]] = {}
        self._states: dict[str, StateFragment[Any]] = {}
        self._owners: dict[str, str] = {}
        self._recognisers: dict[str, Recogniser] = {}
        self._vocabulary: Vocabulary | None = None
        self._by_role: dict[str, tuple[tuple[type[Fragment], ...], tuple[type[Fragment], ...]]] = {}
        self._openings: dict[str, re.Pattern[str]] = {}
        self._by_opening: dict[str, dict[str, tuple[Recogniser, ...]]] = {}

    @property
    def fragments(self) -> tuple[type[Fragment], ...]:
        """Every fragment class, in the order of registration."""
        return tuple(self._fragments.values())

    @property
    def added(self) -> tuple[type[Fragment], ...]:
        """The fragment classes that are not built in, in the order of registration."""
        known = set(_built_in().fragments)
        return tuple(cls for cls in self._fragments.values() if cls not in known)

    @property
    def states(self) -> tuple[StateFragment[Any], ...]:
        """Every state fragment, in the order in which they are sent and were registered."""
        return tuple(self._states.values())

    @property
    def vocabulary(self) -> Vocabulary:
        """The markers that no data may imitate."""
        if self._vocabulary is None:
            own = [cls.markers for cls in self._fragments.values()]
            read = [recogniser.reserved_markers() for recogniser in self._recognisers.values()]
            self._vocabulary = Vocabulary.of(m for m in (*own, *read) if m is not None)
        return self._vocabulary

    def register(self, *offers: Registrable) -> None:
        """Register fragment classes, or states with their fragment classes.

        Raises `FragmentError` and registers nothing of an offer that does not fit.
        """
        for offer in offers:
            if isinstance(offer, StateFragment):
                self._register_state(offer)
            elif isinstance(offer, type) and issubclass(offer, StateFragment):
                self._register_state(offer())
            elif isinstance(offer, type) and issubclass(offer, Fragment):
                self._check(offer, self._fragments)
                self._add({offer.id: offer})
            else:
                raise FragmentError(
                    f"{offer!r} is neither a Fragment class nor a StateFragment; register one"
                )

    def check(self, fragment: Fragment) -> None:
        """Raise `FragmentError` for a fragment that nobody could tell from a person's words."""
        cls = type(fragment)
        if self._fragments.get(cls.id) is not cls:
            check_fragment(cls)

    def copy(self) -> Registry:
        """Return an independent registry with the same fragments."""
        copied = Registry()
        copied._fragments, copied._states = {**self._fragments}, {**self._states}
        copied._owners, copied._recognisers = {**self._owners}, {**self._recognisers}
        copied._vocabulary = self.vocabulary
        return copied

    def register_trusted(
        self, states: Iterable[type[StateFragment[Any]]], classes: Iterable[type[Fragment]]
    ) -> None:
        """Register built-in fragments without checks."""
        for state in (make() for make in states):
            self._states[state.id] = state
            own = {cls.id: cls for cls in state.fragments}
            self._owners.update(dict.fromkeys(own, state.id))
            self._add(own)
        self._add({cls.id: cls for cls in classes})

    def register_recogniser(self, recogniser: Recogniser) -> None:
        """Register a recogniser of texts from another system."""
        if recogniser.id in self._fragments or recogniser.id in self._recognisers:
            raise FragmentError(f"fragment id {recogniser.id!r} is taken; choose another")
        self._recognisers[recogniser.id] = recogniser
        self._vocabulary = None
        self._by_opening.clear()

    def load_entry_points(self) -> tuple[str, ...]:
        """Register what installed packages offer; return the names of their entry points.

        Raises `FragmentError` for a package that cannot be used.
        """
        return _FRAGMENTS.use_all(lambda found: self.register(*_offers(found)), FragmentError)

    def recognise(self, role: str, text: str) -> str | None:
        """Return the id of the fragment that an imported text of `role` is, if any."""
        marked, others = self._classes_of(role)
        for cls in marked if self._marker_pattern(role).match(text) else others:
            if cls.matches(text):
                return cls.id
        for recogniser in self._recognisers_of(role, text):
            if recogniser.matches(text):
                return recogniser.id
        return None

    def _recognisers_of(self, role: str, text: str) -> tuple[Recogniser, ...]:
        """Return the recognisers of a role that may know a text; most have an `opening`."""
        if role not in self._by_opening:
            recognisers = [
                recogniser for recogniser in self._recognisers.values() if recogniser.role == role
            ]
            openings = {getattr(recogniser, "opening", "") for recogniser in recognisers} | {""}
            self._by_opening[role] = {
                opening: tuple(r for r in recognisers if getattr(r, "opening", "") in ("", opening))
                for opening in openings
            }
        table = self._by_opening[role]
        return table.get(text.lstrip()[:1].lower(), table[""])

    def _classes_of(
        self, role: str
    ) -> tuple[tuple[type[Fragment], ...], tuple[type[Fragment], ...]]:
        """Return the classes of a role, and those of them that markers alone do not identify."""
        if role not in self._by_role:
            every = tuple(cls for cls in self._fragments.values() if cls.role == role)
            self._by_role[role] = every, tuple(cls for cls in every if has_own_matcher(cls))
        return self._by_role[role]

    def _marker_pattern(self, role: str) -> re.Pattern[str]:
        """Return a pattern for texts that begin with a marker of the role; hardly any text does."""
        if role not in self._openings:
            marked = [cls.markers for cls in self._classes_of(role)[0] if not has_own_matcher(cls)]
            starts = [re.escape(markers.start.lower()) for markers in marked if markers]
            pattern = rf"\s*(?:{'|'.join(starts)})" if starts else r"(?!)"
            self._openings[role] = re.compile(pattern, re.IGNORECASE)
        return self._openings[role]

    def recognise_parts(self, item: Item) -> tuple[str, ...]:
        """Return the ids of the fragments that a message's parts are, in order."""
        if not isinstance(item, Message):
            return ()
        texts = [part.text for part in item.content if isinstance(part, InputText)]
        return tuple(filter(None, (self.recognise(item.role, text) for text in texts)))

    def recognise_states(self, item: Item) -> tuple[str, ...]:
        """Return the ids of the states that an imported item shows."""
        states = map(self.state_of, self.recognise_parts(item))
        return tuple(dict.fromkeys(filter(None, states)))

    def is_contextual(self, item: Item) -> bool:
        """Return whether an imported item is context: one recognised part is enough."""
        return bool(self.recognise_parts(item))

    def state_of(self, fragment_id: str) -> str | None:
        """Return the id of the state that the fragment belongs to, if any."""
        recogniser = self._recognisers.get(fragment_id)
        return recogniser.state_id if recogniser else self._owners.get(fragment_id)

    def _register_state(self, state: StateFragment[Any]) -> None:
        self._check_id(state.id)
        if state.id in self._states or state.id in self._fragments:
            raise FragmentError(f"fragment id {state.id!r} is taken; choose another")
        added: dict[str, type[Fragment]] = {}
        for cls in state.fragments:
            self._check(cls, {**self._fragments, **added})
            added[cls.id] = cls
        self._states[state.id] = state
        self._owners.update(dict.fromkeys(added, state.id))
        self._add(added)

    def _add(self, classes: Mapping[str, type[Fragment]]) -> None:
        self._fragments.update(classes)
        self._vocabulary = None
        self._by_role.clear()
        self._openings.clear()

    def _check(self, cls: type[Fragment], others: Mapping[str, type[Fragment]]) -> None:
        check_fragment(cls)
        self._check_id(cls.id)
        if cls.id in others or cls.id in self._recognisers or cls.id in self._states:
            raise FragmentError(f"fragment id {cls.id!r} is taken; choose another")
        for other in others.values():
            check_apart(cls, other)

    def _check_id(self, fragment_id: str) -> None:
        if fragment_id in _RESERVED:
            raise FragmentError(f"fragment id {fragment_id!r} is reserved; choose another")
        if not re.fullmatch(_ID, fragment_id):
            raise FragmentError(
                f"fragment id {fragment_id!r} must start with a lower-case letter, followed by "
                "up to 63 of a-z, 0-9, '_', '.' and '-'; rename it"
            )


def default_registry() -> Registry:
    """Return a registry with the built-in fragments; `load_entry_points` adds those of packages."""
    return _built_in().copy()


@functools.cache
def _built_in() -> Registry:
    registry = Registry()
    registry.register_trusted(STATES, ANNOUNCEMENTS)
    for recogniser in LEGACY:
        registry.register_recogniser(recogniser)
    return registry


def installed_registry() -> Registry:
    """Return a registry with the built-in fragments and those of installed packages."""
    registry = default_registry()
    registry.load_entry_points()
    return registry


@functools.cache
def builtin_vocabulary() -> Vocabulary:
    """Return the markers of the built-in fragments."""
    return _built_in().vocabulary


def _offers(loaded: Any) -> Iterable[Registrable]:
    return loaded if isinstance(loaded, list | tuple) else (loaded,)
