"""Patches that were sent as a shell command.

Owns which scripts count as a call of `apply_patch`: the whole script is one heredoc or
one quoted argument for it, at most after `cd` to one literal path. Invariant: a script that
a shell would read in any other way is left to the shell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct
from tree_sitter import Node

from ...sandbox.commands import parse_script
from .errors import ImplicitPatch, InvalidPatch
from .parser import parse_patch

__all__ = ["PatchCommand", "find_patch"]

_NAMES = ("apply_patch", "applypatch")
_SHELLS = ("bash", "zsh", "sh")
_FLAGS = ("-lc", "-c")
_WHOLE = "redirected_statement"
_HEREDOC = ["heredoc_start", "heredoc_body", "heredoc_end"]
_OPENING = re.compile(r"<<-?\s*[\"'\\]?([\w.-]+)[\"']?\s*$")
_QUOTED = re.compile(
    r"(?:cd\s+(?:'(?P<raw>[^'\n]+)'|(?P<plain>[\w./+@%,:=][\w./+@%,:=-]*))\s*&&\s*)?"
    r"(?:apply_patch|applypatch)\s+(?P<quote>['\"])"
)
_PUT_IN = re.compile(r'(?<!\\)(?:\\\\)*["$`]')
"""What ends a double-quoted word, or has the shell put something in its place."""
_LONGEST_OPENING = 2_048
"""Characters before the patch itself: a directory to go to, and the command."""
_SPECIAL = frozenset("\\*?[]{}~$`!\"'")


class PatchCommand(Struct, frozen=True):
    """A patch found in a command, and the directory the command went to first."""

    patch: str
    workdir: str | None = None


def find_patch(command: Sequence[str] | str) -> PatchCommand | None:
    """Return the patch that `command` applies: an argument vector, or a script for a shell.

    None when the command is something else. Raises `ImplicitPatch` when the command
    is a bare patch. The patch itself is not checked.
    """
    if isinstance(command, str):
        return _find_in_script(command)
    match command:
        case [name, patch] if name in _NAMES:
            return PatchCommand(patch)
        case [script]:
            _refuse_bare(script)
        case [shell, flag, script] if flag in _FLAGS and _is_shell(shell):
            return _find_in_script(script)
    return None


def _is_shell(name: str) -> bool:
    return PurePath(name).stem.lower() in _SHELLS


def _refuse_bare(script: str) -> None:
    try:
        parse_patch(script)
    except InvalidPatch:
        return
    raise ImplicitPatch


def _find_in_script(script: str) -> PatchCommand | None:
    _refuse_bare(script)
    if not _is_heredoc(script):
        return _find_quoted(script)
    root = parse_script(script)
    if root.has_error or [node.type for node in root.named_children] != [_WHOLE]:
        return None
    statement = root.named_children[0]
    body, heredocs = statement.child_by_field_name("body"), statement.named_children[1:]
    if body is None or [node.type for node in heredocs] != ["heredoc_redirect"]:
        return None
    is_call, workdir = _read_call(body)
    patch = _heredoc(heredocs[0])
    return PatchCommand(patch, workdir) if is_call and patch is not None else None


def _find_quoted(script: str) -> PatchCommand | None:
    """Return the patch that is the one quoted argument of a call."""
    text = script.strip()
    found = _QUOTED.match(text)
    if found is None or len(text) <= found.end() or text[-1] != found["quote"]:
        return None
    body = text[found.end() : -1]
    patch = _single_quoted(body) if found["quote"] == "'" else _double_quoted(body)
    workdir = found["raw"] if found["raw"] is not None else found["plain"]
    return None if patch is None else PatchCommand(patch.strip("\n"), workdir)


def _single_quoted(body: str) -> str | None:
    """Return what stands between single quotes; a quote within is left, typed and begun again."""
    parts = body.split("'\\''")
    return None if any("'" in part for part in parts) else "'".join(parts)


def _double_quoted(body: str) -> str | None:
    """Return what stands between double quotes, if a shell would put nothing in."""
    if _PUT_IN.search(body):
        return None
    return re.sub(r'\\([\\"$`])', r"\1", body)


def _is_heredoc(script: str) -> bool:
    """Return whether the script may be one heredoc for us; any other is left to the shell unparsed.

    Parsing a broken script takes the square of its length; of a heredoc, one look.
    """
    opening, _, rest = script.strip().partition("\n")
    found = _OPENING.search(opening) if len(opening) <= _LONGEST_OPENING else None
    if found is None or not any(name in opening for name in _NAMES):
        return False
    lines = [line.strip() for line in rest.split("\n")]
    return found[1] in lines and lines.index(found[1]) == len(lines) - 1


def _read_call(body: Node) -> tuple[bool, str | None]:
    """Return whether `body` is a call of `apply_patch`, and the directory it changes to first."""
    if body.type == "command":
        return _is_call(body), None
    if body.type != "list" or [node.type for node in body.children] != ["command", "&&", "command"]:
        return False, None
    match _words(body.children[0]):
        case ["cd", str(workdir)] if _is_call(body.children[2]):
            return True, workdir
    return False, None


def _is_call(command: Node) -> bool:
    match _words(command):
        case [name] if name in _NAMES:
            return True
    return False


def _words(command: Node) -> list[str | None]:
    """Return the words of a command; None for one that a shell would not take literally."""
    return [_literal(node) for node in command.named_children]


def _literal(node: Node) -> str | None:
    text = _text(node)
    match node.type:
        case "command_name" | "word" | "number":
            return None if text.startswith("-") or _SPECIAL & set(text) else text
        case "raw_string":
            return text[1:-1]
        case "string" if [child.type for child in node.named_children] == ["string_content"]:
            return None if "\\" in text else _text(node.named_children[0])
    return None


def _heredoc(redirect: Node) -> str | None:
    if [node.type for node in redirect.named_children] != _HEREDOC:
        return None
    patch = _text(redirect.named_children[1])
    if redirect.children[0].type == "<<-":
        patch = "\n".join(line.lstrip("\t") for line in patch.split("\n"))
    return patch.rstrip("\n")


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="surrogatepass")
