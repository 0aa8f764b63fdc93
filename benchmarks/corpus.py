"""A corpus to search in: made up, realistic in what matters, the same for the same seed.

Words follow Zipf's law over a made-up vocabulary with English function words in front.
Among them stand identifiers, paths, error texts and sentences in other scripts. Needles
are facts said once about two names; each name also occurs in many other messages.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate


def _listed(words: str) -> list[str]:
    return words.split()


COMMON = _listed(
    "the of and to a in is that it was for on are as with they be at one have this from or had "
    "by but what some we can out other were all there when up use your how said an each she "
    "which do their time if will way about many then them write would like so these her long "
    "make thing see him two has look more day could go come did number sound no most people my "
    "over know water than call first who may down side been now find file test run error build"
)
ONSETS = _listed("b c d f g h j k l m n p r s t v w br cr dr fl gr pl st tr sh ch th")
VOWELS = _listed("a e i o u ai ea ou")
CODAS = _listed("n r s t l m ck nd rt st x")
ERRORS = (
    "ZeroDivisionError: division by zero",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "TypeError: 'NoneType' object is not subscriptable",
    "error[E0382]: borrow of moved value",
    "npm ERR! code ELIFECYCLE",
    "Segmentation fault (core dumped)",
)
SCRIPTS = (
    "データベースの接続がタイムアウトしました。設定を確認してください。",
    "构建失败：找不到模块，请重新安装依赖。",  # noqa: RUF001 - as it is written
    "테스트가 통과하지 못했습니다. 로그를 확인하세요.",
    "Не удалось открыть файл конфигурации.",  # noqa: RUF001 - another script
    "Die Prüfung ist fehlgeschlagen, bitte später erneut versuchen.",
)
FACTS = (
    ("{a} rotates the signing keys of the {b} gateway every {n} days",
     "how often do the {b} keys get replaced by {a}"),
    ("{a} moved the {b} backups into bucket number {n} after the outage",
     "where does {a} keep copies of {b} data"),
    ("we agreed with {a} that {b} deployments freeze on the {n}th of each month",
     "when must nobody release {b} according to {a}"),
    ("{a} measured {n} milliseconds of latency between {b} and the billing service",
     "how slow was {b} when {a} timed it"),
    ("the password policy {a} wrote for {b} demands {n} characters",
     "what length does {a} require for secrets in {b}"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Needle:
    """A fact, where it stands, and two ways to ask for it."""

    at: int
    text: str
    words: str
    paraphrase: str


class Corpus:
    """`size` messages with needles among them."""

    def __init__(self, size: int, needles: int = 100, seed: int = 7) -> None:
        self.size = size
        self._random = random.Random(seed)
        self._vocabulary = [*COMMON, *self._made_up(60_000)]
        self._sums = list(accumulate(1 / (rank + 2.7) for rank in range(len(self._vocabulary))))
        names = [name.capitalize() for name in self._made_up(2 * needles, syllables=3)]
        places = self._random.sample(range(size), min(needles, size // 10))
        self.needles = [
            self._needle(at, *names[2 * n : 2 * n + 2]) for n, at in enumerate(sorted(places))
        ]
        self._names = names[: 2 * len(self.needles)]

    def messages(self) -> Iterator[tuple[str, str]]:
        """Role and text of every message."""
        needles = {needle.at: needle.text for needle in self.needles}
        for at in range(self.size):
            role = ("user", "assistant", "tool")[at % 3]
            yield role, needles.get(at) or self._message(role)

    def _message(self, role: str) -> str:
        chance = self._random.random()
        words = self._words(self._random.randint(12, 90))
        if chance < 0.02:
            words += " " + self._random.choice(SCRIPTS)
        if chance > 0.97:
            words = f"{self._random.choice(self._names)} {words}"
        if role == "tool":
            return f"{self._path()}:{self._random.randint(1, 900)}: {self._code()} {words}"
        return f"{words} {self._code()}." if chance > 0.5 else words

    def _words(self, count: int) -> str:
        total, pick = self._sums[-1], self._random.random
        found = (bisect.bisect(self._sums, pick() * total) for _ in range(count))
        return " ".join([self._vocabulary[rank] for rank in found])

    def _code(self) -> str:
        one, two = self._random.choices(self._vocabulary[200:20_000], k=2)
        kind = self._random.randrange(4)
        if kind == 0:
            return f"{one}_{two}({self._random.randrange(100)})"
        if kind == 1:
            return one + two.capitalize()
        return self._path() if kind == 2 else self._random.choice(ERRORS)

    def _path(self) -> str:
        return "src/" + "/".join(self._random.choices(self._vocabulary[200:5_000], k=3)) + ".py"

    def _needle(self, at: int, one: str, two: str) -> Needle:
        said, asked = self._random.choice(FACTS)
        number = self._random.randint(11, 99)
        fact = said.format(a=one, b=two, n=number)
        text = f"{self._words(8)} {fact} {self._words(12)}"
        return Needle(at, text, fact, asked.format(a=one, b=two))

    def _made_up(self, count: int, syllables: int = 0) -> list[str]:
        found: dict[str, None] = {}
        while len(found) < count:
            parts = syllables or self._random.randint(1, 4)
            word = "".join(
                self._random.choice(ONSETS) + self._random.choice(VOWELS) for _ in range(parts)
            )
            found[word + self._random.choice(CODAS)] = None
        return list(found)
