"""Options of threads as tests pass them: flat, the later ones over the earlier.

Owns which group of `ThreadOptions` each flat name belongs to. Invariant: the result is
keywords of `Thread.open`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..thread.options import (
    EngineOptions,
    HarnessOptions,
    PromptOptions,
    Rights,
    Routing,
    ToolOptions,
)

__all__ = ["open_keywords"]

_GROUPS: Mapping[str, tuple[type[Any], Mapping[str, str]]] = {
    "rights": (
        Rights,
        {name: name for name in ("sandbox", "approval", "network", "writable_roots", "settings")},
    ),
    "tools": (
        ToolOptions,
        {name: name for name in ("tools", "executor", "output_limit", "rewind_files")},
    ),
    "engine": (
        EngineOptions,
        {
            "engine": "engine",
            "engine_config": "config",
            "engines": "registry",
            "compaction_model": "compaction_model",
            "citations": "citations",
            "timeouts": "timeouts",
            "recall_threads": "recall_threads",
            "recall": "recall",
        },
    ),
    "harness": (
        HarnessOptions,
        {"harness": "harness", "harness_rules": "rules", "harnesses": "registry"},
    ),
    "routing": (
        Routing,
        {
            name: name
            for name in (
                *("default_model", "environ", "providers", "credentials"),
                *("fallbacks", "strict", "params", "prices"),
            )
        },
    ),
    "prompt": (
        PromptOptions,
        {name: name for name in ("registry", "overlays", "docs", "window_use")},
    ),
}


def open_keywords(**flat: Any) -> dict[str, Any]:
    """Return keywords for `Thread.open`; a group that is already there is kept and changed."""
    keywords = dict(flat)
    for group, (kind, names) in _GROUPS.items():
        base = keywords.pop(group) if isinstance(keywords.get(group), kind) else kind()
        found = {field: keywords.pop(name, None) for name, field in names.items()}
        fields = {field: value for field, value in found.items() if value is not None}
        keywords[group] = msgspec.structs.replace(base, **fields)
    return keywords
