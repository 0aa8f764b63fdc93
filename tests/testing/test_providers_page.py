from __future__ import annotations

import re
import tomllib
from pathlib import Path

from treadle.config.validation import valid_values
from treadle.core.typed import convert
from treadle.models.providers import provider_names
from treadle.testing.script import Script

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()


def test_the_script_on_the_page_is_one():
    page = PAGE[PAGE.index("\n## Scripts") :]
    found = re.search(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found
    script = convert(tomllib.loads(found[1]), Script)
    assert len(script.answers) == PAGE.count("[[answer]]")


def test_the_settings_on_the_page_are_some():
    found = re.search(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    settings = dict(valid_values(tomllib.loads(found[1]), str))
    assert settings["providers", "older", "query_params"] == {"api-version": "2024-10-21"}


def test_the_page_names_every_provider():
    assert [name for name in provider_names() if f"`{name}`" not in PAGE] == []
