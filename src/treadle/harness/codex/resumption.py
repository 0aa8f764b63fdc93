"""Resuming a Codex thread: the same thread, and so the same prompt-cache key, in another process.

Owns what a binding notes of a thread at the end of a turn, and whether the thread still is
as noted. Invariant: a thread is resumed only if its rollout has gained nothing since then, and
the view still begins with the rows that it showed; in every other case, and after every
crash, the view is sent to a new thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...context.row import Row
from ...core.wire import json_bytes
from ...prompt.prompt_context import PromptContext
from .binding import Binding, fingerprint
from .codex_home import CodexHome
from .native_projection import row_keys
from .protocol.client_requests import ResumeThread, StartThread
from .rollout_reader import newest_compaction, read_turn, rollout_size
from .start_requests import SentSettings

__all__ = ["UNKNOWN_SETTINGS", "can_resume", "note_shown", "resume_request"]

UNKNOWN_SETTINGS = SentSettings(PromptContext(cwd=""), "")
"""The settings of a resumed thread: its first turn sends all of them."""

_CALLS = ("_call", "_output")


def note_shown(binding: Binding, rows: Sequence[Row]) -> Binding:
    """Return a binding that says what its thread shows. It looks at the disk: use a thread."""
    return msgspec.structs.replace(
        binding,
        rows=len(rows),
        shown=_rows_fingerprint(binding, rows),
        end=rollout_size(binding.path),
    )


def can_resume(known: Binding, wanted: Binding, rows: Sequence[Row], home: CodexHome) -> bool:
    """Say whether the thread of `known` shows the beginning of `rows`. It reads its rollout.

    A thread in another home stays as it is: this home may be a copy of that one.

    Calls and outputs come from Codex; if the log has others, the thread missed them.
    """
    return (
        bool(known.shown and known.codex)
        and home.holds(known.path)
        and (known.codex_version, known.collaboration)
        == (wanted.codex_version, wanted.collaboration)
        and known.rows <= len(rows)
        and _rows_fingerprint(known, rows[: known.rows]) == known.shown
        and not any(row.shape.type.endswith(_CALLS) for row in rows[known.rows :])
        and rollout_size(known.path) >= known.end > 0
        and not read_turn(known.path, known.end).items
        and newest_compaction(known.path, known.end) is None
    )


def resume_request(thread_id: str, start: StartThread) -> ResumeThread:
    """Return the request that resumes a thread with the settings of `start`.

    Its tools are stored with it, and its first turn names the directory.
    """
    return ResumeThread(
        thread_id=thread_id,
        cwd=start.cwd,
        model=start.model,
        model_provider=start.model_provider,
        approval_policy=start.approval_policy,
        sandbox=start.sandbox,
        developer_instructions=start.developer_instructions,
        config=start.config,
        exclude_turns=True,
    )


def _rows_fingerprint(binding: Binding, rows: Sequence[Row]) -> str:
    """Return the fingerprint of rows that are shown by this thread, and no other."""
    whose = [binding.thread, binding.codex, Path(binding.path or "").name]
    return fingerprint(json_bytes([whose, row_keys(rows)]).decode()) if rows else ""
