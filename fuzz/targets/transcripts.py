"""Transcripts of other agents: any file is imported once, and never raises."""

from __future__ import annotations

import asyncio
import tempfile
from functools import cache
from pathlib import Path

from fuzz.cutting import head_and_rest
from treadle.prompt.registry import Registry, default_registry
from treadle.store.memory import MemoryStore
from treadle.transfer.importing import FORMATS, detect_format, import_paths

__all__ = ["WORDS", "check"]

WORDS = (
    *(b'{"type":"session_meta","payload":{"id":"a"}}\n', b'{"type":"response_item","payload":'),
    *(b'{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}', b"}\n"),
    *(b'{"type":"user","uuid":"a","parentUuid":"b","sessionId":"s","message":', b'{"role":"user",'),
    *(b'"content":"x"', b'{"type":"session","id":"s"}\n', b'{"thread":"t","role":"user",', b"\n"),
    *(b'"parentId":', b'"compacted"', b'"replacement_history":[', b'"leafId":', b'"timestamp":'),
    *(
        b'"item":',
        b'"flags":["',
        b"\\ud800",
        b"\xff",
        b"\xef\xbb\xbf",
        b"null",
        b"1e400",
        b"[" * 64,
    ),
)


@cache
def _file() -> Path:
    return Path(tempfile.mkdtemp(prefix="treadle-fuzz-"), "any.jsonl")


@cache
def _registry() -> Registry:
    return default_registry()


def check(data: bytes) -> None:
    """What a file says becomes entries, counts and complaints; a second time, nothing more."""
    choice, body = head_and_rest(data)
    _file().write_bytes(body)
    detect_format(_file())
    asyncio.run(_twice(choice[0]))


async def _twice(choice: int) -> None:
    store, named = MemoryStore(), FORMATS[choice % len(FORMATS)]
    first = await import_paths(store, [_file()], format=named, registry=_registry())
    again = await import_paths(store, [_file()], format=named, registry=_registry())
    # What a file says twice under one id is present the first time, too.
    assert (again.added, again.present) == (0, first.added + first.present)
