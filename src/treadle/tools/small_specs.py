"""The specifications of the built-in tools for small windows: fewer words, fewer arguments.

Owns these texts. Invariants: the tools are those of `builtin_specs` by name and meaning, so that
a thread that moves to a wider window repeats nothing; together they take fewer than 600 tokens.
"""

from __future__ import annotations

from ..core.specs import FunctionTool, parameters

__all__ = ["SMALL_APPLY_PATCH", "SMALL_EXEC_COMMAND", "SMALL_READ_OUTPUT", "SMALL_WRITE_STDIN"]

_WAIT: dict[str, object] = {
    "type": "number",
    "description": "Milliseconds to wait for the command; 10000 by default.",
}

SMALL_EXEC_COMMAND = FunctionTool(
    name="exec_command",
    description="Runs a shell command in the working directory and returns its output.",
    parameters=parameters(
        {"cmd": {"type": "string", "description": "The command line."}, "yield_time_ms": _WAIT},
        required=("cmd",),
    ),
)

SMALL_WRITE_STDIN = FunctionTool(
    name="write_stdin",
    description="Types into a command that is still running. Only for a result that says "
    "`Process running with session ID`.",
    parameters=parameters(
        {
            "session_id": {"type": "number", "description": "The number in that line."},
            "chars": {"type": "string", "description": "What to type; empty only waits."},
        },
        required=("session_id",),
    ),
)

SMALL_READ_OUTPUT = FunctionTool(
    name="read_output",
    description="Reads what was cut from a result that names a handle after `Full output:`.",
    parameters=parameters(
        {
            "handle": {"type": "string", "description": "The handle."},
            "offset": {"type": "number", "description": "The first byte; 0 by default."},
            "pattern": {"type": "string", "description": "Return only lines with this text."},
        },
        required=("handle",),
    ),
)

SMALL_APPLY_PATCH = FunctionTool(
    name="apply_patch",
    description="""\
Changes files. The patch looks like this:
*** Begin Patch
*** Update File: src/app.py
@@ def greet():
     name = ask()
-    print("Hi")
+    print("Hello", name)
*** Add File: new.txt
+every line of a new file begins with a plus
*** End Patch
Lines that stay begin with a space; give three of them around a change.""",
    parameters=parameters(
        {"input": {"type": "string", "description": "The whole patch."}}, required=("input",)
    ),
)
