"""The registry: which fragments exist, in which order states are told, what a text is.

Owns registration and recognition. Invariant: ids and markers are unique, and
every user-role fragment can be told from what a person typed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from ..core.errors import FragmentError
from ..core.items import InputText, Item, Message
from ..core.patterns import regex
from ..core.plugins import PluginGroup
from .fragment import Fragment
from .markers import Markers, Vocabulary
from .state import StateFragment

__all__ = [
    "Recogniser",
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
_ID = regex(r"[a-z][a-z0-9_.-]{0,63}")


class Recogniser(Protocol):
    """Recognises texts that others wrote and we never do."""

    @property
    def id(self) -> str:
        """What such a text is called."""
        ...

    @property
    def role(self) -> str:
        """The role it comes with."""
        ...

    @property
    def state_id(self) -> str | None:
        """The state of ours that it stands for."""
        ...

    def matches(self, text: str) -> bool:
        """Whether `text` is one of them."""
        ...

    def reserved_markers(self) -> Markers | None:
        """Markers that our data may not imitate either."""
        ...

    # A reader may also have an `opening`: the character, in lower case, that all begin with.


Registrable: TypeAlias = type[Fragment] | StateFragment[Any] | type[StateFragment[Any]]
"""A fragment class, or a state fragment with the classes it tells."""


class Registry:
    """The fragments of one runtime."""

    def __init__(self) -> None:
        self._fragments: dict[str, type[Fragment]] = {}
        self._states: dict[str, StateFragment[Any]] = {}
        self._owners: dict[str, str] = {}
        self._readers: dict[str, Recogniser] = {}
        self._vocabulary: Vocabulary | None = None
        self._by_role: dict[str, tuple[tuple[type[Fragment], ...], tuple[type[Fragment], ...]]] = {}
        self._openings: dict[str, re.Pattern[str]] = {}
        self._by_opening: dict[str, dict[str, tuple[Recogniser, ...]]] = {}

    @property
    def fragments(self) -> tuple[type[Fragment], ...]:
        """Every fragment class, in the order of registration."""
        return tuple(self._fragments.values())

    @property
    def states(self) -> tuple[StateFragment[Any], ...]:
        """Every state fragment, in telling order, which is the order of registration."""
        return tuple(self._states.values())

    @property
    def vocabulary(self) -> Vocabulary:
        """The markers that no data may imitate."""
        if self._vocabulary is None:
            own = [cls.markers for cls in self._fragments.values()]
            read = [reader.reserved_markers() for reader in self._readers.values()]
            self._vocabulary = Vocabulary.of(m for m in (*own, *read) if m is not None)
        return self._vocabulary

    def register(self, *offers: Registrable) -> None:
        """Add fragment classes, or states with the classes they tell.

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

    def copy(self) -> Registry:
        """One that knows the same and learns apart."""
        copied = Registry()
        copied._fragments, copied._states = {**self._fragments}, {**self._states}
        copied._owners, copied._readers = {**self._owners}, {**self._readers}
        copied._vocabulary = self.vocabulary
        return copied

    def register_trusted(
        self, states: Iterable[type[StateFragment[Any]]], said: Iterable[type[Fragment]]
    ) -> None:
        """Add what is known to fit, as the built-in ones are, for checking takes its time."""
        for state in (make() for make in states):
            self._states[state.id] = state
            classes = {cls.id: cls for cls in state.fragments}
            self._owners.update(dict.fromkeys(classes, state.id))
            self._add(classes)
        self._add({cls.id: cls for cls in said})

    def register_recogniser(self, reader: Recogniser) -> None:
        """Recognise texts of another system."""
        if reader.id in self._fragments or reader.id in self._readers:
            raise FragmentError(f"fragment id {reader.id!r} is taken; choose another")
        self._readers[reader.id] = reader
        self._vocabulary = None
        self._by_opening.clear()

    def load_entry_points(self) -> tuple[str, ...]:
        """Register what installed packages offer; return the names of their entry points.

        Raises `FragmentError` for a package that cannot be used.
        """
        return _FRAGMENTS.use_all(lambda found: self.register(*_offers(found)), FragmentError)

    def recognise(self, role: str, text: str) -> str | None:
        """The id of the fragment that an imported text of `role` is, if any."""
        marked, others = self._recognisers(role)
        for cls in marked if self._opens(role).match(text) else others:
            if cls.matches(text):
                return cls.id
        for reader in self._readers_of(role, text):
            if reader.matches(text):
                return reader.id
        return None

    def _readers_of(self, role: str, text: str) -> tuple[Recogniser, ...]:
        """The readers of a role that may know a text; most say how theirs open."""
        if role not in self._by_opening:
            readers = [reader for reader in self._readers.values() if reader.role == role]
            openings = {getattr(reader, "opening", "") for reader in readers} | {""}
            self._by_opening[role] = {
                opening: tuple(r for r in readers if getattr(r, "opening", "") in ("", opening))
                for opening in openings
            }
        table = self._by_opening[role]
        return table.get(text.lstrip()[:1].lower(), table[""])

    def _recognisers(
        self, role: str
    ) -> tuple[tuple[type[Fragment], ...], tuple[type[Fragment], ...]]:
        """Those of a role, and those among them that markers alone do not tell."""
        if role not in self._by_role:
            every = tuple(cls for cls in self._fragments.values() if cls.role == role)
            self._by_role[role] = every, tuple(cls for cls in every if not _by_markers(cls))
        return self._by_role[role]

    def _opens(self, role: str) -> re.Pattern[str]:
        """Matches where a text opens like one that markers tell; hardly any text does."""
        if role not in self._openings:
            marked = [cls.markers for cls in self._recognisers(role)[0] if _by_markers(cls)]
            starts = [re.escape(markers.start.lower()) for markers in marked if markers]
            pattern = rf"\s*(?:{'|'.join(starts)})" if starts else r"(?!)"
            self._openings[role] = re.compile(pattern, re.IGNORECASE)
        return self._openings[role]

    def recognise_parts(self, item: Item) -> tuple[str, ...]:
        """The ids of the fragments that a message's parts are, in order."""
        if not isinstance(item, Message):
            return ()
        texts = [part.text for part in item.content if isinstance(part, InputText)]
        return tuple(filter(None, (self.recognise(item.role, text) for text in texts)))

    def recognise_states(self, item: Item) -> tuple[str, ...]:
        """The ids of the states that an imported item tells."""
        states = map(self.state_of, self.recognise_parts(item))
        return tuple(dict.fromkeys(filter(None, states)))

    def is_contextual(self, item: Item) -> bool:
        """Whether an imported item is context: one recognised part is enough."""
        return bool(self.recognise_parts(item))

    def state_of(self, fragment_id: str) -> str | None:
        """The id of the state that the fragment tells, if it tells one."""
        reader = self._readers.get(fragment_id)
        return reader.state_id if reader else self._owners.get(fragment_id)

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
        from .soundness import check_apart, check_fragment

        check_fragment(cls)
        self._check_id(cls.id)
        if cls.id in others or cls.id in self._readers or cls.id in self._states:
            raise FragmentError(f"fragment id {cls.id!r} is taken; choose another")
        for other in others.values():
            check_apart(cls, other)

    def _check_id(self, fragment_id: str) -> None:
        if fragment_id in _RESERVED:
            raise FragmentError(f"fragment id {fragment_id!r} is reserved; choose another")
        if not _ID.fullmatch(fragment_id):
            raise FragmentError(
                f"fragment id {fragment_id!r} must start with a lower-case letter, followed by "
                "up to 63 of a-z, 0-9, '_', '.' and '-'; rename it"
            )


def default_registry() -> Registry:
    """A registry with the built-in fragments; packages add theirs by `load_entry_points`."""
    return _built_in().copy()


@functools.cache
def _built_in() -> Registry:
    from .builtin import ANNOUNCEMENTS, RECOGNISERS, STATES

    registry = Registry()
    registry.register_trusted(STATES, ANNOUNCEMENTS)
    for reader in RECOGNISERS:
        registry.register_recogniser(reader)
    return registry


def installed_registry() -> Registry:
    """A registry with the built-in fragments and those of installed packages."""
    registry = default_registry()
    registry.load_entry_points()
    return registry


@functools.cache
def builtin_vocabulary() -> Vocabulary:
    """The markers of the built-in fragments."""
    return _built_in().vocabulary


def _by_markers(cls: type[Fragment]) -> bool:
    """Whether its markers alone tell a fragment."""
    # A class method is bound anew at each look; the function behind it is not.
    return cls.matches.__func__ is Fragment.matches.__func__  # type: ignore[attr-defined]


def _offers(loaded: Any) -> Iterable[Registrable]:
    return loaded if isinstance(loaded, list | tuple) else (loaded,)
