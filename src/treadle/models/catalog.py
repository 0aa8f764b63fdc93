"""The model catalog: which facts apply to which model.

Owns the lookup (the longest entry whose name starts the slug, then the same without its
leading namespaces, then the fallback) and the check of every key and value in a catalog file.
Facts come in three layers, each overriding the one before field by field: the built-in ones,
what servers report of their models, the user's file. Invariant: an error names the file, the
key, what is accepted and the nearest name that exists.
"""

from __future__ import annotations

import os
import tomllib
import types
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..core.choices import nearest
from ..core.errors import ConfigError
from ..core.files import read_bounded
from ..core.text import TruncationPolicy
from ..core.typed import convert
from .known_models import FACTS, RECOMMENDED
from .profile import ModelProfile

__all__ = [
    "LOCAL_PROVIDERS",
    "MOST_BYTES",
    "PROVIDER_ALIASES",
    "REPORTS_FILE",
    "Catalog",
    "ReportedFacts",
    "Table",
    "nearest_hint",
]

FALLBACK = "fallback"

MOST_BYTES = 4 << 20
"""The largest file that is read."""

Table: TypeAlias = Mapping[str, Any]
"""Fields of a profile by name, checked or not yet."""

ReportedFacts: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Fields of profiles by provider and slug, not checked yet."""

LOCAL_PROVIDERS = frozenset(("llamacpp", "lmstudio", "local", "ollama", "vllm"))
"""Providers that are servers of one's own."""

_UNKNOWN_LOCAL: Table = {
    "context_window": 8_192,
    "text_calls": ("tags", "json", "mistral", "python_tag"),
}
"""What an unknown model of theirs gets until its server has said more: they start with little."""

REPORTS_FILE = "model-reports.json"
"""What servers said of their models, below the home."""

PROVIDER_ALIASES: Mapping[str, str] = {"openai-codex": "openai", "codex-cli": "openai"}
"""Other names of a provider, before its models and its profiles."""

_SPELLINGS = {**PROVIDER_ALIASES, "codex": "codex"}
"""Names that may stand before a model with a slash, too: others are namespaces of a slug."""
_SECTIONS = ("providers", "fallback", "models")
_DERIVED = frozenset({"slug", "entry", "known"})
_PROVIDER = "openai"
"""Whose model a name without a provider is, where no entry says it."""
_RETIRED = frozenset({"lite", "multi_agent", "tool_mode", "tool_search"})
"""Keys that earlier versions took and nothing read: files that have them stay readable."""
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
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of the entries by their lower case."""
    reported: ReportedFacts = field(default_factory=dict)
    """What servers said of their models, by provider and slug."""

    @classmethod
    def load(cls, user_file: Path | None = None) -> Catalog:
        """Return the built-in catalog, with the reports beside the user's file and that file.

        Raises `ConfigError`.
        """
        if user_file is None:
            return _built_in()
        found = replace(_built_in(), reported=_read_reports(user_file.parent))
        data = _read_file(user_file)
        return found if data is None else found.with_toml(data, str(user_file))

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
        entries, changes, names = dict(self.entries), dict(self.changes), dict(self.names)
        for name, fields in sections["models"].items():
            own = {key: value for key, value in fields.items() if key != "like"}
            like = fields.get("like")
            _check_like(name, like, entries, source)
            found = like or _longest_match(name, names) or FALLBACK
            base = fallback if found == FALLBACK else entries[found]
            entries[name] = {**base, **own}
            changes[name] = {**changes.get(name, {}), **own}
            names[name.lower()] = name
        named = {
            table["provider"] for table in (fallback, *entries.values()) if "provider" in table
        }
        providers = self.providers | named | {*sections["providers"]}
        return replace(
            self,
            providers=providers,
            fallback=fallback,
            entries=entries,
            changes=changes,
            names=names,
        )

    def profile(self, name: str, reported: Table | None = None) -> ModelProfile:
        """Return the facts about a model named ``slug`` or ``provider:slug``.

        `reported` are fields that the model's own provider reports; they override the
        built-in facts, never the user's.
        """
        provider, slug = self.split(name)
        entry = _longest_match(slug, self.names)
        base = self.fallback if entry is None else self.entries[entry]
        stored = self._report(provider or base.get("provider", _PROVIDER), slug)
        checked = _check_fields({**stored, **(reported or {})}, f"metadata of {slug!r}")
        if entry is None and provider in LOCAL_PROVIDERS:
            base = {**base, **_UNKNOWN_LOCAL}
        facts: dict[str, Any] = {**base, **checked, **self.changes.get(entry or "", {})}
        if provider:
            facts["provider"] = provider
        known = entry is not None or bool(checked)
        return ModelProfile(slug=slug, entry=entry or "", known=known, **facts)

    def is_told(self, name: str) -> bool:
        """Return whether the user, or the server, has said how wide a model's window is."""
        provider, slug = self.split(name)
        entry = _longest_match(slug, self.names)
        own = self.changes.get(entry or "", {})
        provider = provider or self.profile(name).provider
        return "context_window" in own or slug in self.reported.get(provider, {})

    def with_report(self, provider: str, slug: str, fields: Table) -> Catalog:
        """Return this catalog with what the server of `provider` says of one model."""
        of_provider = {**self.reported.get(provider, {}), slug: fields}
        return replace(self, reported={**self.reported, provider: of_provider})

    def _report(self, provider: str, slug: str) -> Table:
        # Models that only Codex reaches are those of its own provider.
        of_provider = self.reported.get(_PROVIDER if provider == "codex" else provider, {})
        return of_provider.get(slug, {})

    def split(self, name: str) -> tuple[str, str]:
        """Return provider and slug of a name; the provider is empty when none is given.

        Only a provider that the catalog knows counts as one: slugs have colons of their own.
        """
        provider, colon, slug = name.partition(":")
        plain = provider.strip().lower()
        if colon and (provider in self.providers or plain in self.providers):
            return provider if provider in self.providers else plain, slug
        for sign in ":/":
            spelling, found, slug = name.partition(sign)
            if found and slug and (meant := _SPELLINGS.get(spelling.strip().lower())):
                return meant, slug
        return "", name

    def full_name(self, name: str) -> str:
        """Return `name` with the provider that it means, where another spelling names it.

        >>> [Catalog.load().full_name(name) for name in ("codex/gpt-5.5", "gpt-5.5", "a/b:c")]
        ['codex:gpt-5.5', 'gpt-5.5', 'a/b:c']
        """
        provider, slug = self.split(name)
        return f"{provider}:{slug}" if provider else name

    def near_name(self, name: str) -> str:
        """Return the model of the same provider whose name is most like `name`, or nothing."""
        profile = self.profile(name)
        entries = [each for each in self.entries if self.profile(each).provider == profile.provider]
        known = {*entries, *self.reported.get(profile.provider, ())} - {profile.slug}
        known.add(RECOMMENDED.get(profile.provider, ""))
        whole = sorted(each for each in known if each and each[-1] not in "-.")
        close = nearest(profile.slug, whole)
        return f"{profile.provider}:{close}" if close else ""


def _read_reports(home: Path) -> ReportedFacts:
    if not os.path.exists(home / REPORTS_FILE):  # noqa: PTH110 - False also where nobody may look
        return {}
    from .model_reports import load_reports

    return load_reports(home).facts()


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint at the name that was probably meant, or nothing."""
    close = nearest(name, known)
    return f"; did you mean {close!r}?" if close else ""


def _longest_match(slug: str, names: Mapping[str, str]) -> str | None:
    """Return the longest of `names` that starts `slug`, with or without its namespaces."""
    whole = slug.lower()
    tails = [whole, *(whole[at + 1 :] for at, sign in enumerate(whole) if sign == "/")]
    for size in range(len(whole), 0, -1):
        for tail in tails:
            if len(tail) >= size and tail[:size] in names:
                return names[tail[:size]]
    return None


def _check_like(name: str, like: str | None, entries: Mapping[str, Table], source: str) -> None:
    if like is not None and like != FALLBACK and like not in entries:
        hint = nearest_hint(like, entries)
        raise ConfigError(f"{source}: models.{name!r} is like {like!r}, which is not known{hint}")


@cache
def _built_in() -> Catalog:
    source = "the built-in catalog"
    empty = Catalog(frozenset(), {}, {}, {}, {})
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
    fields = {name: value for name, value in fields.items() if name not in _RETIRED}
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
