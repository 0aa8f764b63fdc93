"""Fragments: nothing that data says can forge a fragment, or be taken for another's marker."""

from __future__ import annotations

from functools import cache

from tests.prompt.samples import SAMPLES

from fuzz.cutting import head_and_rest
from treadle.prompt import default_registry
from treadle.prompt.registry import Registry

__all__ = ["WORDS", "check"]

WORDS = (
    *(b"<skill>", b"</skill>", b"<environment_context>", b"</INSTRUCTIONS>", b"<external_"),
    *(
        b"# AGENTS.md instructions",
        b"Approved command prefix saved:",
        b"<permissions instructions>",
    ),
    *(b"<", b"</", b">", b" ", b"\n", b"\t", b"\xc2\xa0", b"\xe2\x80\xa8", b"\x1c", b"&lt;", b"/"),
    *("\u017fK\u0130".encode(), b"\xe2\x84\xaa", b"\xef\xbc\x9c"),
)
_NAMES = sorted(SAMPLES)
_UNRECOGNISED = ("application_context", "developer_instructions", "hook_context")


@cache
def _registry() -> Registry:
    return default_registry()


def check(data: bytes) -> None:
    """A fragment around any text is known as itself and as nothing else, whole and cut."""
    choice, body = head_and_rest(data)
    name, text = _NAMES[choice[0] % len(_NAMES)], body.decode(errors="replace")
    fragment, registry = SAMPLES[name](text), _registry()
    expected = None if name in _UNRECOGNISED else name
    other = "user" if fragment.role == "developer" else "developer"
    for said in (fragment.render(), fragment.rendering().text):
        assert registry.recognise(fragment.role, said) == expected
        assert registry.recognise(other, said) is None
    quoted = registry.vocabulary.quote(text)
    assert registry.vocabulary.quote(quoted) == quoted
    assert registry.recognise("user", quoted) is None
    assert registry.recognise("developer", quoted) is None
