"""The model catalog: which facts apply to which model.

Owns the lookup: the longest entry whose name starts the slug, then the same with
one leading namespace taken off, then the fallback. Facts come in three layers,
each overriding the one before field by field: the built-in ones, what a
provider reports of itself, the user's file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.errors import ConfigError
from .facts import FACTS
from .profile import ModelProfile
from .tables import Table, check_fields, check_sections, nearest_hint, parse_toml, read_file

__all__ = ["Catalog"]

FALLBACK = "fallback"


class Catalog(Struct, frozen=True):
    """Facts about models; immutable."""

    providers: frozenset[str]
    fallback: Table
    entries: Mapping[str, Table]
    """Whole entries by name, the user's changes included."""
    changes: Mapping[str, Table] = field(default_factory=dict)
    """The user's own fields by entry name."""

    @classmethod
    def load(cls, user_file: Path | None = None) -> Catalog:
        """The built-in catalog with the user's file on top. Raises `ConfigError`."""
        built_in = _built_in()
        data = None if user_file is None else read_file(user_file)
        return built_in if data is None else built_in.with_toml(data, str(user_file))

    def with_providers(self, providers: Iterable[str]) -> Catalog:
        """This catalog, with more names that count as providers."""
        return replace(self, providers=self.providers.union(providers))

    def with_toml(self, data: bytes, source: str) -> Catalog:
        """This catalog with the entries of a TOML document on top."""
        return self.with_sections(parse_toml(data, source), source)

    def with_sections(self, sections: Table, source: str) -> Catalog:
        """This catalog with checked sections on top."""
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
        """The facts about a model named ``slug`` or ``provider:slug``.

        `reported` are fields the model's own provider says; they override the
        built-in facts, never the user's.
        """
        provider, slug = self.split(name)
        entry = match(slug, self.entries)
        told = check_fields(reported or {}, f"metadata of {slug!r}")
        facts: dict[str, Any] = {
            **(self.fallback if entry is None else self.entries[entry]),
            **told,
            **self.changes.get(entry or "", {}),
        }
        if provider:
            facts["provider"] = provider
        known = entry is not None or bool(told)
        return ModelProfile(slug=slug, entry=entry or "", known=known, **facts)

    def split(self, name: str) -> tuple[str, str]:
        """Provider and slug of a name; the provider is empty when none is given.

        Only a provider the catalog knows counts as one: slugs have colons of their own.
        """
        provider, colon, slug = name.partition(":")
        if colon and provider in self.providers:
            return provider, slug
        return "", name


def match(slug: str, names: Mapping[str, object]) -> str | None:
    """The longest of `names` that starts `slug`, with or without its first namespace."""
    for candidate in (slug, slug.partition("/")[2]):
        found = [name for name in names if candidate.lower().startswith(name.lower())]
        if candidate and found:
            return max(found, key=len)
    return None


def _base(
    name: str, like: str | None, entries: Mapping[str, Table], fallback: Table, source: str
) -> Table:
    """The facts a new or changed entry starts from."""
    if like is None:
        found = match(name, entries)
        return fallback if found is None else entries[found]
    if like == FALLBACK:
        return fallback
    if like not in entries:
        hint = nearest_hint(like, entries)
        raise ConfigError(f"{source}: models.{name!r} is like {like!r}, which is no entry{hint}")
    return entries[like]


@cache
def _built_in() -> Catalog:
    source = "the built-in catalog"
    empty = Catalog(frozenset(), {}, {})
    return replace(empty.with_sections(check_sections(FACTS, source), source), changes={})
