"""Made-up talks of another kind: two friends who write to each other over a year.

Nothing here was used to choose a weight of the search; only figures are published for it.
It differs from `talks` in what is said, how questions are asked, how long turns are, and in
that every turn begins with the name of its speaker. Invariant: the same seed makes the same
talk.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .talks import DAY, START, Exchange, Fact, Question, Said, Talk

NAMES = ("Alma", "Jonas", "Petra", "Emil", "Sofia", "Matteo", "Freya", "Otis")
THINGS = [
    "garden",
    "kitchen",
    "bicycle",
    "violin",
    "marathon",
    "novel",
    "pottery",
    "puppy",
    "allotment",
    "choir",
    "greenhouse",
    "caravan",
    "telescope",
    "sourdough",
    "quilt",
    "kayak",
    "orchard",
    "beehive",
    "darkroom",
    "treehouse",
]
FRIENDS = ["Lena", "Hugo", "Mina", "Ruben", "Astrid", "Caspar", "Dorte", "Pavel"]
TOWNS = ["Bergen", "Lisbon", "Ghent", "Turin", "Malmo", "Graz", "Porto", "Riga"]
MOODS = ["lovely", "exhausting", "strange", "wonderful", "tiring", "calm", "noisy", "cosy"]

SMALL_TALK = (
    "I spent the whole weekend on the {x}, it was {m}.",
    "How is your {x} coming along?",
    "{f} came by and we talked about the {x} for hours.",
    "Do you remember the {x} we saw in {w}?",
    "My mother says hello, she liked the photos of your {x}.",
    "It rains all day here, so no {x} for me.",
    "That sounds {m}! Tell me more.",
    "Ha, I know the feeling.",
    "I would love to show you the {x} when you visit.",
    "Work was {m} this week, I hardly thought about the {x}.",
    "{f} asks whether you still have your {x}.",
    "Nothing new with the {x}, it just takes time.",
    "I read a long article about people who give up their {x}, and it made me think of you.",
    "Wow, good luck with that!",
)
KINDS_OF = (
    ("I twisted my knee on the way to the {x}, no running for weeks", "What injury did {a} have?"),
    ("we took in a grey cat that slept in the {x}", "Which pet does {a} have now?"),
    ("a bath after the {x}, that is how I come down", "How does {a} relax in the evening?"),
    ("the doctor took me off milk and cheese", "What food must {a} avoid?"),
    ("I handed in my notice, the {x} shop will find another", "Did {a} leave a job?"),
    ("the landlord wants us out by summer", "What trouble does {a} have with the flat?"),
)  # fmt: skip


class FriendTalk:
    """Makes talks between two friends."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed * 7_919 + 1)
        self.a, self.b = self._random.sample(NAMES, 2)

    def talk(self, sessions: int = 22, facts: int = 40) -> Talk:
        """Return a talk with so many sessions and facts."""
        pick = self._random
        placed: list[list[Fact]] = [[] for _ in range(sessions)]
        asked: set[str] = set()
        while len(asked) < facts:
            fact = pick.choice(FACTS)(self, pick.choice(THINGS))
            if fact.question not in asked:
                asked.add(fact.question)
                placed[pick.randrange(sessions)].append(fact)
        made, time = Talk(), START
        for facts_now in placed:
            time += pick.randint(2, 20) * DAY
            parts = [*facts_now, *(self._small_talk() for _ in range(pick.randint(7, 11)))]
            pick.shuffle(parts)
            for fact in parts:
                first = len(made.turns) + 1
                for speaker, text in fact.turns:
                    time += pick.randint(10, 300) * 1_000
                    role = "user" if speaker == self.a else "assistant"
                    made.turns.append(Said(role, f"{speaker}: {text}", time))
                if fact.question:
                    evidence = tuple(first + at for at in fact.evidence)
                    made.questions.append(Question(fact.question, evidence, fact.kind))
        return made

    def _small_talk(self) -> Fact:
        speakers = self.both()
        count = self._random.randint(1, 3)
        turns = [(speakers[n % 2], self.chatter()) for n in range(count)]
        return Fact("", turns, "")

    def chatter(self, **about: str) -> str:
        """Return a sentence or two of small talk."""
        pick = self._random
        names = {
            "x": pick.choice(THINGS),
            "f": pick.choice(FRIENDS),
            "w": pick.choice(TOWNS),
            "m": pick.choice(MOODS),
        }
        count = pick.choice((1, 1, 2, 3))
        return " ".join(pick.choice(SMALL_TALK).format(**{**names, **about}) for _ in range(count))

    def both(self) -> tuple[str, str]:
        """Return the friends, either one first."""
        return (self.a, self.b) if self._random.random() < 0.5 else (self.b, self.a)

    def one(self, *choices: str) -> str:
        """Return one of them."""
        return self._random.choice(choices)

    def pair(self) -> tuple[str, str]:
        """Return something that is said, and a question that uses its hypernym."""
        return self._random.choice(KINDS_OF)

    def number(self, low: int, high: int) -> int:
        """Return a number between both."""
        return self._random.randint(low, high)


def _duration(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    turns: Exchange = [
        (b, f"Remind me, the {thing} has been yours for a while, hasn't it? {make.chatter()}"),
        (a, make.one("Seven years now.", "Since I was twelve!", "Almost three winters.")),
        (b, make.chatter()),
    ]
    return Fact("elided", turns, f"How long has {a} had the {thing}?", (1,))


def _reason(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    turns: Exchange = [
        (a, f"I finally decided something about the {thing}. {make.chatter()}"),
        (b, "Oh? What is it?"),
        (a, make.one("I sell it. Too many memories.", "It goes to my sister, she needs it more.",
                     "I keep it, whatever it costs.")),
    ]  # fmt: skip
    return Fact("elided", turns, f"What did {a} decide to do with the {thing}?", (2,))


def _visit(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    town = make.one(*TOWNS)
    when = make.one("last Tuesday", "yesterday", "on the 4th of May", "two weekends ago")
    turns: Exchange = [
        (a, f"I was in {town} {when} to see a {thing}. {make.chatter()}"),
        (b, make.chatter()),
    ]
    return Fact("time", turns, f"When did {a} go to {town} for the {thing}?")


def _count(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    turns: Exchange = [
        (a, f"{make.chatter()} By the way, the {thing} cost me {make.number(120, 980)} euros."),
        (b, make.chatter(x=thing)),
    ]
    return Fact("number", turns, f"How much did {a} pay for the {thing}?")


def _hypernym(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    said, asked = make.pair()
    turns: Exchange = [(a, said.format(x=thing)), (b, make.chatter())]
    return Fact("other words", turns, f"{asked.format(a=a)}")


def _both_do(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    one, two = make.one(*FRIENDS[:4]), make.one(*FRIENDS[4:])
    turns: Exchange = [
        (a, f"{one} lent me tools for the {thing}."),
        (b, make.chatter()),
        (a, make.chatter()),
        (b, make.chatter()),
        (a, f"And {two} came to help with the {thing}, too!"),
    ]
    return Fact("several", turns, f"Who helped {a} with the {thing}?", (0, 4))


def _gift(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    friend = make.one(*FRIENDS)
    turns: Exchange = [
        (a, f"For my birthday I got a book about the {thing} from {friend}, signed and all."),
        (b, make.chatter(x=thing)),
    ]
    return Fact("single", turns, f"What present did {friend} give to {a}?")


def _plan(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    turns: Exchange = [
        (a, f"{make.chatter(x=thing)} Next spring I want to teach children about the {thing}."),
        (b, make.chatter(x=thing)),
    ]
    return Fact("single", turns, f"What are {a}'s plans with the {thing}?")


def _place(make: FriendTalk, thing: str) -> Fact:
    a, b = make.both()
    turns: Exchange = [
        (b, f"Where do you keep the {thing} these days?"),
        (
            a,
            make.one(
                "Behind the old church.", "In my uncle's barn.", "On the roof, believe it or not."
            ),
        ),
        (b, "No way!"),
    ]
    return Fact("elided", turns, f"Where is the {thing} that {a} has?", (1,))


FACTS: tuple[Callable[[FriendTalk, str], Fact], ...] = (
    _duration, _reason, _visit, _count, _hypernym, _both_do, _gift, _plan, _place,
)  # fmt: skip
