"""What a real shell makes of a script: the argument lists it would run, and no more.

No program can be found, so that each command falls to a function that only writes it down.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

HOME = "/home/somebody"
_RECORDER = 'command_not_found_handle() { printf "%s\\0" "$@" "" $\'\\x02\' >&$RECORD; }\n'
_END = b"\0\x02\0"


def run_by_bash(script: str) -> tuple[Counter[tuple[bytes, ...]], bool]:
    """The commands that bash came to, and whether it read the script at all."""
    with tempfile.TemporaryDirectory() as name:
        recorder, place = Path(name, "recorder"), Path(name, "place")
        recorder.write_text(_RECORDER)
        place.mkdir()
        reader, writer = os.pipe()
        try:
            done = subprocess.run(
                ["/bin/bash", "-c", script],
                env={"BASH_ENV": str(recorder), "PATH": "/nowhere", "HOME": HOME}
                | {"LC_ALL": "C.UTF-8", "RECORD": str(writer)},
                cwd=place,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=(writer,),
                check=False,
            )
        finally:
            os.close(writer)
            with os.fdopen(reader, "rb") as pipe:
                data = pipe.read()
    said = [record.split(b"\0")[:-1] for record in data.split(_END) if record]
    return Counter(tuple(words) for words in said), b"syntax error" not in done.stderr
