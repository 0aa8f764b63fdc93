"""Records golden conversations anew: `python -m tests.golden.record [NAME …]`.

Only for a change that means to change what models are sent or what logs hold;
`AGENTS.md` says when. Names may be left out: then all are recorded.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

# The plug-in of the example is not installed; `pyproject.toml` says the same to pytest.
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "retrieval" / "src"))

from .conversations import CONVERSATIONS
from .playing import play
from .storing import HEADS, PLACE, packed, read, unpacked, write


async def main(*names: str) -> None:
    """Play, and keep what came."""
    wholes = {}
    for name, conversation in CONVERSATIONS.items():
        if not names or name in names:
            print(name)  # noqa: T201
            wholes[name] = await play(conversation)
        elif (PLACE / f"{name}.json").exists():
            wholes[name] = read(name)
    for path in PLACE.glob("*.json"):
        path.unlink()
    heads: dict[str, object] = {}
    for name, whole in wholes.items():
        short = packed(whole, heads)
        assert unpacked(json.loads(json.dumps(short)), heads) == whole, name
        write(name, short)
    write(HEADS.removesuffix(".json"), dict(sorted(heads.items())))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
