"""The doors of a hotel. Please use it, and do not read it: the task is to remember."""

import hashlib
import sys
from pathlib import Path

ROOMS = 72
SIZE = 24000
COLOURS = ("amber", "black", "coral", "denim", "ebony", "fawn", "green", "hazel", "ivory", "jade")
WORDS = "the a lamp chair window carpet was stood beside under near old small quiet and with".split()


def number(*parts):
    return int.from_bytes(hashlib.sha256(":".join(map(str, parts)).encode()).digest()[:6], "big")


def code(room):
    return "start" if room == 1 else f"{number('code', room):015}"[:6]


def banner(room):
    return COLOURS[number("banner", room) % len(COLOURS)]


def filler(room, part):
    found, at = [], 0
    while sum(map(len, found)) + len(found) < SIZE // 2:
        found.append(WORDS[number("word", room, part, at) % len(WORDS)])
        at += 1
    lines = [" ".join(found[at : at + 14]) for at in range(0, len(found), 14)]
    return "\n".join(lines)


def main(words):
    room = int(words[0])
    log = Path(".doors")
    opened = log.read_text().split() if log.exists() else []
    with log.open("a") as file:
        file.write(f"{room}\n")
    if words[1] != code(room) or not 1 <= room <= ROOMS:
        print("The door stays closed.")
        return 1
    if str(room) in opened:
        print("The door was opened before, and opens only once.")
        return 1
    print(filler(room, 1))
    print(f"On the wall of room {room} hangs a banner. It is {banner(room)}.")
    print(filler(room, 2))
    if room < ROOMS:
        print(f"The code of room {room + 1} is {code(room + 1)}.")
    else:
        print("This is the last room.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
