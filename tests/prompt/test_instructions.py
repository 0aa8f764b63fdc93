from __future__ import annotations

import pytest

from treadle.core.errors import ConfigError
from treadle.models.catalog import Catalog
from treadle.models.profile import SMALL_WINDOW
from treadle.prompt.imported_prompts import ImportedPrompt, ImportedPrompts
from treadle.prompt.instructions import (
    FAMILIES,
    base_instructions,
    compaction_prompt,
    summary_prefix,
)


def profile(slug: str):
    return Catalog.load().profile(slug)


@pytest.mark.parametrize(
    ("slug", "family"),
    [("gpt-5.5", "codex"), ("o3", "reasoning"), ("claude-opus-5", "general"), ("new", "general")],
)
def test_a_model_gets_the_instructions_of_its_family(slug, family):
    assert profile(slug).family == family
    assert base_instructions(profile(slug)) == base_instructions(
        profile("other").override(instructions=family)
    )


def test_every_entry_of_the_catalog_names_a_family():
    catalog = Catalog.load()
    assert {catalog.profile(name).family for name in catalog.entries} == set(FAMILIES)


@pytest.mark.parametrize("family", [each for each in FAMILIES if each != "small"])
def test_instructions_are_complete_and_concise(family):
    text = base_instructions(profile("m").override(instructions=family))
    headings = [line for line in text.split("\n") if line.startswith("# ")]
    expected = [
        "# How to work",
        "# Planning",
        "# Changing files",
        "# The patch format",
        "# Running commands",
        "# Sandbox and approvals",
        "# Checking your work",
        "# Your messages",
    ]
    if family == "codex":
        expected.remove("# The patch format")
    assert headings == expected
    assert 600 <= len(text.split()) <= 1_350
    assert text == text.strip()
    assert "\n\n\n" not in text


def test_a_small_window_gets_short_instructions_unless_a_family_is_named():
    small = profile("m").override(context_window=SMALL_WINDOW)
    assert small.family == "small"
    assert profile("m").override(context_window=SMALL_WINDOW + 1).family == "general"
    assert small.override(instructions="reasoning").family == "reasoning"
    text = base_instructions(small)
    assert len(text) < 1_200
    assert text == text.strip()
    assert "exec_command" in text


def test_a_text_of_the_users_own_goes_before_all_others(tmp_path):
    own = tmp_path / "own.md"
    own.write_text("Be an oracle.\n")
    ImportedPrompts(tmp_path).replace({"models/gpt-5.5.md": "a"}, source="codex", version="1")
    assert base_instructions(profile("gpt-5.5"), tmp_path, str(own)) == "Be an oracle."
    assert base_instructions(profile("gpt-5.5"), tmp_path, "small") == base_instructions(
        profile("m").override(instructions="small")
    )
    for wrong, said in (("missing.md", "cannot be read"), ("smal", "did you mean 'small'")):
        with pytest.raises(ConfigError, match=said):
            base_instructions(profile("gpt-5.5"), tmp_path, wrong)
    own.write_text("\n")
    with pytest.raises(ConfigError, match="are empty"):
        base_instructions(profile("gpt-5.5"), tmp_path, str(own))


def test_an_unknown_family_is_explained():
    with pytest.raises(ConfigError) as caught:
        base_instructions(profile("m").override(instructions="codecs"))
    assert str(caught.value) == (
        "no instructions 'codecs'; did you mean 'codex'? "
        "(accepted: 'general', 'reasoning', 'codex', 'small')"
    )


def test_our_own_texts_are_used_where_nothing_was_imported(tmp_path):
    assert base_instructions(profile("gpt-5.5"), tmp_path) == base_instructions(profile("gpt-5.5"))
    assert compaction_prompt(tmp_path) == compaction_prompt()
    assert summary_prefix(tmp_path) == summary_prefix()


def test_imported_texts_are_used_for_matching_models_until_they_are_removed(tmp_path):
    imported = ImportedPrompts(tmp_path)
    texts = {
        "models/gpt-5.5.md": "für 5.5\r\n",
        "models/brand-new.md": "new\n",
        "compact.md": "sum up\n",
        "summary_prefix.md": "summary:",
    }
    imported.replace(texts, source="codex", version="codex-cli 1")
    assert [
        base_instructions(profile(slug), tmp_path)
        for slug in ("gpt-5.5", "openai/gpt-5.5-2026-01-01", "brand-new")
    ] == ["für 5.5\r\n", "für 5.5\r\n", "new\n"]
    assert base_instructions(profile("gpt-5.4"), tmp_path) == base_instructions(profile("gpt-5.4"))
    assert (compaction_prompt(tmp_path), summary_prefix(tmp_path)) == ("sum up\n", "summary:")

    assert imported.remove() is True
    assert imported.remove() is False
    assert base_instructions(profile("gpt-5.5"), tmp_path) == base_instructions(profile("gpt-5.5"))


def test_a_new_import_replaces_the_whole_of_the_old_one(tmp_path):
    imported = ImportedPrompts(tmp_path)
    imported.replace({"models/a.md": "a"}, source="codex", version="1")
    imported.replace({"models/b.md": "b"}, source="codex", version="2")
    assert (imported.instructions("a"), imported.instructions("b")) == (None, "b")
    manifest = imported.manifest()
    assert manifest is not None
    assert (manifest.version, list(manifest.digests)) == ("2", ["models/b.md"])


def test_a_listing_tells_which_texts_were_changed(tmp_path):
    imported = ImportedPrompts(tmp_path)
    names = ["compact.md", "models/a.md", "models/b.md"]
    digests = imported.replace(dict.fromkeys(names, "x"), source="codex", version="1").digests
    (imported.directory / "models/a.md").write_text("xy")
    (imported.directory / "models/b.md").unlink()
    assert imported.all() == [
        ImportedPrompt("compact.md", 1, digests["compact.md"], intact=True),
        ImportedPrompt("models/a.md", 2, digests["models/a.md"], intact=False),
        ImportedPrompt("models/b.md", 0, digests["models/b.md"], intact=False),
    ]


def test_a_model_name_cannot_reach_outside_the_directory(tmp_path):
    (tmp_path / "secret.md").write_text("no")
    ImportedPrompts(tmp_path).replace({"models/a.md": "a"}, source="codex", version="1")
    assert ImportedPrompts(tmp_path).instructions("../../../secret") is None
    assert base_instructions(profile("../../../secret"), tmp_path) != "no"


def test_a_damaged_import_says_what_to_do(tmp_path):
    imported = ImportedPrompts(tmp_path)
    imported.replace({"compact.md": "x"}, source="codex", version="1")
    (imported.directory / "manifest.json").write_text("{")
    (imported.directory / "compact.md").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="run `treadle prompts import` again"):
        imported.manifest()
    with pytest.raises(ConfigError, match="run `treadle prompts import` again"):
        compaction_prompt(tmp_path)


def test_a_home_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "prompts").write_text("a file where a directory belongs")
    with pytest.raises(ConfigError, match=r"cannot write '.*codex': File exists"):
        ImportedPrompts(tmp_path).replace({}, source="codex", version="1")
