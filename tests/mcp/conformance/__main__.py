"""Runs the conformance suite of the protocol against our client and our server.

    python -m tests.mcp.conformance [client|server]

Both eras are looked at, each with what its revision of the protocol demands. What is known to
fail, and why, is in the files beside this one. The suite fails for anything else, and for what
is listed and passes by now.
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

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
REVISIONS = ("2025-11-25", "2026-07-28")
HERE = Path(__file__).parent
CLIENT = f"{sys.executable} -m tests.mcp.conformance.client_in_turn"
PATIENCE = "600000"


def run(part: str, revision: str, *arguments: str) -> int:
    """Run what a revision demands of the client or the server; the suite prints what fails."""
    program = npm_packages([PACKAGE]) / "@modelcontextprotocol/conformance/dist/index.js"
    known = HERE / f"expected-failures.{part}.{revision}.yml"
    options = ("--requirements", revision, "--expected-failures", str(known))
    command = [str(find_node(22)), str(program), part, *arguments, *options]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[2])}
    with tempfile.TemporaryDirectory() as results:
        done = subprocess.run(command, cwd=results, env=environment, check=False)
    return done.returncode


def main(parts: Sequence[str]) -> int:
    """Run what was asked for, or both."""
    code = 0
    for revision in REVISIONS:
        if "client" in parts or not parts:
            code |= run("client", revision, "--command", CLIENT, "--timeout", PATIENCE)
        if "server" in parts or not parts:
            with served() as url:
                code |= run("server", revision, "--url", url)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
