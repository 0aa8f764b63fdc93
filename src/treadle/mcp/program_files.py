"""Program files: the files of a project that the command of its server names.

Owns what of them is trusted together with the server. Invariant: a server whose files are not
those that the user trusted does not start, also when it is started again in the middle of a turn.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ..config.mcp_settings import McpServerSettings
from ..core.words import word_set
from ..hooks.hook_files import HookSource, read_named_files
from .mcp_errors import ServerUnavailable
from .server_settings import McpServer, ProgramFile, fill_variables

__all__ = ["check_program_files", "read_program_files"]

_SOURCES = word_set(".py .pyz .js .cjs .mjs .ts .cts .mts .sh .bash .rb .pl .php .lua .jar .wasm")
"""Endings of files that an interpreter runs. Databases and settings may change at any time."""


def read_program_files(settings: McpServerSettings, root: Path) -> tuple[ProgramFile, ...]:
    """Return the files below `root` that the command names. Blocks on files; raises `OSError`."""
    filled, _ = fill_variables(settings, os.environ)
    found = read_named_files((filled.command or "", *filled.args), root)
    programs = {each.path: each.data for each in found if _is_program(each)}
    return tuple(
        ProgramFile(str(path), f"sha256:{hashlib.sha256(data).hexdigest()}")
        for path, data in programs.items()
    )


def check_program_files(server: McpServer) -> None:
    """Raise `ServerUnavailable` unless a project's server names the files that were trusted."""
    trusted, place = server.programs, server.settings.cwd
    if trusted is None or place is None:
        return
    try:
        now = read_program_files(server.settings, Path(place))
    except OSError as error:
        raise ServerUnavailable(server.name, f"{error.filename!r}: {error.strerror}") from error
    if changed := set(now) ^ set(trusted):
        paths = ", ".join(sorted({repr(each.path) for each in changed}))
        raise ServerUnavailable(
            server.name,
            f"{paths} changed since it was trusted; read it, then `treadle mcp trust` lets it run",
        )


def _is_program(file: HookSource) -> bool:
    runs = file.index == 0 or file.executable or file.data.startswith(b"#!")
    return runs or file.path.suffix.lower() in _SOURCES
