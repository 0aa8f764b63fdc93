from __future__ import annotations

import asyncio
import os
from pathlib import Path

from treadle.core.ids import uuid7
from treadle.core.marked_processes import kill_marked, read_marks

MARK = "TREADLE_TEST_MARK"


async def test_a_process_is_never_missed_while_it_changes_its_program(tmp_path: Path):
    restless = tmp_path / "restless.sh"
    restless.write_text('#!/bin/sh\nexec "$0"\n')
    restless.chmod(0o755)
    mark = uuid7().hex
    # The more variables the kernel has to lay out, the longer it looks as if there were none.
    others = {f"V{number}": "v" for number in range(2_000)}
    environ = {**os.environ, **others, MARK: mark}
    process = await asyncio.create_subprocess_exec(restless, env=environ)
    try:
        found = [read_marks(process.pid, MARK) for _ in range(2_000)]
        assert [marks for marks in found if marks is not None and marks != [mark]] == []
    finally:
        await kill_marked(MARK, mark)
        await process.wait()
    assert process.returncode == -9
