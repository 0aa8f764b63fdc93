"""The program that Codex runs for its own hooks: it hands the event to Treadle.

Owns nothing: it copies one event from its input to a socket, and the answer to its output.
Invariant: it ends with 0 only if Treadle has answered. It is run by its path, without this
package, so it imports nothing but the standard library.
"""

import os
import socket
import sys

__all__ = ["main"]

_CHUNK = 1 << 16


def main() -> int:
    """Pass on the event; the arguments are the directory and the name of the socket."""
    event = sys.stdin.buffer.read()
    # The path of a socket may have 107 bytes only; a name in the working directory is short.
    os.chdir(sys.argv[1])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(sys.argv[2])
        connection.sendall(event)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(_CHUNK):
            answer += chunk
    if not answer.endswith(b"\n"):
        sys.stderr.write("Treadle did not answer whether the call may run")
        return 1
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.stderr.write(f"Treadle could not be asked whether the call may run: {error}")
        sys.exit(1)
