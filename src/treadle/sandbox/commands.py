"""Commands: the plain commands of a shell script, read by a real parser.

Owns the lowering of ``bash -lc SCRIPT`` to plain commands. Invariant: a script is lowered
only if running it means running exactly those argument lists; anything that the shell would
still expand, redirect or decide stays one opaque command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from ..core.words import word_set
from .approvals import Argv
from .place import is_system_shell

__all__ = [
    "LONGEST_SCRIPT",
    "documents",
    "loose_commands",
    "parse_script",
    "plain_commands",
    "segments",
]

LONGEST_SCRIPT = 4 << 10
"""Characters of a script that is parsed; a broken one takes the square of its length."""

_SCRIPT_FLAGS = ("-lc", "-c")
_STRUCTURE = word_set(
    "program list pipeline command command_name word string string_content raw_string number "
    "concatenation"
)
_JOINTS = frozenset(("&&", "||", ";", "|", '"', "\n"))
_EXPANDED = frozenset("{}\\$` \t\n")
_GLOBS = frozenset("*?[")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPABLE = frozenset('$`"\\\n')
_RESERVED = word_set(
    "case coproc do done elif else esac fi for function if in select then time until while"
)
_WORDS = word_set("word string raw_string number concatenation")
_UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_EXPANDED = 64
_BESIDE = word_set("variable_assignment file_redirect heredoc_redirect herestring_redirect")
"""What stands in a command and is none of its words."""
_FIELD_SEPARATOR = re.compile(r"\$(?:IFS\b|\{IFS[^}]*\})")
_BLANK = re.compile(rb"(?:[ \t\n]++(?:\\\n)?+)*+")


def segments(
    argv: Sequence[str], is_shell: Callable[[str], bool] = is_system_shell
) -> tuple[Argv, ...]:
    """Return the commands to decide about: the plain ones, else `argv` as it is."""
    return plain_commands(argv, is_shell) or (tuple(argv),)


def plain_commands(
    argv: Sequence[str], is_shell: Callable[[str], bool] = is_system_shell
) -> tuple[Argv, ...] | None:
    """Return `argv` as plain commands; None when it is a script that is more than that.

    `is_shell` says whether a word is a shell, and not just a program of that name.

    >>> plain_commands(("bash", "-lc", "git status && ls | wc -l"))
    (('git', 'status'), ('ls',), ('wc', '-l'))
    >>> plain_commands(("bash", "-lc", "echo $HOME > file"))
    """
    if not _is_script(argv, is_shell):
        return (tuple(argv),) if argv else None
    script = argv[2]
    if not _is_readable(script):
        return None
    root = parse_script(script)
    if root.has_error or not all(map(_is_plain, _walk(root))) or not _is_spaced(script, root):
        return None
    lowered = [_arguments(node) for node in _walk(root) if node.type == "command"]
    if not lowered or any(command is None for command in lowered):
        return None
    return tuple(command for command in lowered if command)


def loose_commands(script: str) -> Iterator[Argv]:
    """Yield every command anywhere in `script`, with its words as well as they can be read.

    For finding danger, not for trusting: expansions stay as they are written. Yields nothing
    for a script that is too long to be parsed.
    """
    if len(script) > LONGEST_SCRIPT:
        return
    for node in _walk(parse_script(_FIELD_SEPARATOR.sub(" ", script))):
        if node.type == "command":
            words = [child for child in node.named_children if child.type not in _BESIDE]
            yield tuple(chain.from_iterable(_expand_braces(_loose_text(word)) for word in words))
        elif node.type == "ERROR":
            # What the parser gives up on is still a row of words to a shell.
            yield tuple(chain.from_iterable(map(_expand_braces, _text(node).split())))


def documents(script: str) -> Iterator[str]:
    """Yield the texts that `script` gives to commands as their input."""
    for node in _walk(parse_script(script)):
        if node.type == "heredoc_body":
            yield _text(node)
        elif node.type == "herestring_redirect":
            yield " ".join(map(_loose_text, node.named_children))


def _expand_braces(word: str) -> Iterator[str]:
    """Yield the words that a shell makes of `word`: ``{rm,-f}`` is two."""
    waiting, made = [word], 0
    while waiting and made < _MOST_EXPANDED:
        each = waiting.pop()
        match = _BRACES.search(each)
        if match is None or len(waiting) > _MOST_EXPANDED:
            made += 1
            yield each
            continue
        before, after = each[: match.start()], each[match.end() :]
        waiting += [f"{before}{part}{after}" for part in reversed(match[1].split(","))]


def _is_script(argv: Sequence[str], is_shell: Callable[[str], bool]) -> bool:
    return len(argv) == 3 and argv[1] in _SCRIPT_FLAGS and is_shell(argv[0])


def _is_readable(script: str) -> bool:
    """Return whether a shell and our parser read the same characters, and read a script."""
    # The parser reads \r, \v and \f as blanks, a shell reads them as letters; and a shell
    # reads what begins with a sign as one more option.
    return (
        len(script) <= LONGEST_SCRIPT
        and _UNREADABLE.search(script) is None
        and not script.startswith(("-", "+"))
    )


def _is_spaced(script: str, root: Node) -> bool:
    """Return whether blanks separate the words, and nothing but blanks lies between tokens."""
    data = script.encode()
    end, before = 0, None
    for node in _tokens(root):
        gap = data[end : node.start_byte]
        touching = not gap and before in _WORDS and node.type in _WORDS
        if touching or not _BLANK.fullmatch(gap):
            return False
        end, before = node.end_byte, node.type
    return _BLANK.fullmatch(data[end:]) is not None


def _tokens(root: Node) -> Iterator[Node]:
    """Yield the smallest pieces that stand by themselves: words, and what joins commands."""
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
    """Return the one argument that `node` always becomes; None when that depends on anything."""
    match node.type:
        case "command_name":
            return _literal(node.named_children[0])
        case "word" | "number":
            return _unquoted_word(_text(node))
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            return _double_quoted_text(_text(node)[1:-1])
        case "concatenation":
            return _concatenation(node)
        case _:
            return None


def _concatenation(node: Node) -> str | None:
    children = node.named_children
    # Pieces must touch: tree-sitter drops what it has no name for, such as braces.
    touching = all(a.end_byte == b.start_byte for a, b in pairwise(children))
    pieces = [_literal(child) for child in children]
    if not touching or any(piece is None for piece in pieces):
        return None
    return "".join(piece for piece in pieces if piece is not None)


def _unquoted_word(word: str) -> str | None:
    """Return a word as it stands, unless the shell could make an option of it."""
    letters = set(word)
    starts_open = word.startswith(("=", *_GLOBS)) or (word.startswith("-") and _GLOBS & letters)
    return None if starts_open or _EXPANDED & letters else word


def _double_quoted_text(text: str) -> str | None:
    escapes = any(a == "\\" and b in _ESCAPABLE for a, b in pairwise(text))
    return None if escapes or "$" in text or "`" in text else text


def _loose_text(node: Node) -> str:
    match node.type:
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            return _ESCAPE.sub(r"\1", _text(node)[1:-1])
        case "command_name" | "concatenation":
            return "".join(map(_loose_text, node.children))
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


def parse_script(script: str) -> Node:
    """Parse a shell script and return the root of its syntax tree."""
    # A parser of its own: verdicts are reached in several threads at once.
    return Parser(_bash()).parse(script.encode(errors="surrogatepass")).root_node


@lru_cache(maxsize=1)
def _bash() -> Language:
    return Language(tree_sitter_bash.language())
