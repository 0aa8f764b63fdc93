"""Capabilities: what a plug-in has is found by the names of a Protocol."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Protocol, runtime_checkable

import pytest

from treadle.core.capability import offers


@runtime_checkable
class Sings(Protocol):
    volume: int

    def sing(self) -> str: ...


@runtime_checkable
class SingsLoudly(Sings, Protocol):
    def shout(self) -> str: ...


class Singer:
    volume = 3

    def sing(self) -> str:
        return "la"


class LoudSinger(Singer):
    def shout(self) -> str:
        return "LA"


MUTE = SimpleNamespace(volume=0)
MADE = SimpleNamespace(volume=1, sing=lambda: "la", _hidden=1)


@pytest.mark.parametrize("capability", [Sings, SingsLoudly])
@pytest.mark.parametrize("thing", [Singer(), LoudSinger(), MUTE, MADE, None, 7])
def test_the_answer_is_that_of_isinstance(thing: object, capability: type) -> None:
    assert offers(thing, capability) == isinstance(thing, capability)


def test_a_protocol_asks_for_what_it_inherits_too() -> None:
    assert offers(LoudSinger(), SingsLoudly)
    assert not offers(Singer(), SingsLoudly)
    assert offers(MADE, Sings)
