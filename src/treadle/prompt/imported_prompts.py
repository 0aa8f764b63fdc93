"""Imported prompts: texts of a locally installed Codex and the user's own, stored in the home.

Owns ``<home>/prompts/codex`` and its manifest. Invariant: the directory is
replaced as a whole, so that a reader finds one complete import or none; the
texts are the bytes that the source gave.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import read_bounded
from ..core.typed import decode_json

__all__ = ["MOST_BYTES", "PLAIN_NAME", "ImportedPrompt", "ImportedPrompts", "Manifest"]

MOST_BYTES = 4 << 20
"""The longest text that is read."""

_DIRECTORY = "prompts/codex"
PLAIN_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""Matches names that are safe as file names."""


class Manifest(Struct, frozen=True, kw_only=True):
    """What was imported, and its source."""

    source: str
    version: str
    digests: dict[str, str]
    """``sha256:`` and hex by file name, relative to the directory."""
    own: tuple[str, ...] = ()
    """The files that the user added; an import leaves them as they are."""


class ImportedPrompt(Struct, frozen=True):
    """One imported text; `intact` is False after someone changed or removed it."""

    name: str
    size: int
    digest: str
    intact: bool


class ImportedPrompts(Struct, frozen=True):
    """The prompts imported into one home; reading works without an import too."""

    home: Path

    @property
    def directory(self) -> Path:
        """Where they are stored."""
        return self.home / _DIRECTORY

    def manifest(self) -> Manifest | None:
        """Return what was imported; None when nothing was. Raises `ConfigError` when unreadable."""
        file = self.directory / "manifest.json"
        try:
            return decode_json(read_bounded(file, MOST_BYTES), Manifest)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"cannot read {str(file)!r}: {error}; run `treadle prompts import` again"
            ) from error

    def instructions(self, model: str) -> str | None:
        """Return the base instructions imported for exactly this model."""
        return self.text(f"models/{model}.md") if re.fullmatch(PLAIN_NAME, model) else None

    def text(self, name: str) -> str | None:
        """Return one imported text; None when there is none of that name."""
        try:
            return read_bounded(self.home / f"{_DIRECTORY}/{name}", MOST_BYTES).decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            path = str(self.directory / name)
            raise ConfigError(
                f"cannot read {path!r}: {error}; run `treadle prompts import` again"
            ) from error

    def all(self) -> list[ImportedPrompt]:
        """Return every text of the manifest as it is now, in the order of their names."""
        manifest = self.manifest()
        digests = manifest.digests if manifest else {}
        return [self._check(name, digest) for name, digest in sorted(digests.items())]

    def replace(self, texts: Mapping[str, str], *, source: str, version: str) -> Manifest:
        """Replace what was imported before with `texts` by file name; the user's own stay."""
        kept: dict[str, str] = {}
        with suppress(ConfigError):  # what cannot be read is what an import repairs
            before = self.manifest()
            own = before.own if before else ()
            kept = {name: text for name in own if (text := self.text(name)) is not None}
        return self._write({**texts, **kept}, source, version, tuple(kept))

    def add(self, name: str, text: str) -> Manifest:
        """Add a text of the user's own under a file name; it takes the place of another."""
        before = self.manifest()
        names = before.digests if before else {}
        texts = {each: known for each in names if (known := self.text(each)) is not None}
        own = tuple(sorted({*(before.own if before else ()), name}))
        source, version = (before.source, before.version) if before else ("", "")
        return self._write({**texts, name: text}, source, version, own)

    def _write(
        self, texts: Mapping[str, str], source: str, version: str, own: tuple[str, ...]
    ) -> Manifest:
        bodies = {name: text.encode() for name, text in texts.items()}
        digests = {name: _digest(body) for name, body in sorted(bodies.items())}
        manifest = Manifest(source=source, version=version, digests=digests, own=own)
        try:
            self._swap({**bodies, "manifest.json": msgspec.json.encode(manifest)})
        except OSError as error:
            where = str(self.directory)
            raise ConfigError(
                f"cannot write {where!r}: {error.strerror}; free it and import again"
            ) from error
        return manifest

    def remove(self) -> bool:
        """Delete every imported text; return whether there were any."""
        import shutil  # only here: it keeps the cold start short

        if not self.directory.exists():
            return False
        shutil.rmtree(self.directory)
        return True

    def _check(self, name: str, digest: str) -> ImportedPrompt:
        try:
            body = read_bounded(self.directory / name, MOST_BYTES)
        except OSError:
            return ImportedPrompt(name, 0, digest, intact=False)
        return ImportedPrompt(name, len(body), digest, intact=_digest(body) == digest)

    def _swap(self, files: Mapping[str, bytes]) -> None:
        import tempfile  # only here: it keeps the cold start short

        parent = self.directory.parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".codex-", dir=parent) as scratch:
            fresh, old = Path(scratch) / "new", Path(scratch) / "old"
            for name, body in files.items():
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
            if self.directory.exists():
                self.directory.rename(old)
            fresh.rename(self.directory)


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
