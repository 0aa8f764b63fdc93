"""How models are told about `apply_patch`.

Owns the grammar that constrains a model's output and the two forms of the tool.
Invariant: whatever the grammar lets through, the parser reads.
"""

from __future__ import annotations

from ...core.specs import CustomTool, FunctionTool, Grammar, parameters

__all__ = ["GRAMMAR", "freeform_spec", "function_spec"]

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
"""The format as a lark grammar."""

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


def freeform_spec() -> CustomTool:
    """The tool for models that write a patch as plain text."""
    grammar = Grammar(syntax="lark", definition=GRAMMAR)
    return CustomTool(name="apply_patch", description=_FREEFORM, format=grammar)


def function_spec() -> FunctionTool:
    """The tool for models that only call functions; its argument is ``input``."""
    schema = parameters(
        {"input": {"type": "string", "description": "The whole patch, from Begin to End."}},
        required=("input",),
    )
    return FunctionTool(name="apply_patch", description=_FUNCTION, parameters=schema)
