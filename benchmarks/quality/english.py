"""The English talk: two people would call it a week of work on an online shop."""

from __future__ import annotations

from .spoken import Fact, Words

__all__ = ["WORDS"]

_USER = (
    Fact(
        "user",
        "Whatever you do, keep compatibility with Python 3.9 in the exporter.",
        "Which Python version must the exporter keep working with?",
        "3.9",
    ),
    Fact(
        "user",
        "By the way, the staging database is reached through the host kestrel-04.",
        "Through which host is the staging database reached?",
        "kestrel-04",
    ),
    Fact(
        "user",
        "Please never write to the folder legacy_invoices.",
        "Which folder did I ask you never to write to?",
        "legacy_invoices",
    ),
    Fact(
        "user",
        "We want the release on 14 October, not a day later.",
        "On which date do we want the release?",
        "14 october|october 14",
    ),
    Fact(
        "user",
        "Commit messages here are written in the present tense and signed by Mireille.",
        "Who signs the commit messages here?",
        "mireille",
    ),
    Fact(
        "user",
        "I prefer the library attrs to dataclasses in the pricing code.",
        "Which library do I prefer in the pricing code?",
        "attrs",
    ),
    Fact(
        "user",
        "The upload limit has to be 485 megabytes, the customer insisted.",
        "What does the upload limit have to be?",
        "485",
    ),
    Fact(
        "user",
        "From now on we call the new scheduler Osprey.",
        "What do we call the new scheduler?",
        "osprey",
    ),
)
_ASSISTANT = (
    Fact(
        "assistant",
        "The sign-in fails because the token cache keeps entries for 900 seconds.",
        "For how many seconds does the token cache keep entries?",
        "900",
        "Why does the sign-in fail?",
    ),
    Fact(
        "assistant",
        "The flaky test is test_leap_second_rollover, it depends on the local time zone.",
        "What is the name of the flaky test?",
        "test_leap_second_rollover",
        "Which test is the flaky one?",
    ),
    Fact(
        "assistant",
        "I decided to replace Celery by a plain thread pool in the mail worker.",
        "What was Celery replaced by in the mail worker?",
        "thread pool",
        "Do something about the mail worker.",
    ),
    Fact(
        "assistant",
        "The memory leak is in src/render/glyph_cache.py, the dictionary there never shrinks.",
        "In which file is the memory leak?",
        "glyph_cache.py",
        "Where does the memory go?",
    ),
    Fact(
        "assistant",
        "The slow query lacks an index on the column shipped_at.",
        "On which column is an index missing for the slow query?",
        "shipped_at",
        "Why is that query so slow?",
    ),
    Fact(
        "assistant",
        "I set the variable FEED_BATCH_SIZE to 375, larger batches time out.",
        "To what did you set FEED_BATCH_SIZE?",
        "375",
        "Tune the size of the batches, please.",
    ),
    Fact(
        "assistant",
        "The branch with the half of the work that is done is called wip/otter-ledger.",
        "What is the branch called that has the finished half of the work?",
        "wip/otter-ledger",
        "Save what is done to a branch.",
    ),
    Fact(
        "assistant",
        "The vendor's API rounds to three decimals, so totals differ by up to 0.004.",
        "By how much do totals differ at most because of the vendor's rounding?",
        "0.004",
        "Why do the totals differ?",
    ),
)
_TOOL = (
    Fact(
        "tool",
        "ERROR broker: connection refused on port 8843",
        "On which port was the connection to the broker refused?",
        "8843",
        "Look at the log of the broker.",
    ),
    Fact(
        "tool",
        "current revision: 7be21f9c (head)",
        "What is the current revision of the migrations?",
        "7be21f9c",
        "Show the state of the migrations.",
    ),
    Fact(
        "tool",
        "on-call this week: Thandiwe Mokoena",
        "Who is on call this week?",
        "thandiwe",
        "Print the rota.",
    ),
    Fact(
        "tool",
        "FAILED tests/test_tax.py::test_zero_rate - DivisionUndefined",
        "Which exception did the failing tax test raise?",
        "divisionundefined",
        "Run the tests of the taxes.",
    ),
    Fact(
        "tool",
        "certificate expires: 2027-03-09",
        "When does the certificate expire?",
        "2027-03-09|9 march 2027|march 9, 2027|march 9th",
        "Check the certificate.",
    ),
    Fact(
        "tool",
        "disk /var/spool: 93% used",
        "How full is the disk of the spool?",
        "93",
        "How full are the disks?",
    ),
    Fact(
        "tool",
        "image registry.example.org/shop/web:2.17.3 is running",
        "Which version of the web image is running?",
        "2.17.3",
        "Which containers are running?",
    ),
    Fact(
        "tool",
        "feature flag basket_v3 owner=team-heron",
        "Which team owns the flag basket_v3?",
        "heron",
        "List the feature flags.",
    ),
)

WORDS = Words(
    facts=(*_USER, *_ASSISTANT, *_TOOL),
    things=("the basket", "the search page", "the importer", "the mail form", "the admin pages"),
    sentences=(
        "I had a look at {x}, and it does what it should.",
        "There is some work left in {x}, but nothing that is urgent.",
        "As far as I can see nobody has complained about {x} lately.",
        "It might be worth to read the code of {x} once more, slowly.",
        "What was said about {x} earlier still holds, more or less.",
        "The tests around {x} are short and easy to follow.",
        "One could make {x} a little simpler, if there was time.",
        "Before anything is changed in {x} it should be talked about.",
        "The names in {x} are not the best, but people know them.",
        "Let us leave {x} as it is for the moment and go on.",
    ),
)
