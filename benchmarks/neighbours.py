"""Made-up talks of a third kind: four neighbours who share a courtyard, in one chat.

It was written before anybody looked at what the search misses in the other kinds, and no
weight, pattern or model was chosen with it; only figures are published for it. Its words,
phrasings and kinds of questions are its own. Invariant: the same seed makes the same talk.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .talks import DAY, START, Fact, Question, Said, Talk

NAMES = ("Bea", "Carlo", "Dunja", "Farid", "Gitta", "Henk", "Iris", "Kaspar")
MATTERS = [
    "gate",
    "roof",
    "boiler",
    "stairwell",
    "mailboxes",
    "cellar",
    "laundry room",
    "fence",
    "drain",
    "chimney",
    "bicycle shed",
    "balcony",
    "hedge",
    "doorbell",
    "lamp in the yard",
    "sandpit",
    "parking space",
    "water meter",
]
CRAFTS = ["Moser", "Petrov", "Lindgren", "Okafor", "Brandt", "Silva", "Novak", "Keller"]
PLACES = ["with the caretaker", "under the third step", "in the blue tin", "at the bakery"]
DAYS = ["on Saturday", "next Monday", "on the 14th", "on the 3rd of June", "at half past six"]
TALK = (
    "Has anybody looked at the {x} lately?",
    "The {x} again. I sometimes think this house is older than it says.",
    "I can do the {x} if somebody holds the ladder.",
    "{n}, you know more about the {x} than all of us together.",
    "Could we not leave the {x} until spring?",
    "Sorry for the noise at the {x} this morning!",
    "My sister had the same thing with her {x}, and it took them a year.",
    "Thanks to everybody who helped.",
    "{c} was here and shook his head at the {x}.",
    "Agreed.",
    "I am away for a few days, please tell me what you decide.",
    "The people across the street painted their {x}, have you seen it?",
    "+1",
    "As long as nobody touches my tomatoes I am fine with everything.",
    "Who has time for the {x}?",
)


class NeighbourTalk:
    """Makes talks among four neighbours."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed * 6_151 + 3)
        self.names = self._random.sample(NAMES, 4)

    def talk(self, sessions: int = 30, facts: int = 40) -> Talk:
        """Return a talk with so many sessions and facts."""
        pick, made, time = self._random, Talk(), START
        placed: list[list[Fact]] = [[] for _ in range(sessions)]
        asked: set[str] = set()
        while len(asked) < facts:
            fact = pick.choice(FACTS)(self, pick.choice(MATTERS))
            if fact.question not in asked:
                asked.add(fact.question)
                placed[pick.randrange(sessions)].append(fact)
        for facts_now in placed:
            time += pick.randint(1, 12) * DAY
            parts = [*facts_now, *(self._talk() for _ in range(pick.randint(4, 9)))]
            pick.shuffle(parts)
            for fact in parts:
                first = len(made.turns) + 1
                for speaker, text in fact.turns:
                    time += pick.randint(20, 900) * 1_000
                    role = "user" if speaker == self.names[0] else "assistant"
                    made.turns.append(Said(role, f"{speaker}: {text}", time))
                if fact.question:
                    evidence = tuple(first + at for at in fact.evidence)
                    made.questions.append(Question(fact.question, evidence, fact.kind))
        return made

    def _talk(self) -> Fact:
        count = self._random.randint(2, 5)
        return Fact("", [(self.somebody(), self.chat()) for _ in range(count)], "")

    def chat(self, **about: str) -> str:
        """Return a sentence or two about something."""
        pick = self._random
        names = {"x": pick.choice(MATTERS), "n": self.somebody(), "c": pick.choice(CRAFTS)}
        count = pick.choice((1, 1, 1, 2))
        return " ".join(pick.choice(TALK).format(**{**names, **about}) for _ in range(count))

    def some(self, count: int) -> list[str]:
        """Return so many of the neighbours."""
        return self._random.sample(self.names, count)

    def somebody(self) -> str:
        """Return one of the neighbours."""
        return self._random.choice(self.names)

    def one(self, *choices: str) -> str:
        """Return one of them."""
        return self._random.choice(choices)

    def pair(self) -> tuple[str, str]:
        """Return something that is said, and a question in other words."""
        return self._random.choice(WORDED)

    def number(self, low: int, high: int) -> int:
        """Return a number between both."""
        return self._random.randint(low, high)


def _costs(make: NeighbourTalk, x: str) -> Fact:
    a, b = make.some(2)
    craft = make.one(*CRAFTS)
    said = make.one(
        f"{craft} wants {make.number(200, 4_000)} for the {x}, without tax.",
        f"The offer from {craft} for the {x} came in: {make.number(200, 4_000)} euros.",
    )
    asked = make.one(f"What did {craft} ask for the {x}?", f"How expensive is the {x} at {craft}?")
    return Fact("number", [(a, said), (b, make.chat(x=x))], asked)


def _meeting(make: NeighbourTalk, x: str) -> Fact:
    a, b, c = make.some(3)
    said = make.one(
        f"Let us meet about the {x} {make.one(*DAYS)}.",
        f"{make.one(*DAYS).capitalize()} we sit together because of the {x}, all right?",
    )
    turns = [(a, said), (b, "Works for me."), (c, make.chat())]
    return Fact("time", turns, f"When is the meeting about the {x}?")


def _key(make: NeighbourTalk, x: str) -> Fact:
    a, b = make.some(2)
    turns = [
        (a, f"I cannot get in at the {x}. {make.one('Locked.', 'Does somebody have a key?')}"),
        (b, make.chat()),
        (b, f"Oh, the spare one is {make.one(*PLACES)}."),
    ]
    return Fact("elided", turns, f"Where is the spare key for the {x}?", (2,))


def _volunteer(make: NeighbourTalk, x: str) -> Fact:
    a, b, c = make.some(3)
    turns = [
        (a, f"Somebody has to look after the {x} while the house is empty in August."),
        (b, make.chat()),
        (c, make.one("I can.", "Leave it to me, I stay here anyway.", "Me, as every year.")),
    ]
    return Fact("elided", turns, f"Who takes care of the {x} in August?", (2,))


def _age(make: NeighbourTalk, x: str) -> Fact:
    a, b = make.some(2)
    turns = [
        (a, make.one(f"How old is our {x}, actually?", f"Do we know since when we have the {x}?")),
        (b, make.one("1987, says the plate.", "Thirty years at least.", "From before the war.")),
        (a, make.chat()),
    ]  # fmt: skip
    return Fact("elided", turns, f"What is the age of the {x}?", (1,))


def _changed(make: NeighbourTalk, x: str) -> Fact:
    a, b = make.some(2)
    one, two = make.one("green", "grey"), make.one("white", "dark red")
    turns = [
        (a, f"The {x} will be painted {one}, I have ordered it."),
        (b, make.chat()),
        (b, make.chat(x=x)),
        (a, f"They only had {two}, so the {x} gets that."),
    ]
    return Fact("changed", turns, f"Which colour does the {x} have in the end?", (3,))


def _refused(make: NeighbourTalk, x: str) -> Fact:
    a, b, c = make.some(3)
    why = make.one("it wakes the baby", "the landlady would have to sign", "I fear for the swifts")
    turns = [
        (a, f"What about a new {x}?"),
        (b, f"Not with me, {why}."),
        (c, make.chat()),
    ]
    return Fact("elided", turns, f"Why was {b} against a new {x}?", (1,))


WORDED = (
    ("the {x} reeks since yesterday", "Who noticed a bad smell?"),
    ("a pipe burst behind the {x}, everything is wet", "What caused the water damage?"),
    ("I became a grandfather on Sunday, so forgive me for the {x}", "Who has a new grandchild?"),
    ("somebody broke the lock of the {x} and took my bike", "Was anything stolen?"),
    ("I hand over the cash box, ten years are enough", "Who gives up being the treasurer?"),
    ("our twins start school, so mornings at the {x} get loud", "Whose children are six?"),
)  # fmt: skip


def _other_words(make: NeighbourTalk, x: str) -> Fact:
    a, b = make.some(2)
    said, asked = make.pair()
    sentence = said.format(x=x)
    return Fact(
        "other words", [(a, sentence[0].upper() + sentence[1:] + "."), (b, make.chat())], asked
    )


def _several(make: NeighbourTalk, x: str) -> Fact:
    a, b, c = make.some(3)
    turns = [
        (a, f"I paid my share for the {x}."),
        (b, make.chat()),
        (c, make.chat()),
        (a, make.chat()),
        (c, f"Mine for the {x} is on its way, too."),
    ]
    return Fact("several", turns, f"Who has paid for the {x}?", (0, 4))


def _advice(make: NeighbourTalk, x: str) -> Fact:
    a, b = make.some(2)
    craft = make.one(*CRAFTS)
    turns = [
        (a, f"{craft} says one should oil the {x} twice a year and never wash it. {make.chat()}"),
        (b, make.chat(x=x)),
    ]
    return Fact("single", turns, f"What did {craft} recommend for the {x}?")


FACTS: tuple[Callable[[NeighbourTalk, str], Fact], ...] = (
    _costs, _meeting, _key, _volunteer, _age, _changed, _refused, _other_words, _several, _advice,
)  # fmt: skip
