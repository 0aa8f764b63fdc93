"""The model catalog: which facts apply to which model.

Owns the lookup (the longest entry whose name starts the slug, then the same without one
leading namespace, then the fallback) and the check of every key and value in a catalog file.
Facts come in three layers, each overriding the one before field by field: the built-in ones,
what a provider reports of itself, the user's file. Invariant: an error names the file, the
key, what is accepted and the nearest name that exists.
"""

from __future__ import annotations

import tomllib
import types
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..core.errors import ConfigError
from ..core.files import read_bounded
from ..core.text import TruncationPolicy
from ..core.typed import convert
from .known_models import FACTS
from .profile import ModelProfile

__all__ = ["MOST_BYTES", "Catalog", "Table", "nearest_hint"]

FALLBACK = "fallback"

MOST_BYTES = 4 << 20
"""The largest file that is read."""

Table: TypeAlias = Mapping[str, Any]
"""Fields of a profile by name, checked or not yet."""

_SECTIONS = ("providers", "fallback", "models")
_DERIVED = frozenset({"slug", "entry", "known"})
_HINTS = get_type_hints(ModelProfile, include_extras=True)
_FIELDS = {name: hint for name, hint in _HINTS.items() if name not in _DERIVED}


class Catalog(Struct, frozen=True):
    """Facts about models; immutable."""

    providers: frozenset[str]
    fallback: Table
    entries: Mapping[str, Table]
    """Whole entries by name, with the user's changes."""
    changes: Mapping[str, Table] = field(default_factory=dict)
    """The user's own fields by entry name."""

    @classmethod
    def load(cls, user_file: Path | None = None) -> Catalog:
        """Return the built-in catalog with the user's file on top. Raises `ConfigError`."""
        built_in = _built_in()
        data = None if user_file is None else _read_file(user_file)
        return built_in if data is None else built_in.with_toml(data, str(user_file))

    def with_providers(self, providers: Iterable[str]) -> Catalog:
        """Return this catalog with more names that count as providers."""
        return replace(self, providers=self.providers.union(providers))

    def with_toml(self, data: bytes, source: str) -> Catalog:
        """Return this catalog with the entries of a TOML document on top."""
        try:
            sections = tomllib.loads(data.decode())
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
            raise ConfigError(
                f"{source} is not valid TOML: {error}; correct or remove it"
            ) from error
        return self.with_sections(_check_sections(sections, source), source)

    def with_sections(self, sections: Table, source: str) -> Catalog:
        """Return this catalog with checked sections on top."""
        fallback = {**self.fallback, **sections["fallback"]}
        entries, changes = dict(self.entries), dict(self.changes)
        for name, fields in sections["models"].items():
            own = {key: value for key, value in fields.items() if key != "like"}
            base = _base(name, fields.get("like"), entries, fallback, source)
            entries[name] = {**base, **own}
            changes[name] = {**changes.get(name, {}), **own}
        named = {
            table["provider"] for table in (fallback, *entries.values()) if "provider" in table
        }
        providers = self.providers | named | {*sections["providers"]}
        return Catalog(providers, fallback, entries, changes)

    def profile(self, name: str, reported: Table | None = None) -> ModelProfile:
        """Return the facts about a model named ``slug`` or ``provider:slug``.

        `reported` are fields that the model's own provider reports; they override the
        built-in facts, never the user's.
        """
        provider, slug = self.split(name)
        entry = _longest_match(slug, self.entries)
        checked = _check_fields(reported or {}, f"metadata of {slug!r}")
        facts: dict[str, Any] = {
            **(self.fallback if entry is None else self.entries[entry]),
            **checked,
            **self.changes.get(entry or "", {}),
        }
        if provider:
            facts["provider"] = provider
        known = entry is not None or bool(checked)
        return ModelProfile(slug=slug, entry=entry or "", known=known, **facts)

    def split(self, name: str) -> tuple[str, str]:
        """Return provider and slug of a name; the provider is empty when none is given.

        Only a provider that the catalog knows counts as one: slugs have colons of their own.
        """
        provider, colon, slug = name.partition(":")
        if colon and provider in self.providers:
            return provider, slug
        return "", name


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint at the name that was probably meant, or nothing."""
    import difflib  # only for an error: it keeps the cold start short

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _longest_match(slug: str, names: Mapping[str, object]) -> str | None:
    """Return the longest of `names` that starts `slug`, with or without its first namespace."""
    for candidate in (slug, slug.partition("/")[2]):
        found = [name for name in names if candidate.lower().startswith(name.lower())]
        if candidate and found:
            return max(found, key=len)
    return None


def _base(
    name: str, like: str | None, entries: Mapping[str, Table], fallback: Table, source: str
) -> Table:
    """Return the facts that a new or changed entry starts from."""
    if like is None:
        found = _longest_match(name, entries)
        return fallback if found is None else entries[found]
    if like == FALLBACK:
        return fallback
    if like not in entries:
        hint = nearest_hint(like, entries)
        raise ConfigError(f"{source}: models.{name!r} is like {like!r}, which is not known{hint}")
    return entries[like]


@cache
def _built_in() -> Catalog:
    source = "the built-in catalog"
    empty = Catalog(frozenset(), {}, {})
    return replace(empty.with_sections(_check_sections(FACTS, source), source), changes={})


def _read_file(path: Path) -> bytes | None:
    """Return the bytes of a user's file; None when there is none."""
    try:
        return read_bounded(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}; check it") from error


def _check_sections(sections: Table, source: str) -> dict[str, Any]:
    """Return the sections of a catalog, with every value in its proper type."""
    _check_names(sections, _SECTIONS, f"{source}: section")
    models = {
        name: _check_entry(fields, f"{source}: models.{name!r}")
        for name, fields in _check_table(sections.get("models", {}), f"{source}: models").items()
    }
    fallback = _check_table(sections.get("fallback", {}), f"{source}: fallback")
    return {
        "providers": _check_providers(sections.get("providers", []), source),
        "fallback": _check_fields(fallback, f"{source}: fallback"),
        "models": models,
    }


def _check_entry(fields: Any, where: str) -> dict[str, Any]:
    own = {key: value for key, value in _check_table(fields, where).items() if key != "like"}
    like = fields.get("like")
    if like is not None and not isinstance(like, str):
        raise ConfigError(f"{where}: 'like' is {like!r}; accepted: the name of an entry")
    return {**({} if like is None else {"like": like}), **_check_fields(own, where)}


def _check_fields(fields: Table, source: str) -> dict[str, Any]:
    """Return `fields` with every value in its proper type. Raises `ConfigError`."""
    _check_names(fields, _FIELDS, f"{source}: key")
    return {name: _check_value(name, value, source) for name, value in fields.items()}


def _check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    names = sorted(known)
    for name in given:
        if name not in names:
            hint = nearest_hint(name, names)
            raise ConfigError(f"{what} {name!r} is unknown{hint} (accepted: {', '.join(names)})")


def _check_table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table, not {value!r}")
    return value


def _check_providers(value: Any, source: str) -> tuple[str, ...]:
    try:
        return convert(value, tuple[str, ...])
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{source}: 'providers' is {value!r}; accepted: a list of names"
        ) from error


def _check_value(name: str, value: Any, source: str) -> Any:
    try:
        return convert(value, _FIELDS[name])
    except msgspec.ValidationError as error:
        accepted = _accepted_values(_FIELDS[name])
        raise ConfigError(f"{source}: {name!r} is {value!r}; accepted: {accepted}") from error


_WORDS: dict[Any, str] = {
    bool: "true or false",
    str: "a string",
    int: "a whole number",
    tuple[str, ...]: "a list of strings",
    TruncationPolicy: "a table { mode = 'bytes' or 'tokens', limit = a whole number }",
}


def _accepted_values(hint: Any) -> str:
    if hint in _WORDS:
        return _WORDS[hint]
    if get_origin(hint) is Literal:
        return ", ".join(repr(value) for value in get_args(hint))
    if isinstance(hint, types.UnionType) or str(get_origin(hint)) == "typing.Union":
        return " or ".join(_accepted_values(arg) for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Annotated:
        kind, meta = get_args(hint)[:2]
        upper = f" and at most {meta.le}" if meta.le is not None else ""
        return f"{_accepted_values(kind)} above {meta.gt}{upper}"
    return str(hint)
