from __future__ import annotations

import re
import tomllib
from pathlib import Path

from treadle.core.typed import convert
from treadle.models.providers import provider_names
from treadle.testing.script import Script

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()


def test_the_script_on_the_page_is_one():
    found = re.search(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    script = convert(tomllib.loads(found[1]), Script)
    assert len(script.answers) == PAGE.count("[[answer]]")


def test_the_page_names_every_provider():
    assert [name for name in provider_names() if f"`{name}`" not in PAGE] == []
