from __future__ import annotations

from treadle.core.items import Item, encode_item
from treadle.models.formats.function_calls import StepOrder

from .samples import call, output, said, user


def ordered(*items: Item, talk: bool = True) -> list[Item]:
    order = StepOrder(text_after_calls=talk)
    return [ready for item in items for ready in order.add(item)]


def test_a_call_made_while_others_are_answered_waits_for_the_last_output():
    a, b, c = call("a"), call("b"), call("c")
    given = ordered(a, b, output("a"), c, output("b"), output("c"), user("x"))
    assert given == [a, b, output("a"), output("b"), c, output("c"), user("x")]


def test_an_output_of_a_call_that_waits_waits_with_it():
    a, b = call("a"), call("b")
    given = ordered(a, user("x"), output("a"), b, output("b"))
    assert given == [a, output("a"), user("x"), b, output("b")]
    held = ordered(a, call("c"), output("c"), b, output("b"), output("a"))
    assert held == [a, call("c"), output("c"), output("a"), b, output("b")]


def test_words_between_calls_stay_or_wait_as_the_api_allows():
    items = (call("a"), said("and"), call("b"), output("a"), output("b"))
    assert ordered(*items, talk=True) == list(items)
    assert ordered(*items, talk=False) == [
        call("a"),
        call("b"),
        output("a"),
        output("b"),
        said("and"),
    ]


def test_an_output_without_a_call_is_dropped():
    assert ordered(output("a"), user("x")) == [user("x")]


def test_a_call_id_may_be_used_again_once_it_was_answered():
    items = (call("a"), output("a"), call("a"), output("a"))
    assert ordered(*items) == list(items)


def test_a_copy_holds_its_own():
    order = StepOrder(text_after_calls=True)
    order.add(call("a"))
    order.add(user("x"))
    copy = order.copy()
    assert order.add(output("a")) == copy.add(output("a")) == [output("a"), user("x")]
    assert encode_item(order.add(user("y"))[0]) == encode_item(user("y"))
