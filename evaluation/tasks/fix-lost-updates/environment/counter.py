"""Counts visits in a JSON file."""

import json
from pathlib import Path


def read(path):
    """Return the counts."""
    file = Path(path)
    return json.loads(file.read_text()) if file.exists() else {}


def add(path, name, amount=1):
    """Add to one of the counts."""
    counts = read(path)
    counts[name] = counts.get(name, 0) + amount
    Path(path).write_text(json.dumps(counts))
