"""A bare loop, as small as one can be: a list of messages, one tool, nothing durable.

It runs by itself, with the standard library alone, in the box of a task:

    python3 bare_agent.py BASE_URL MODEL < instruction
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from typing import Any

SYSTEM = "You work in the current directory of a Linux machine. Run commands until you are done."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Runs a command line.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        },
    }
]
MOST = 40_000
"""Characters of an output that the model is shown."""


def main(base: str, model: str) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": sys.stdin.read()},
    ]
    while True:
        answer = ask(base, {"model": model, "messages": messages, "tools": TOOLS})
        messages.append(answer)
        calls = answer.get("tool_calls") or []
        if not calls:
            return
        for call in calls:
            output = run(json.loads(call["function"]["arguments"])["command"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


def ask(base: str, body: dict[str, Any]) -> dict[str, Any]:
    key = os.environ.get("OPENAI_API_KEY", "none")
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    asked = urllib.request.Request(f"{base}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked) as answered:
        found: dict[str, Any] = json.load(answered)["choices"][0]["message"]
    return found


def run(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    return said if len(said) <= MOST else f"{said[: MOST // 2]}\n…\n{said[-MOST // 2 :]}"


if __name__ == "__main__":
    main(*sys.argv[1:])
