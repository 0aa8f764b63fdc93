"""A stand-in for `docker`: the options that we use, strictly, and processes of this machine.

Written after Docker's public reference of its command line. What a container is here: a
directory of JSON, and the process that `exec` starts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

STATE = Path(os.environ["FAKE_STATE"])


def fail(text: str) -> NoReturn:
    sys.stderr.write(f"Error response from daemon: {text}\n")
    raise SystemExit(1)


def load(name: str) -> dict[str, Any]:
    file = STATE / f"{name}.json"
    if not file.exists():
        fail(f"No such container: {name}")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def save(container: dict[str, Any]) -> None:
    (STATE / f"{container['Name']}.json").write_text(json.dumps(container))


def run(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("--detach", "--rm"):
        parser.add_argument(flag, action="store_true")
    for option in ("--name", "--label", "--workdir", "--entrypoint", "--network", "--user"):
        parser.add_argument(option)
    for option in ("--security-opt", "--mount", "--env"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(argv)
    if asked.image == "no-such-image":
        fail("pull access denied for no-such-image, repository does not exist")
    if (STATE / f"{asked.name}.json").exists():
        fail(f"Conflict. The container name {asked.name!r} is already in use")
    key, _, value = asked.label.partition("=")
    save(
        {
            "Name": asked.name,
            "Config": {"Image": asked.image, "Labels": {key: value}},
            "State": {"Running": True, "Paused": False},
            "asked": vars(asked),
        }
    )


def execute(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-i", action="store_true", required=True)
    parser.add_argument("-w", required=True)
    parser.add_argument("name")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(argv)
    if not load(asked.name)["State"]["Running"]:
        fail(f"container {asked.name} is not running")
    os.chdir(asked.w)
    environ = {"PATH": os.environ["PATH"], "HOME": str(STATE), "CONTAINER": asked.name}
    os.execvpe(asked.command[0], asked.command, environ)


def main() -> None:
    verb, *argv = sys.argv[1:]
    with (STATE / "calls").open("a") as calls:
        calls.write(f"{verb}\n")
    match verb, argv:
        case "version", _:
            sys.stdout.write("Version: 28.0.0\n")
        case "run", _:
            run(argv)
        case "exec", _:
            execute(argv)
        case "container", ["inspect", name]:
            sys.stdout.write(json.dumps([load(name)]))
        case "start", [name]:
            save({**load(name), "State": {"Running": True, "Paused": False}})
        case "stop", ["--time", _, name]:
            save({**load(name), "State": {"Running": False, "Paused": False}})
        case "rm", ["-f", name]:
            load(name)
            (STATE / f"{name}.json").unlink()
        case _:
            fail(f"unknown command: {sys.argv[1:]}")


main()
