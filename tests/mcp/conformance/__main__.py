"""Runs the conformance suite of the protocol against our client and our server.

    python -m tests.mcp.conformance [client|server]

What is known to fail, and why, is in the files beside this one. The suite fails for anything
else, and for what is listed and passes by now.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mcp.conformance.served import served
from tests.node import find_node, npm_packages

PACKAGE = "@modelcontextprotocol/conformance@0.1.16"
HERE = Path(__file__).parent
CLIENT = f"{sys.executable} -m tests.mcp.conformance.client"


def run(*arguments: str) -> int:
    """Run the suite; it prints what fails."""
    program = npm_packages([PACKAGE]) / "@modelcontextprotocol/conformance/dist/index.js"
    root = HERE.parents[2]
    command: Sequence[str | Path] = [find_node(22), program, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with tempfile.TemporaryDirectory() as results:
        done = subprocess.run(command, cwd=results, env=environment, check=False)
    return done.returncode


def main(parts: Sequence[str]) -> int:
    """Run what was asked for, or both."""
    code = 0
    if "client" in parts or not parts:
        known = str(HERE / "expected-failures.client.yml")
        code |= run(
            *("client", "--command", CLIENT, "--suite", "all", "--timeout", "120000"),
            *("--expected-failures", known),
        )
    if "server" in parts or not parts:
        known = str(HERE / "expected-failures.server.yml")
        with served() as url:
            code |= run("server", "--url", url, "--expected-failures", known)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
