"""Commands: what a shell script comes to, read by a real parser.

Owns the lowering of ``bash -lc SCRIPT`` to plain commands. Invariant: a script is
lowered only if running it means running exactly those argument lists; anything
that the shell would still expand, redirect or decide stays one opaque command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

from ..core.patterns import regex
from .prefixes import Argv
from .words import words

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

__all__ = ["LONGEST_SCRIPT", "loose_commands", "plain_commands", "segments"]

LONGEST_SCRIPT = 4 << 10
"""Characters of a script that is parsed; of a broken one that takes the square of its length."""

_SHELLS = ("bash", "zsh", "sh")
_SCRIPT_FLAGS = ("-lc", "-c")
_STRUCTURE = words(
    "program list pipeline command command_name word string string_content raw_string "
    "number concatenation"
)
_JOINTS = frozenset(("&&", "||", ";", "|", '"', "\n"))
_EXPANDED = frozenset("{}\\$` \t\n")
_GLOBS = frozenset("*?[")
_ESCAPE = regex(r"\\(.)", re.DOTALL)
_ESCAPABLE = frozenset('$`"\\\n')
_RESERVED = words(
    "case coproc do done elif else esac fi for function if in select then time until while"
)
_WORDS = words("word string raw_string number concatenation")
_UNREADABLE = regex("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BLANK = regex(rb"(?:[ \t\n]++(?:\\\n)?+)*+")


def segments(argv: Sequence[str]) -> tuple[Argv, ...]:
    """The commands that a decision is made about: the plain ones, else `argv` as it is."""
    return plain_commands(argv) or (tuple(argv),)


def plain_commands(argv: Sequence[str]) -> tuple[Argv, ...] | None:
    """`argv` as plain commands; None when it is a script that is more than that.

    >>> plain_commands(("bash", "-lc", "git status && ls | wc -l"))
    (('git', 'status'), ('ls',), ('wc', '-l'))
    >>> plain_commands(("bash", "-lc", "echo $HOME > file"))
    """
    if not _is_script(argv):
        return (tuple(argv),) if argv else None
    script = argv[2]
    if not _is_readable(script):
        return None
    root = _parse(script).root_node
    if root.has_error or not all(map(_is_plain, _walk(root))) or not _is_spaced(script, root):
        return None
    lowered = [_arguments(node) for node in _walk(root) if node.type == "command"]
    if not lowered or any(command is None for command in lowered):
        return None
    return tuple(command for command in lowered if command)


def loose_commands(script: str) -> Iterator[Argv]:
    """Every command anywhere in `script`, its words as good as they can be told.

    For looking for trouble, not for trusting: expansions stay as they are written. Nothing
    of a script that is too long to be parsed.
    """
    if len(script) > LONGEST_SCRIPT:
        return
    for node in _walk(_parse(script).root_node):
        if node.type == "command":
            words = [child for child in node.named_children if child.type != "variable_assignment"]
            yield tuple(map(_loose, words))


def _is_script(argv: Sequence[str]) -> bool:
    return len(argv) == 3 and PurePath(argv[0]).name in _SHELLS and argv[1] in _SCRIPT_FLAGS


def _is_readable(script: str) -> bool:
    """Whether a shell and our parser see the same characters, and a shell sees a script."""
    # The parser takes \r, \v and \f for blanks, which are letters to a shell; and what
    # begins with a sign is one more option to it.
    return (
        len(script) <= LONGEST_SCRIPT
        and _UNREADABLE.search(script) is None
        and not script.startswith(("-", "+"))
    )


def _is_spaced(script: str, root: Node) -> bool:
    """Whether blanks part the words, and nothing but blanks lies between tokens."""
    data = script.encode()
    end, before = 0, None
    for node in _tokens(root):
        gap = data[end : node.start_byte]
        parted = not gap and before in _WORDS and node.type in _WORDS
        if parted or not _BLANK.fullmatch(gap):
            return False
        end, before = node.end_byte, node.type
    return _BLANK.fullmatch(data[end:]) is not None


def _tokens(root: Node) -> Iterator[Node]:
    """The smallest pieces that stand by themselves: words, and what joins commands."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in _WORDS or not node.children:
            yield node
        else:
            waiting.extend(reversed(node.children))


def _is_plain(node: Node) -> bool:
    return node.type in (_STRUCTURE if node.is_named else _JOINTS) and not node.is_missing


def _arguments(command: Node) -> Argv | None:
    words = [_literal(child) for child in command.named_children]
    if any(word is None for word in words) or _GLOBS & set(words[0] or ""):
        return None
    if _text(command.named_children[0]) in _RESERVED:
        return None
    return tuple(word for word in words if word is not None)


def _literal(node: Node) -> str | None:
    """The one argument that `node` always becomes; None when that depends on anything."""
    match node.type:
        case "command_name":
            return _literal(node.named_children[0])
        case "word" | "number":
            return _unquoted(_text(node))
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            return _double_quoted(_text(node)[1:-1])
        case "concatenation":
            return _joined(node)
        case _:
            return None


def _joined(node: Node) -> str | None:
    children = node.named_children
    # Pieces that touch leave no gap; tree-sitter drops what it has no name for, such as braces.
    touching = all(a.end_byte == b.start_byte for a, b in pairwise(children))
    pieces = [_literal(child) for child in children]
    if not touching or any(piece is None for piece in pieces):
        return None
    return "".join(piece for piece in pieces if piece is not None)


def _unquoted(word: str) -> str | None:
    """A word as it stands, unless the shell could make an option of it."""
    letters = set(word)
    starts_open = word.startswith(("=", *_GLOBS)) or (word.startswith("-") and _GLOBS & letters)
    return None if starts_open or _EXPANDED & letters else word


def _double_quoted(text: str) -> str | None:
    escapes = any(a == "\\" and b in _ESCAPABLE for a, b in pairwise(text))
    return None if escapes or "$" in text or "`" in text else text


def _loose(node: Node) -> str:
    match node.type:
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            return _ESCAPE.sub(r"\1", _text(node)[1:-1])
        case "command_name" | "concatenation":
            return "".join(map(_loose, node.children))
        case _:
            return _ESCAPE.sub(r"\1", _text(node))


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(current.children))


def _parse(script: str) -> Tree:
    return _parser().parse(script.encode(errors="surrogatepass"))


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
