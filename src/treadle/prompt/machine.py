"""The machine: taking the picture that fragments look at.

Owns every read of the environment and the file system on the prompt's behalf.
Invariant: it reads and never writes, and what it cannot read it reports in
`agents_docs.problems` instead of failing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .discovery import DocsRules, discover, printable
from .observation import PromptContext

__all__ = ["detect_shell", "observe_machine"]

_SAME_SHELL = {"pwsh": "powershell"}


def observe_machine(
    cwd: Path | str | None = None,
    *,
    settings: PromptContext | None = None,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
    rules: DocsRules | None = None,
) -> PromptContext:
    """`settings` with what the machine says about `cwd` filled in. Blocks on files.

    `home` is where the user's own AGENTS.md lies. None for `cwd` and `environ`
    means those of this process.
    """
    place = Path(os.path.abspath(cwd or "."))  # noqa: PTH100 - `resolve` fails on loops of links
    seen = os.environ if environ is None else environ
    return msgspec.structs.replace(
        settings or PromptContext(cwd=""),
        cwd=printable(place),
        shell=detect_shell(seen),
        agents_docs=discover(place, home=home, rules=rules),
    )


def detect_shell(environ: Mapping[str, str]) -> str:
    """The name of the user's shell, as the model is told it."""
    path = environ.get("SHELL", "")
    if not path:
        return "powershell" if os.name == "nt" else "sh"
    name = path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")
    return _SAME_SHELL.get(name, name) or "sh"
