"""The archive: the far end as one file that any Python can run.

Owns which modules of ours the far end needs. Invariants: the same version of Treadle gives the
same bytes; the archive needs nothing but Python's own library.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from importlib.resources import files

__all__ = ["FAR_MODULES", "archive_digest", "far_archive"]

_WHEN = (1980, 1, 1, 0, 0, 0)
"""The oldest date that an archive can hold: the same on every machine."""

FAR_MODULES = {
    "core": "addresses errors files former_name home ids install known_secrets lazy "
    "marked_processes redact search_path typed wire words",
    "sandbox": "boundary bubblewrap environment_variables kernel launch network_proxy pinned "
    "place placeholders policy probe process_groups reading repository seccomp",
    "tools": "executor",
    "tools.local": "local_executor local_files process streams",
    "tools.patch": "disk_steps errors file_edits parser patch_plan update",
    "tools.pipe": "far_end pipe_server protocol",
}
"""The modules of each package."""

_WITH_CODE = ("sandbox", "tools.local", "tools.patch")
"""Packages whose own module finds names; the others are empty there."""

_MAIN = b"from treadle.tools.pipe.far_end import main\n\nmain()\n"


@cache
def far_archive() -> bytes:
    """Return the archive. Blocks on our own files, once."""
    members = {"__main__.py": _MAIN, "treadle/__init__.py": b"", "treadle/core/__init__.py": b""}
    members |= {"treadle/tools/__init__.py": b"", "treadle/tools/pipe/__init__.py": b""}
    for package in _WITH_CODE:
        members[f"treadle/{package.replace('.', '/')}/__init__.py"] = _source(package, "__init__")
    for package, modules in FAR_MODULES.items():
        for module in modules.split():
            name = f"treadle/{package.replace('.', '/')}/{module}.py"
            members[name] = _source(package, module)
    members["msgspec/__init__.py"] = _source("tools.pipe", "plain_msgspec")
    return _zip(members)


@cache
def archive_digest() -> str:
    """Return the SHA-256 of the archive, in hex."""
    return hashlib.sha256(far_archive()).hexdigest()


def _source(package: str, module: str) -> bytes:
    place = files("treadle").joinpath(*package.split("."))
    return place.joinpath(f"{module}.py").read_bytes()


def _zip(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, members[name], zipfile.ZIP_DEFLATED, 9)
    return made.getvalue()
