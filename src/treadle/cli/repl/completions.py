"""Completions: of commands, of their arguments, and of files after ``@``.

Invariant: what is offered is printable and can be sent as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ..output import one_line
from .mentions import ProjectFiles

__all__ = ["LineCompleter", "Words"]

Words = Callable[[str], Iterable[tuple[str, str]]]
"""Returns the words that may stand at the end of a line, each with what it means."""

_LONGEST_MEANING = 80


class LineCompleter(Completer):
    """Completes the last word of a line."""

    def __init__(self, words: Words, files: ProjectFiles) -> None:
        self._words, self._files = words, files

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what the last word may become."""
        del complete_event
        text = document.text_before_cursor
        word = text.rpartition("\n")[2].rpartition(" ")[2]
        if word.startswith("@"):
            yield from self._mentions(word)
        elif text.startswith("/") and "\n" not in text:
            for candidate, meaning in self._words(text):
                if candidate.startswith(word):
                    yield Completion(
                        candidate,
                        start_position=-len(word),
                        display_meta=one_line(meaning, _LONGEST_MEANING),
                    )

    def _mentions(self, word: str) -> Iterable[Completion]:
        for name in self._files.matching(word[1:]):
            if name.isprintable() and '"' not in name:
                mention = f'@"{name}"' if " " in name else f"@{name}"
                yield Completion(f"{mention} ", start_position=-len(word), display=name)
