"""Made-up long talks between a person and an agent, with questions whose evidence is known.

A talk is a list of sessions on different days. Facts are said among filler that uses the same
words; questions ask for them in other words, by a time, by a number, or where only the
turns before the answer name what it is about. Evidence is the turns that a reader needs.
Invariant: the same seed makes the same talk, and no question was written with an eye on a
search.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

DAY = 86_400_000
START = 1_750_000_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """One turn: who said it, what, and when."""

    role: str
    text: str
    time: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the numbers of the turns that answer it, from 1 on."""

    text: str
    evidence: tuple[int, ...]
    kind: str


@dataclass(slots=True)
class Talk:
    """A conversation over many sessions."""

    turns: list[Said] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


Exchange = list[tuple[str, str]]
"""Role and text of each turn."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Turns to say, a question, and which of the turns are evidence."""

    kind: str
    turns: Exchange
    question: str
    evidence: tuple[int, ...] = (0,)


SERVICES = [
    "billing",
    "invoice",
    "gateway",
    "search",
    "upload",
    "mail",
    "session",
    "report",
    "catalogue",
    "payment",
    "profile",
    "webhook",
    "export",
    "scheduler",
    "ledger",
    "avatar",
    "checkout",
    "inventory",
    "pricing",
    "notification",
]
PARTS = [
    "queue",
    "worker",
    "cache",
    "table",
    "endpoint",
    "job",
    "parser",
    "form",
    "dashboard",
    "migration",
    "client",
    "index",
]
PEOPLE = [
    "Ines",
    "Tomasz",
    "Priya",
    "Kofi",
    "Marta",
    "Yusuf",
    "Hanne",
    "Diego",
    "Leila",
    "Bram",
    "Noor",
    "Sven",
    "Aiko",
    "Rosa",
]
CLOUDS = ("staging", "production", "the test cluster", "the Frankfurt region", "the nightly build")
TOOLS = [
    "ruff",
    "pytest",
    "terraform",
    "docker",
    "poetry",
    "webpack",
    "redis",
    "nginx",
    "kafka",
    "sqlite",
    "grafana",
    "helm",
]
MONTHS = ["January", "March", "April", "June", "July", "August", "October", "November"]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]

OPINIONS = (
    "the {s} {p} looks fine to me now",
    "can you look at the {s} {p} again",
    "please keep the {s} {p} simple",
    "I am not sure about the {p} of {s}",
    "the {s} tests are green, go on",
    "{who} asked about the {s} {p} this morning",
    "let us leave {t} out of the {s} {p} for now",
    "that is better, thanks",
    "yes, do that",
    "why does the {s} {p} need {t} at all?",
    "is the {p} of {s} slow because of {t}?",
    "what happens with the {s} {p} on {c}?",
)
ESSAY = (
    "The {s} {p} reads its settings once and keeps them until it is restarted.",
    "On {c} the {p} of {s} runs behind {t}, which changes how errors look.",
    "I would first measure the {s} {p} and only then change {t}.",
    "A common mistake is to let the {p} wait for {t} while a request is open.",
    "If {who} agrees, the {s} {p} could be split into two smaller parts.",
    "The limit, the number of retries and the timeout of the {s} {p} belong together.",
    "Whoever owns the {s} {p} should be told before {c} is changed.",
    "When the {p} was written, {t} had no such option, so the team decided to wait.",
    "The version of {t} decides which flags the {s} {p} accepts.",
    "In the {s} {p} the order of the steps matters more than their speed.",
    "How often the {p} of {s} runs, and when, is written in its configuration.",
)
OUTPUTS = (
    "collected {n} items\ntests/{s}/test_{p}.py ......\n{n} passed in {k}.2s",
    "src/{s}/{p}.py:{n}: note: {t} is configured here",
    "{s}-{p} Up {k} hours, {t} healthy",
    "diff --git a/src/{s}/{p}.py\n+    limit = {n}\n-    limit = {k}",
    "INFO {s}.{p} handled {n} requests in {k} s via {t}",
)


class WorkTalk:
    """Makes talks about work on software."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.services = self._random.sample(SERVICES, 7)
        self.parts = self._random.sample(PARTS, 4)

    def talk(self, sessions: int = 24, facts: int = 60) -> Talk:
        """Return a talk with so many sessions and facts."""
        pick = self._random
        made_of = [(make, s, p) for make in FACTS for s in self.services for p in self.parts]
        pick.shuffle(made_of)
        placed: dict[int, list[Fact]] = {}
        for make, s, p in made_of[:facts]:
            placed.setdefault(pick.randrange(sessions), []).append(make(self, s, p))
        made, time = Talk(), START
        for session in range(sessions):
            time += pick.randint(1, 6) * DAY
            for exchange in self._session(placed.get(session, [])):
                time = _append(made, exchange, time, pick)
        return made

    def _session(self, facts: list[Fact]) -> Iterator[Fact]:
        filler = [self._filler() for _ in range(self._random.randint(6, 12))]
        mixed = [*filler, *facts]
        self._random.shuffle(mixed)
        return iter(mixed)

    def _filler(self) -> Fact:
        turns: Exchange = [("user", self.fill(self._random.choice(OPINIONS)))]
        if self._random.random() < 0.4:
            turns.append(("tool", self.fill(self._random.choice(OUTPUTS))))
        turns.append(("assistant", self.essay(self._random.choice((1, 2, 8, 25)))))
        return Fact("", turns, "")

    def essay(self, sentences: int, **about: str) -> str:
        """Return a long answer about everything; about one thing where it is named."""
        fixed = about or {"s": self.one(*self.services), "p": self.one(*self.parts)}
        chosen = (self._random.choice(ESSAY) for _ in range(sentences))
        return " ".join(
            self.fill(sentence, **(fixed if self._random.random() < 0.7 else {}))
            for sentence in chosen
        )

    def fill(self, text: str, **about: str) -> str:
        """Return a sentence with its gaps filled."""
        pick = self._random
        names = {
            "s": pick.choice(self.services),
            "p": pick.choice(self.parts),
            "t": pick.choice(TOOLS),
            "who": pick.choice(PEOPLE),
            "c": pick.choice(CLOUDS),
            "n": str(pick.randint(11, 980)),
            "k": str(pick.randint(2, 40)),
        }
        return text.format(**{**names, **about})

    def one(self, *choices: str) -> str:
        """Return one of them."""
        return self._random.choice(choices)

    def one_pair(self, pairs: tuple[tuple[str, str], ...]) -> tuple[str, str]:
        """Return one of the pairs."""
        return self._random.choice(pairs)

    def number(self, low: int, high: int) -> int:
        """Return a number between both."""
        return self._random.randint(low, high)

    def person(self) -> str:
        """Return a name."""
        return self._random.choice(PEOPLE)


def _append(talk: Talk, fact: Fact, time: int, pick: random.Random) -> int:
    first = len(talk.turns) + 1
    for role, text in fact.turns:
        time += pick.randint(5, 90) * 1_000
        talk.turns.append(Said(role, text, time))
    if fact.question:
        evidence = tuple(first + at for at in fact.evidence)
        talk.questions.append(Question(fact.question, evidence, fact.kind))
    return time


def _decided(make: WorkTalk, s: str, p: str) -> Fact:
    tool, other = make.one(*TOOLS[:6]), make.one(*TOOLS[6:])
    said = make.one(
        f"for the {s} {p} we take {tool}, {other} was too slow",
        f"ok, {tool} it is for the {p} of {s}",
        f"{make.person()} and I settled on {tool} for the {s} {p}",
    )
    asked = make.one(
        f"Which tool was chosen for the {s} {p}?",
        f"what did we decide to use for the {p} of {s}",
        f"What did I want for the {s} {p}?",
    )
    return Fact("decision", [("user", said), ("assistant", make.essay(20, s=s, p=p))], asked)


def _elided(make: WorkTalk, s: str, p: str) -> Fact:
    who = make.person()
    answer = make.one(
        f"ask {who}, nobody else knows it",
        f"{who} does, since spring",
        f"that was {who}",
    )
    turns = [
        ("user", f"I have to change the {s} {p} on {make.one(*CLOUDS)} today"),
        ("assistant", make.one("Who is responsible for it?", "Whom should I name as the owner?")),
        ("user", answer),
        ("assistant", "Noted."),
    ]
    return Fact("elided", turns, f"Who owns the {s} {p}?", (2,))


def _number(make: WorkTalk, s: str, p: str) -> Fact:
    count = make.number(3, 90)
    said = make.one(
        f"please set the retries of the {s} {p} to {count}",
        f"the {s} {p} may try {count} times, not more",
        f"I want {count} attempts at most in the {p} of {s}",
    )
    asked = make.one(
        f"How many retries does the {s} {p} have?", f"how often may the {p} of {s} try again"
    )
    return Fact("number", [("user", said), ("assistant", make.essay(12, s=s, p=p))], asked)


def _time(make: WorkTalk, s: str, p: str) -> Fact:
    when = make.one(
        f"on {make.one(*WEEKDAYS)}",
        f"on {make.number(1, 28)} {make.one(*MONTHS)}",
        "next week",
        f"at {make.number(1, 12)} o'clock",
    )
    said = make.one(
        f"the {s} {p} goes live {when}", f"we switch the {p} of {s} off {when}, tell nobody yet"
    )
    verb = "goes live" if "goes live" in said else "is switched off"
    turns = [("user", said), ("assistant", make.essay(10, s=s, p=p))]
    return Fact("time", turns, f"When is it that the {s} {p} {verb}?")


def _other_words(make: WorkTalk, s: str, p: str) -> Fact:
    said, asked = make.one_pair(WORDED)
    turns = [("user", said.format(s=s, p=p)), ("assistant", make.essay(6))]
    return Fact("other words", turns, asked.format(s=s, p=p))


def _output(make: WorkTalk, s: str, p: str) -> Fact:
    code = f"E{make.number(1000, 9999)}"
    turns = [
        ("user", f"run the {s} {p} once more"),
        (
            "tool",
            f"$ run {s}\nstarting {p}\nfatal: {code} lease was lost after {make.number(2, 9)}s",
        ),
        ("assistant", make.essay(8, s=s, p=p)),
    ]
    return Fact(
        "output", turns, f"What error did the command print when the {s} {p} was run?", (1,)
    )


def _finding(make: WorkTalk, s: str, p: str) -> Fact:
    cause = make.one(
        "a missing index", "a clock that was wrong", "two writers at once", "a stale lock"
    )
    essay = make.essay(9, s=s, p=p)
    turns = [
        ("user", f"find out why the {s} {p} hangs"),
        ("assistant", f"{essay} The cause is {cause}. {make.essay(9, s=s, p=p)}"),
    ]
    return Fact("finding", turns, f"What made the {s} {p} hang?", (1,))


def _changed(make: WorkTalk, s: str, p: str) -> Fact:
    one, two = make.number(5, 50), make.number(51, 99)
    turns = [
        ("user", f"the timeout of the {s} {p} should be {one} seconds"),
        ("assistant", make.essay(8, s=s, p=p)),
        ("user", make.fill(make.one(*OPINIONS))),
        ("assistant", make.essay(2)),
        ("user", f"make that {two} seconds for the {s} {p} after all"),
        ("assistant", "Done."),
    ]
    return Fact(
        "changed", turns, f"what is the timeout of the {p} in {s}, and what was it before?", (0, 4)
    )


def _followed(make: WorkTalk, s: str, p: str) -> Fact:
    turns = [
        ("user", f"how large do uploads to the {s} {p} get?"),
        ("assistant", "I do not know yet. Shall I assume something?"),
        (
            "user",
            make.one("say two gigabytes", "forty megabytes is plenty", "never above a gigabyte"),
        ),
        ("assistant", make.essay(3)),
    ]
    return Fact("elided", turns, f"What size may uploads to the {s} {p} have?", (2,))


WORDED = (
    ("never touch the {s} {p} by hand", "Is there something forbidden about the {s} {p}?"),
    ("the {s} {p} makes the bill explode", "why was the {p} of {s} too expensive"),
    ("call the {s} {p} 'heron' from now on", "What is the new name of the {s} {p}?"),
    (
        "I hate how chatty the {s} {p} is in the logs",
        "which complaint did I have about {s} {p} noise",
    ),
    ("the {s} {p} must answer in German", "what language does the {p} in {s} use"),
    ("drop the old rows of the {s} {p} after a year", "how long is data of the {s} {p} retained"),
)


FACTS: tuple[Callable[[WorkTalk, str, str], Fact], ...] = (
    _decided, _elided, _number, _time, _other_words, _output, _finding, _changed, _followed,
)  # fmt: skip
