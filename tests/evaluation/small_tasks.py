"""Tasks of some lines, for tests of what runs them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["TEST", "write_task"]

TEST = """\
if grep -qx mended thing.txt; then echo 1; else echo 0.25; fi > /logs/verifier/reward.txt
"""
SCRIPT = """\
[[answer]]
[[answer.calls]]
name = "exec_command"
arguments = { cmd = "echo mended > thing.txt" }

[[answer]]
text = "Mended."
"""


def write_task(
    place: Path,
    *,
    settings: str = "",
    instruction: str = "Mend thing.txt: it must say so.",
    dockerfile: str = "FROM python:3.13\nWORKDIR /app\nCOPY . .\n",
    test: str = TEST,
    script: str = SCRIPT,
) -> Path:
    files = {
        "task.toml": settings or 'schema_version = "1.4"\n',
        "instruction.md": instruction,
        "environment/Dockerfile": dockerfile,
        "environment/thing.txt": "broken\n",
        "tests/test.sh": test,
        "solution/script.toml": script,
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place
