"""Additional context: values that a host adds under keys of its own.

Owns `<KEY>` for values that the host trusts (developer) and `<external_KEY>` for
those it does not (user). Invariant: only keys whose value changed are sent, and
an untrusted value never gets the developer role.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from ..core.errors import ConfigError
from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import ContextValue, PromptContext
from .state_fragment import Absent, Known, StateFragment, Unrecorded, fingerprint

__all__ = [
    "AdditionalContextState",
    "ApplicationContext",
    "ExternalContext",
    "ValueSnapshot",
]

_KEY = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
_EXTERNAL = r"(?is)\s*<(external_[a-z][a-z0-9_-]*)>.*</\1>\s*"

_WITHDRAWN = "This value was withdrawn; do not rely on it."


class ApplicationContext(Fragment, frozen=True):
    """A value that the host trusts.

    Any tag can be its own, so an imported one cannot be distinguished from other developer text.
    """

    id: ClassVar[str] = "application_context"
    role: ClassVar[FragmentRole] = "developer"
    cap_tokens: ClassVar[int] = 1_000

    key: str
    value: str

    def body(self) -> str:
        """Return the value as given."""
        return self.value

    def wrapper(self) -> Markers:
        """Return the key as a tag."""
        return Markers(f"<{self.key}>", f"</{self.key}>")


class ExternalContext(Fragment, frozen=True):
    """A value that the host does not trust."""

    id: ClassVar[str] = "external_context"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<external_", "</external_")
    cap_tokens: ClassVar[int] = 1_000

    key: str
    value: str

    def body(self) -> str:
        """Return the value as given."""
        return self.value

    def wrapper(self) -> Markers:
        """Return the key as a tag of its family."""
        return Markers(f"<external_{self.key}>", f"</external_{self.key}>")

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether `text` has the same tag of its family at both ends."""
        return re.fullmatch(_EXTERNAL, text) is not None


class ValueSnapshot(Struct, frozen=True, omit_defaults=True):
    """One value and its digest, by which it is compared."""

    kind: Literal["application", "untrusted"]
    digest: str
    value: str = ""


class AdditionalContextState(StateFragment[dict[str, ValueSnapshot]]):
    """Sends the values that changed, and those that were withdrawn."""

    id = "additional_context"
    snapshot_type = dict[str, ValueSnapshot]
    fragments = (ApplicationContext, ExternalContext)

    def snapshot(self, ctx: PromptContext) -> dict[str, ValueSnapshot] | None:
        """Return the values of `ctx` in the order of their keys.

        Raises `ConfigError` for a key that cannot be a tag.
        """
        given = sorted(ctx.additional_context.items())
        return {_check_key(key): _snapshot(value) for key, value in given} or None

    def comparable(self, snapshot: dict[str, ValueSnapshot]) -> dict[str, ValueSnapshot]:
        """Return kinds and digests."""
        return {key: ValueSnapshot(value.kind, value.digest) for key, value in snapshot.items()}

    def difference(
        self,
        previous: Absent | Unrecorded | Known[dict[str, ValueSnapshot] | None],
        current: dict[str, ValueSnapshot] | None,
    ) -> Sequence[Fragment]:
        """Return withdrawals first, then new and changed values."""
        before = (previous.snapshot if isinstance(previous, Known) else None) or {}
        now = current or {}
        gone = [
            _fragment(key, value.kind, _WITHDRAWN)
            for key, value in before.items()
            if key not in now or now[key].kind != value.kind
        ]
        new = [
            _fragment(key, value.kind, value.value)
            for key, value in now.items()
            if key not in before
            or (before[key].kind, before[key].digest) != (value.kind, value.digest)
        ]
        return (*gone, *new)


def _check_key(key: str) -> str:
    if not re.fullmatch(_KEY, key):
        raise ConfigError(
            f"additional context key {key!r} cannot be a tag; use a letter followed by up to 63 "
            "letters, digits, '_' or '-'"
        )
    return key


def _snapshot(given: ContextValue) -> ValueSnapshot:
    return ValueSnapshot(given.kind, fingerprint(given.value), given.value)


def _fragment(key: str, kind: str, value: str) -> Fragment:
    return (ApplicationContext if kind == "application" else ExternalContext)(key, value)
