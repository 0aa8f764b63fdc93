"""What is in stock."""

import sys

STOCK = {"bolt": (120, 50), "nut": (12, 40), "gasket µ": (0, 1)}


def main(words):
    match words:
        case ["list"]:
            for name, (count, minimum) in sorted(STOCK.items()):
                print(f"{name}\t{count}{' LOW' if count < minimum else ''}")
        case ["show", name] if name in STOCK:
            count, minimum = STOCK[name]
            print(f"{name}: {count} (at least {minimum})")
        case ["show", name]:
            print(f"there is no {name!r}", file=sys.stderr)
            return 1
        case _:
            print("usage: stock.py list | show NAME", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
