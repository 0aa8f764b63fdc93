"""Starts the client when no other one runs: the suite starts those of all scenarios at once.

So many processes at a time take longer for a step than its servers keep a connection open.
"""

from __future__ import annotations

import fcntl
import os
import sys

if __name__ == "__main__":
    # The lock belongs to the descriptor, which the client inherits and its end closes.
    lock = os.open("turn.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)
    client = (sys.executable, "-m", "tests.mcp.conformance.client", *sys.argv[1:])
    os.execv(sys.executable, client)
