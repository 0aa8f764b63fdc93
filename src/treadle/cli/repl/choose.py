"""Choosing: one of several rows, by arrow keys and typed words, or by its number.

Invariant: a row fits into one line of any terminal, and leaving without a choice changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from prompt_toolkit import Application, PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output
from prompt_toolkit.utils import get_cwidth

from ..output import one_line
from .fitting import fit

__all__ = ["Choice", "choose"]

_MOST_ROWS = 10
_ESCAPE_SECONDS = 0.1
"""How long a terminal may take to send the rest of a key that begins with Escape."""


class Choice(Struct, frozen=True):
    """A row: what it is, and what helps to tell it from others."""

    label: str
    about: str = ""


async def choose(
    title: str,
    choices: Sequence[Choice],
    *,
    start: int = 0,
    plain: bool = False,
    keyboard: Input | None = None,
    output: Output | None = None,
) -> int | None:
    """Let the user choose; return the position of the choice, or None."""
    if plain:
        return await _choose_number(title, choices, keyboard, output)
    return await _List(title, choices, start).application(keyboard, output).run_async()


async def _choose_number(
    title: str, choices: Sequence[Choice], keyboard: Input | None, output: Output | None
) -> int | None:
    rows = (_row_text(number, choice) for number, choice in enumerate(choices, 1))
    session: PromptSession[str] = PromptSession(input=keyboard, output=output)
    question = "\n".join([title, *rows, "a number, or nothing to leave it > "])
    while True:
        try:
            said = (await session.prompt_async(question)).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not said:
            return None
        if said.isdecimal() and len(said) <= 9 and 1 <= int(said) <= len(choices):
            return int(said) - 1
        question = f"there is no number {said!r}; from 1 to {len(choices)} > "


def _row_text(number: int, choice: Choice) -> str:
    about = f" ({one_line(choice.about)})" if choice.about else ""
    return f"{number}. {one_line(choice.label)}{about}"


@dataclass(slots=True)
class _List:
    title: str
    choices: Sequence[Choice]
    position: int
    """Within the rows that match."""
    words: str = field(init=False, default="")

    @property
    def matches(self) -> list[int]:
        """Return the positions of the rows that contain every typed word."""
        wanted = self.words.lower().split()
        texts = (f"{choice.label} {choice.about}".lower() for choice in self.choices)
        return [at for at, text in enumerate(texts) if all(word in text for word in wanted)]

    def application(self, keyboard: Input | None, output: Output | None) -> Application[int | None]:
        control = FormattedTextControl(self._rows, show_cursor=False, focusable=True)
        app: Application[int | None] = Application(
            Layout(Window(control, dont_extend_height=True, always_hide_cursor=True)),
            key_bindings=self._keys(),
            input=keyboard,
            output=output,
            erase_when_done=True,
        )
        app.ttimeoutlen = app.timeoutlen = _ESCAPE_SECONDS
        return app

    def _rows(self) -> StyleAndTextTuples:
        columns = get_app().output.get_size().columns - 1
        found = self.matches
        self.position = max(0, min(self.position, len(found) - 1))
        first = max(0, min(self.position - _MOST_ROWS // 2, len(found) - _MOST_ROWS))
        typed = f" {self.words}" if self.words else ""
        shown: StyleAndTextTuples = [("bold", fit(f"{self.title}{typed}", columns) + "\n")]
        visible = range(first, min(first + _MOST_ROWS, len(found)))
        label = max(
            (get_cwidth(one_line(self.choices[found[at]].label)) for at in visible), default=0
        )
        for at in visible:
            chosen = at == self.position
            shown += _row(self.choices[found[at]], columns, label, chosen=chosen)
        left = len(found) - first - _MOST_ROWS
        told = "nothing matches · " if not found else f"{left} more below · " if left > 0 else ""
        hint = f"{told}type to filter · Enter takes it · Esc leaves"
        shown.append(("class:hint fg:ansibrightblack", fit(hint, columns)))
        return shown

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for names, step in (
            (("up", "c-p"), -1),
            (("down", "c-n"), 1),
            (("pageup",), -_MOST_ROWS),
            (("pagedown",), _MOST_ROWS),
        ):
            for name in names:
                keys.add(name)(lambda _event, by=step: self._move(by))
        keys.add("enter", filter=Condition(lambda: bool(self.matches)))(self._take)
        keys.add("backspace")(lambda _event: self._type(self.words[:-1]))
        keys.add("c-u")(lambda _event: self._type(""))
        for name in ("escape", "c-c", "c-d", Keys.SIGINT):
            keys.add(name)(lambda event: event.app.exit(result=None))
        keys.add(Keys.Any)(self._add)
        return keys

    def _move(self, by: int) -> None:
        self.position = max(0, min(self.position + by, len(self.matches) - 1))

    def _type(self, words: str) -> None:
        self.words, self.position = words, 0

    def _add(self, event: KeyPressEvent) -> None:
        if event.data.isprintable():
            self._type(self.words + event.data)

    def _take(self, event: KeyPressEvent) -> None:
        event.app.exit(result=self.matches[self.position])


def _row(choice: Choice, columns: int, widest: int, *, chosen: bool) -> StyleAndTextTuples:
    """Return one line; the labels keep at least half of it, and what they leave is for the rest."""
    style, pointer = ("bold", "> ") if chosen else ("", "  ")
    about = fit(one_line(choice.about), max(columns // 2, columns - len(pointer) - widest - 2))
    room = columns - len(pointer) - (get_cwidth(about) + 2 if about else 0)
    label = fit(one_line(choice.label), room, pad=True)
    return [(style, f"{pointer}{label}"), ("fg:ansibrightblack", f"  {about}".rstrip() + "\n")]
