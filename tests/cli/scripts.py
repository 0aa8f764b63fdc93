from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .terminal import Treadle


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def shell(command: str, **arguments: Any) -> dict[str, Any]:
    return call("exec_command", cmd=command, login=False, **arguments)


def scripted(treadle: Treadle, *answers: dict[str, Any], name: str = "script.jsonl") -> str:
    """The name of a model that gives these answers."""
    path = Path(treadle.home.parent, name)
    path.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
    return f"scripted:{path}"
