from __future__ import annotations

import pytest
from msgspec import Raw

from treadle.delivery.channel import Reply, ReplyOrigin
from treadle.delivery.decision import Destination, choose_destination
from treadle.delivery.replies import (
    Directives,
    final_reply,
    is_public_url,
    is_silent,
    parse_directives,
    visible_replies,
    without_repeated_media,
)

IMAGE = "https://example.com/a.png"
ENVELOPE = '{"action":"NO_REPLY"}'


def test_a_silent_text_alone_is_silent():
    assert is_silent(Reply(text="NO_REPLY"))
    assert is_silent(Reply(text=ENVELOPE))
    assert not is_silent(Reply(text="Hello"))
    assert not is_silent(Reply())


@pytest.mark.parametrize("text", ["NO_REPLY", ENVELOPE])
def test_a_silent_text_with_anything_else_is_heard(text):
    assert not is_silent(Reply(text=text, media=(IMAGE,)))
    assert not is_silent(Reply(text=text, content=Raw(b'{"card":1}')))


def test_what_is_left_of_replies_has_no_silence_no_tokens_and_no_medium_twice():
    replies = (
        Reply(text="Look", media=(IMAGE, IMAGE), kind="block"),
        Reply(text="NO_REPLY"),
        Reply(text="NO_REPLY", media=(IMAGE, "https://example.com/b.png")),
        Reply(text="NO_REPLYDone. NO_REPLY"),
        Reply(text="───"),
        Reply(media=(IMAGE,)),
    )
    assert visible_replies(replies) == (
        Reply(text="Look", media=(IMAGE,), kind="block"),
        Reply(media=("https://example.com/b.png",)),
        Reply(text="Done."),
    )


def test_media_that_were_sent_are_not_sent_again():
    assert without_repeated_media(
        [Reply(text="a", media=(IMAGE,)), Reply(media=(IMAGE,))], [IMAGE]
    ) == [Reply(text="a")]


def test_a_final_reply_keeps_its_media_apart_from_its_words():
    text = f"Here it is.\nMEDIA: {IMAGE}\n[[audio_as_voice]] [[reply_to: m-7]] Enjoy."
    assert final_reply(text) == Reply(
        text="Here it is.\nEnjoy.", media=(IMAGE,), reply_to="m-7", as_voice=True
    )
    assert final_reply("[[reply_to_current]]\nYes.") == Reply(text="Yes.", reply_to="current")


@pytest.mark.parametrize(
    ("line", "ref"),
    [
        (f"MEDIA:{IMAGE}", IMAGE),
        (f"   MEDIA:{IMAGE}", IMAGE),
        (f"MEDIA: {IMAGE}.", IMAGE),
        (f'MEDIA: "{IMAGE}."', f"{IMAGE}."),
        (f"MEDIA: `{IMAGE}`", IMAGE),
    ],
)
def test_a_line_of_its_own_names_a_medium(line, ref):
    assert parse_directives(f"a\n{line}\nb") == Directives("a\nb", (ref,))


@pytest.mark.parametrize(
    "text",
    [
        f"    MEDIA:{IMAGE}",
        f"see MEDIA:{IMAGE}",
        f"> MEDIA:{IMAGE}",
        f"- MEDIA:{IMAGE}",
        f"media:{IMAGE}",
        f"```\nMEDIA:{IMAGE}\n```",
        f"~~~sh\n```\nMEDIA:{IMAGE}\n~~~",
        "```\n[[reply_to_current]]",
        "~~~ [[reply_to_current]]\ncode",
        "say `[[reply_to_current]]`",
        "MEDIA:http://example.com/a.png",
        "MEDIA:https://127.0.0.1/a.png",
        "MEDIA:https://localhost/a.png",
        "MEDIA:https://user@example.com/a.png",
        "MEDIA:/etc/passwd",
        "MEDIA:~/a.png",
        "MEDIA: two words",
        "MEDIA:",
        'MEDIA:""',
    ],
)
def test_other_lines_stay_as_they_are(text):
    assert parse_directives(text) == Directives(text)


def test_a_local_file_is_named_only_where_it_may_be_read():
    text = 'MEDIA:/work/a.png\nMEDIA:"/work/my b.png"\nMEDIA:/etc/passwd'
    assert parse_directives(text, lambda path: path.startswith("/work/")) == Directives(
        "MEDIA:/etc/passwd", ("/work/a.png", "/work/my b.png")
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.1/x",
        "https://[::1]/x",
        "https://169.254.169.254/x",
        "https://printer.local/x",
        "https://db.internal./x",
        "https://intranet/x",
        "https://2130706433/x",
        "https://127.1/x",
        "https://0x7f.0.0.1/x",
        "https://[bad/x",
        "ftp://example.com/x",
        "https:///x",
        "https://example.com/a b",
    ],
)
def test_an_address_in_a_private_network_is_not_public(url):
    assert not is_public_url(url)


def test_a_name_or_address_in_the_open_is_public():
    assert is_public_url(IMAGE)
    assert is_public_url("https://93.184.215.14/x")
    assert is_public_url("https://x.example.com:8443/y?z=1")


HELLO = Reply(text="Hello")
HOME = ReplyOrigin("chat", "room-1")


@pytest.mark.parametrize(
    ("reply", "origin", "dispatcher", "destination"),
    [
        (HELLO, HOME, True, Destination("origin")),
        (HELLO, HOME, False, Destination("origin")),
        (HELLO, ReplyOrigin("chat"), True, Destination("dispatcher", "origin-incomplete")),
        (
            HELLO,
            ReplyOrigin("", "room-1"),
            True,
            Destination("dispatcher", "origin-incomplete"),
        ),
        (
            HELLO,
            ReplyOrigin("chat", "room-1", routable=False),
            True,
            Destination("dispatcher", "origin-incomplete"),
        ),
        (HELLO, None, True, Destination("dispatcher", "origin-incomplete")),
        (HELLO, ReplyOrigin("chat"), False, Destination("drop", "no-route")),
        (Reply(text="NO_REPLY"), HOME, True, Destination("drop", "silent")),
        (Reply(text="NO_REPLY", media=(IMAGE,)), HOME, True, Destination("origin")),
        (Reply(), HOME, True, Destination("drop", "silent")),
    ],
)
def test_a_reply_goes_home_or_to_the_dispatcher_or_nowhere(reply, origin, dispatcher, destination):
    assert choose_destination(reply, origin, dispatcher_available=dispatcher) == destination
