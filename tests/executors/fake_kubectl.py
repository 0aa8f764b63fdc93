"""A stand-in for `kubectl` and the agent-sandbox controllers, as far as we use them.

Written after kubectl's public reference and the custom resources of agent-sandbox v1beta1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

STATE = Path(os.environ["FAKE_STATE"])
KINDS = {
    ("agents.x-k8s.io/v1beta1", "Sandbox"): "sandboxes.agents.x-k8s.io",
    (
        "extensions.agents.x-k8s.io/v1beta1",
        "SandboxClaim",
    ): "sandboxclaims.extensions.agents.x-k8s.io",
}
POOLS = {"warm"}


def fail(text: str) -> NoReturn:
    sys.stderr.write(f"Error from server {text}\n")
    raise SystemExit(1)


def file_of(resource: str, name: str) -> Path:
    if resource not in KINDS.values():
        fail(f'(NotFound): the server does not have a resource type "{resource}"')
    return STATE / f"{resource}.{name}.json"


def load(resource: str, name: str) -> dict[str, Any]:
    file = file_of(resource, name)
    if not file.exists():
        fail(f'(NotFound): {resource} "{name}" not found')
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def save(resource: str, found: dict[str, Any]) -> None:
    file_of(resource, found["metadata"]["name"]).write_text(json.dumps(found))


def ready(status: str, reason: str, **more: object) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": status, "reason": reason}], **more}


def create() -> None:
    made = json.load(sys.stdin)
    resource, spec = KINDS[made["apiVersion"], made["kind"]], made["spec"]
    if made["kind"] == "Sandbox":
        assert spec["podTemplate"]["spec"]["containers"][0]["image"], made
        made["status"] = ready("True", "DependenciesReady")
    elif (pool := spec["warmPoolRef"]["name"]) in POOLS:
        adopted = f"{pool}-x7k2"
        save("sandboxes.agents.x-k8s.io", {"metadata": {"name": adopted}, "spec": {}})
        made["status"] = ready("True", "SandboxReady", sandbox={"name": adopted})
    else:
        made["status"] = ready("False", "WarmPoolNotFound")
    save(resource, made)


def execute(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-i", action="store_true", required=True)
    parser.add_argument("pod")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(argv)
    sandbox = load("sandboxes.agents.x-k8s.io", asked.pod)
    if sandbox["spec"].get("operatingMode") != "Running":
        fail(f'(NotFound): pods "{asked.pod}" not found')
    command = asked.command[1:] if asked.command[0] == "--" else asked.command
    environ = {"PATH": os.environ["PATH"], "HOME": str(STATE), "POD": asked.pod}
    os.execvpe(command[0], command, environ)


def main() -> None:
    verb, *argv = sys.argv[1:]
    if argv[:1] == ["-n"]:
        assert argv[1] == "agents", argv
        argv = argv[2:]
    match verb, argv:
        case "create", ["-f", "-"]:
            create()
        case "get", [resource, name, "-o", "json"]:
            sys.stdout.write(json.dumps(load(resource, name)))
        case "patch", [resource, name, "--type=merge", "-p", change]:
            found = load(resource, name)
            found["spec"] |= json.loads(change)["spec"]
            save(resource, found)
        case "delete", [resource, name, "--wait=false"]:
            load(resource, name)
            file_of(resource, name).unlink()
        case "exec", _:
            execute(argv)
        case _:
            fail(f"(BadRequest): unknown command {sys.argv[1:]}")


main()
