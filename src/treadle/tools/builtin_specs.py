"""The specifications of the built-in tools: every word that models read about them.

Owns these texts and the grammar of patches. Invariants: they are constants, so a tool list
never breaks a cached prefix by chance; whatever the grammar accepts, the parser of patches
reads.
"""

from __future__ import annotations

from ..core.specs import CustomTool, FunctionTool, Grammar, LocalShellTool, parameters

__all__ = [
    "APPLY_PATCH_FREEFORM",
    "APPLY_PATCH_FUNCTION",
    "EXEC_COMMAND",
    "GRAMMAR",
    "LOCAL_SHELL",
    "READ_OUTPUT",
    "REQUEST_USER_INPUT",
    "SHELL",
    "SHELL_COMMAND",
    "UPDATE_PLAN",
    "VIEW_IMAGE",
    "VIEW_ORIGINAL_IMAGE",
    "WRITE_STDIN",
]

_ESCALATION: dict[str, dict[str, object]] = {
    "sandbox_permissions": {
        "type": "string",
        "enum": ["use_default", "require_escalated"],
        "description": "Use require_escalated to ask the user to run this outside the sandbox; "
        "the default is use_default.",
    },
    "justification": {
        "type": "string",
        "description": "Only with require_escalated: one question to the user that says what the "
        "command is needed for.",
    },
    "prefix_rule": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Only with require_escalated: the first words of the command, if commands "
        'that begin so could be approved for good, for example ["npm", "install"].',
    },
}
"""The parameters with which a model asks for more permission."""
_YIELD: dict[str, object] = {
    "type": "number",
    "description": "Milliseconds to wait for output before the call returns; the command goes on.",
}
_TOKENS: dict[str, object] = {
    "type": "number",
    "description": "How many tokens of output to return; more is cut in the middle.",
}

EXEC_COMMAND = FunctionTool(
    name="exec_command",
    description="Runs a command in a shell. Returns its output, or, when it is still "
    "running, what it has written so far and a session ID for write_stdin.",
    parameters=parameters(
        {
            "cmd": {"type": "string", "description": "The command line to run."},
            "workdir": {
                "type": "string",
                "description": "The directory to run in; the thread's own by default.",
            },
            "shell": {
                "type": "string",
                "description": "The shell to use; the user's own by default.",
            },
            "login": {
                "type": "boolean",
                "description": "Whether the shell reads login files; true by default.",
            },
            "tty": {
                "type": "boolean",
                "description": "Whether the command gets a terminal to read from and write to; "
                "false by default: its input is empty.",
            },
            "yield_time_ms": _YIELD,
            "max_output_tokens": _TOKENS,
            **_ESCALATION,
        },
        required=("cmd",),
    ),
)

WRITE_STDIN = FunctionTool(
    name="write_stdin",
    description="Types into a command that exec_command left running and returns what "
    "it has written since. Without chars it only waits for output.",
    parameters=parameters(
        {
            "session_id": {
                "type": "number",
                "description": "The session ID that exec_command returned.",
            },
            "chars": {
                "type": "string",
                "description": "What to type; may be empty. \\u0003 interrupts it.",
            },
            "yield_time_ms": _YIELD,
            "max_output_tokens": _TOKENS,
        },
        required=("session_id",),
    ),
)

_COMMON: dict[str, dict[str, object]] = {
    "workdir": {
        "type": "string",
        "description": "The directory to run in; the thread's own by default.",
    },
    "timeout_ms": {
        "type": "number",
        "description": "Milliseconds after which the command is ended; 10000 by default.",
    },
    "sandbox_permissions": _ESCALATION["sandbox_permissions"],
    "justification": _ESCALATION["justification"],
}

SHELL = FunctionTool(
    name="shell",
    description="Runs a program with arguments and returns its output. For shell syntax "
    'use ["bash", "-lc", "…"]. Set workdir instead of using cd.',
    parameters=parameters(
        {
            "command": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The program and its arguments.",
            },
            **_COMMON,
        },
        required=("command",),
    ),
)

SHELL_COMMAND = FunctionTool(
    name="shell_command",
    description="Runs a command line in the user's shell and returns its output. "
    "Set workdir instead of using cd.",
    parameters=parameters(
        {
            "command": {"type": "string", "description": "The command line to run."},
            "login": {
                "type": "boolean",
                "description": "Whether the shell reads login files; true by default.",
            },
            **_COMMON,
        },
        required=("command",),
    ),
)

LOCAL_SHELL = LocalShellTool()

_STEP = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        "step": {"type": "string"},
    },
    "required": ["step", "status"],
    "additionalProperties": False,
}

UPDATE_PLAN = FunctionTool(
    name="update_plan",
    description="Replaces the plan of your work. At most one step is in_progress at a time.",
    parameters=parameters(
        {
            "explanation": {"type": "string", "description": "Why the plan changed."},
            "plan": {"type": "array", "items": _STEP, "description": "All of the steps."},
        },
        required=("plan",),
    ),
)


def _object(properties: dict[str, dict[str, object]]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_OPTION = _object(
    {
        "description": {"type": "string", "description": "What choosing it means, in a sentence."},
        "label": {"type": "string", "description": "One to five words."},
    }
)
_QUESTION = _object(
    {
        "header": {"type": "string", "description": "A heading of at most 12 characters."},
        "id": {"type": "string", "description": "A name for the answer, in snake_case."},
        "options": {
            "type": "array",
            "items": _OPTION,
            "description": "Two or three choices, the best one first. "
            "The user can always answer in other words.",
        },
        "question": {"type": "string", "description": "The question, in one sentence."},
    }
)

REQUEST_USER_INPUT = FunctionTool(
    name="request_user_input",
    description="Asks the user one to three short questions and waits for the answers.",
    parameters=parameters(
        {
            "questions": {
                "type": "array",
                "items": _QUESTION,
                "description": "One to three questions.",
            }
        },
        required=("questions",),
    ),
)

GRAMMAR = r"""start: BEGIN section+ END LF?
section: add | delete | update

add: "*** Add File: " PATH LF (ADDED LF)+
delete: "*** Delete File: " PATH LF
update: "*** Update File: " PATH LF move? chunk (place chunk)*
      | "*** Update File: " PATH LF move? (place chunk)+

move: "*** Move to: " PATH LF
place: ("@@" | "@@ " PATH) LF
chunk: ((ADDED | REMOVED | KEPT) LF)+ ("*** End of File" LF)?

BEGIN: "*** Begin Patch\n"
END: "*** End Patch"
PATH: /[^\r\n]+/
ADDED: /\+[^\r\n]*/
REMOVED: /-[^\r\n]*/
KEPT: / [^\r\n]*/
LF: "\n"
"""
"""The format of patches as a lark grammar."""

_FREEFORM = (
    "Edit files with a patch: add, change, move and delete any number of them in one call. "
    "The patch is applied whole or not at all. "
    "This is a FREEFORM tool: send the patch itself, not JSON."
)

_FUNCTION = """\
Edit files with a patch: add, change, move and delete any number of them in one call.
The patch is applied whole or not at all.

A patch stands between two lines and has one section for each file:

*** Begin Patch
*** Add File: path/of/new.txt
+every line of a new file starts with a plus
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
     name = ask()
-    print("Hi")
+    print(f"Hello, {name}")
     return name
*** Delete File: path/of/old.txt
*** End Patch

In an update, a line to remove starts with "-", a line to add with "+", and an unchanged
line with a space. Show about three unchanged lines before and after each change. Begin
every change but the first with "@@"; where the unchanged lines stand more than once in
the file, write the line of the enclosing class or function after it. Keep the changes in
the order of the file. "Move to" is optional. A change that touches the last line of the
file may end with "*** End of File". Name each file once; paths are relative to the
working directory."""

APPLY_PATCH_FREEFORM = CustomTool(
    name="apply_patch",
    description=_FREEFORM,
    format=Grammar(syntax="lark", definition=GRAMMAR),
)
"""For models that write a patch as plain text."""

APPLY_PATCH_FUNCTION = FunctionTool(
    name="apply_patch",
    description=_FUNCTION,
    parameters=parameters(
        {"input": {"type": "string", "description": "The whole patch, from Begin to End."}},
        required=("input",),
    ),
)
"""For models that only call functions."""


_IMAGE_PATH: dict[str, dict[str, object]] = {
    "path": {"type": "string", "description": "The path of the image file."}
}
_IMAGE_DETAIL: dict[str, dict[str, object]] = {
    "detail": {
        "type": "string",
        "enum": ["high", "original"],
        "description": "original sends the image in its own resolution.",
    }
}

VIEW_IMAGE = FunctionTool(
    name="view_image",
    description="Shows you an image file: PNG, JPEG, GIF or WebP.",
    parameters=parameters(_IMAGE_PATH, required=("path",)),
)

VIEW_ORIGINAL_IMAGE = FunctionTool(
    name="view_image",
    description=VIEW_IMAGE.description,
    parameters=parameters({**_IMAGE_PATH, **_IMAGE_DETAIL}, required=("path",)),
)
"""For models that take images in their own resolution."""


READ_OUTPUT = FunctionTool(
    name="read_output",
    description="Reads the full output of an earlier command whose result names a "
    "handle: some bytes of it, or the lines that match a pattern.",
    parameters=parameters(
        {
            "handle": {
                "type": "string",
                "description": "The handle after `Full output:`.",
            },
            "offset": {
                "type": "number",
                "description": "The first byte to look at; a negative one counts from "
                "the end. 0 by default.",
            },
            "limit": {
                "type": "number",
                "description": "How many bytes to return; 16000 by default.",
            },
            "pattern": {
                "type": "string",
                "description": "Text to look for: only lines that contain it are "
                "returned, each after the byte it starts at. `*` stands for any text, "
                "`|` parts alternatives.",
            },
        },
        required=("handle",),
    ),
)
