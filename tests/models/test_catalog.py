from __future__ import annotations

import textwrap

import msgspec
import pytest
from inline_snapshot import snapshot

from treadle.core.errors import ConfigError
from treadle.core.text import TruncationPolicy
from treadle.models.catalog import Catalog
from treadle.models.profile import ModelProfile


@pytest.fixture
def catalog() -> Catalog:
    return Catalog.load()


def with_file(tmp_path, text: str) -> Catalog:
    file = tmp_path / "models.toml"
    file.write_text(text)
    return Catalog.load(file)


CURRENT = [
    # slug, window, most, unit, verbosity, effort, hash
    ("gpt-5.6-sol", 272_000, 872_000, "tokens", "low", "low", "3000"),
    ("gpt-5.6-terra", 272_000, 872_000, "tokens", "low", "medium", "3000"),
    ("gpt-5.6-luna", 272_000, 872_000, "tokens", "low", "medium", "3000"),
    ("gpt-6-astra", 272_000, 872_000, "tokens", "low", "low", "3000"),
    ("gpt-6.1-sol", 272_000, 872_000, "tokens", "low", "low", "3000"),
    ("gpt-6.1-terra", 500_000, 872_000, "tokens", "low", "low", "3000"),
    ("gpt-6-sol", 272_000, 872_000, "tokens", "low", "medium", "3000"),
    ("gpt-6-luna", 272_000, 872_000, "tokens", "low", "medium", "3000"),
    ("gpt-daybreak-blue-latest", 272_000, 872_000, "tokens", "low", "low", "3000"),
    ("gpt-daybreak-red-latest", 372_000, 372_000, "tokens", "high", "medium", "3000"),
    ("gpt-5.5", 272_000, 272_000, "tokens", "low", "medium", "2911"),
    ("gpt-5.4", 272_000, 1_000_000, "tokens", "low", "medium", "2911"),
    ("gpt-5.4-mini", 272_000, 272_000, "tokens", "medium", "medium", "2911"),
    ("gpt-5.2", 272_000, 272_000, "bytes", "low", "medium", ""),
    ("codex-auto-review", 272_000, 872_000, "tokens", "low", "medium", "3000"),
]


@pytest.mark.parametrize("row", CURRENT, ids=lambda row: row[0])
def test_current_models_have_the_facts_of_the_published_table(catalog, row):
    profile = catalog.profile(row[0])
    assert row == (
        profile.slug,
        profile.context_window,
        profile.max_context_window,
        profile.truncation.mode,
        profile.default_verbosity,
        profile.default_effort,
        profile.comp_hash,
    )
    assert (profile.apply_patch, profile.shell, profile.images) == (
        "freeform",
        "unified_exec",
        True,
    )


FAMILIES = [
    # slug that no entry names, provider, window, images, patches
    ("gpt-6.9-nova", "openai", 272_000, True, "freeform"),
    ("gpt-7", "openai", 272_000, True, "freeform"),
    ("gpt-5.7-sol", "openai", 272_000, True, "freeform"),
    ("gpt-5.3-codex", "openai", 272_000, True, "freeform"),
    ("claude-opus-5-5", "anthropic", 1_000_000, True, "function"),
    ("claude-sonnet-6", "anthropic", 1_000_000, True, "function"),
    ("claude-opus-4-6-20260205", "anthropic", 1_000_000, True, "function"),
    ("anthropic/claude-sonnet-4.6", "anthropic", 1_000_000, True, "function"),
    ("claude-sonnet-4-5-20250929", "anthropic", 200_000, True, "function"),
    ("claude-haiku-4-5", "anthropic", 200_000, True, "function"),
    ("claude-3-5-haiku-latest", "anthropic", 200_000, True, "function"),
    ("gemini-4-argon", "gemini", 1_048_576, True, "function"),
    ("google/gemini-3.8-flash", "gemini", 1_048_576, True, "function"),
    ("deepseek-v4-pro", "deepseek", 1_000_000, False, "function"),
    ("deepseek-chat", "deepseek", 131_072, False, "function"),
    ("grok-5", "xai", 500_000, True, "function"),
    ("x-ai/grok-4.7", "xai", 500_000, True, "function"),
    ("grok-4-0709", "xai", 256_000, True, "function"),
    ("mistral-medium-2604", "mistral", 262_144, True, "function"),
    ("devstral-2", "mistral", 256_000, False, "function"),
    ("Qwen/Qwen3-235B-A22B", "local", 131_072, False, "function"),
    ("qwen3.8-27b", "local", 131_072, True, "function"),
    ("moonshotai/kimi-k2.7-code", "local", 262_144, True, "function"),
    ("accounts/fireworks/models/deepseek-v4-pro", "deepseek", 1_000_000, False, "function"),
]


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row[0])
def test_a_new_member_of_a_family_has_images_patches_and_a_window(catalog, row):
    profile = catalog.profile(row[0])
    assert profile.known
    assert row == (
        profile.slug,
        profile.provider,
        profile.context_window,
        profile.images,
        profile.apply_patch,
    )


EARLIER = [
    # slug, entry, window, unit, shell, patch, verbosity, parallel
    ("o3-2025-04-16", "o3", 200_000, "bytes", "shell", "none", False, False),
    ("o4-mini", "o4-mini", 200_000, "bytes", "shell", "none", False, False),
    ("codex-mini-latest", "codex-mini-latest", 200_000, "bytes", "local", "none", False, False),
    ("gpt-4.1-mini", "gpt-4.1", 1_047_576, "bytes", "shell", "none", False, False),
    ("gpt-4o-mini", "gpt-4o", 128_000, "bytes", "shell", "none", False, False),
    ("gpt-3.5-turbo", "gpt-3.5", 16_385, "bytes", "shell", "none", False, False),
    ("openai/gpt-oss-20b", "gpt-oss", 96_000, "bytes", "shell", "function", False, False),
    ("gpt-5-codex", "gpt-5-codex", 272_000, "tokens", "shell_command", "freeform", False, False),
    ("codex-x", "codex-", 272_000, "tokens", "shell_command", "freeform", False, False),
    (
        "gpt-5.1-codex-max",
        "gpt-5.1-codex-max",
        272_000,
        "tokens",
        "shell_command",
        "freeform",
        False,
        False,
    ),
    (
        "gpt-5.1-codex-mini",
        "gpt-5.1-codex",
        272_000,
        "tokens",
        "shell_command",
        "freeform",
        False,
        False,
    ),
    ("gpt-5.2-codex", "gpt-5.2-codex", 272_000, "tokens", "shell_command", "freeform", False, True),
    ("gpt-5.1", "gpt-5.1", 272_000, "bytes", "shell_command", "freeform", True, True),
    ("gpt-5-mini", "gpt-5", 272_000, "bytes", "shell", "none", True, False),
]


@pytest.mark.parametrize("row", EARLIER, ids=lambda row: row[0])
def test_earlier_models_follow_the_prefix_chain(catalog, row):
    profile = catalog.profile(row[0])
    assert row == (
        profile.slug,
        profile.entry,
        profile.context_window,
        profile.truncation.mode,
        profile.shell,
        profile.apply_patch,
        profile.verbosity,
        profile.parallel_tool_calls,
    )


@pytest.mark.parametrize(
    ("name", "provider", "slug", "entry"),
    [
        ("gpt-5.5", "openai", "gpt-5.5", "gpt-5.5"),
        ("openai:gpt-5.5", "openai", "gpt-5.5", "gpt-5.5"),
        ("openai/gpt-5.5-2026-04-01", "openai", "openai/gpt-5.5-2026-04-01", "gpt-5.5"),
        ("openrouter:openai/gpt-5.4-mini", "openrouter", "openai/gpt-5.4-mini", "gpt-5.4-mini"),
        ("GPT-5.5", "openai", "GPT-5.5", "gpt-5.5"),
        ("claude-opus-5", "anthropic", "claude-opus-5", "claude-"),
        ("ollama:llama3.1:70b", "ollama", "llama3.1:70b", "llama3.1"),
        ("llama3.1:70b", "local", "llama3.1:70b", "llama3.1"),
        (
            "meta-llama/Llama-3.3-70B-Instruct",
            "local",
            "meta-llama/Llama-3.3-70B-Instruct",
            "llama-3.3",
        ),
        ("a/b/gpt-5.5", "openai", "a/b/gpt-5.5", "gpt-5.5"),
    ],
)
def test_a_name_is_matched_by_its_longest_prefix_and_keeps_what_was_typed(
    catalog, name, provider, slug, entry
):
    profile = catalog.profile(name)
    assert (profile.provider, profile.slug, profile.entry) == (provider, slug, entry)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("codex/gpt-5.5", "codex:gpt-5.5"),
        ("codex:gpt-5.5", "codex:gpt-5.5"),
        ("codex-cli:gpt-5.5", "openai:gpt-5.5"),
        ("codex-cli/gpt-5.5", "openai:gpt-5.5"),
        ("openai-codex:gpt-5.5", "openai:gpt-5.5"),
        ("openai-codex/gpt-5.5", "openai:gpt-5.5"),
        (" OpenAI-Codex:gpt-5.5", "openai:gpt-5.5"),
        ("OpenAI:gpt-5.5", "openai:gpt-5.5"),
        ("openrouter:codex/gpt-5.5", "openrouter:codex/gpt-5.5"),
        ("codex-mini-latest", "codex-mini-latest"),
        ("openai/gpt-5.5", "openai/gpt-5.5"),
        ("codex/", "codex/"),
    ],
)
def test_other_spellings_of_a_provider_are_understood(catalog, name, full):
    assert catalog.full_name(name) == full
    assert catalog.profile(name) == catalog.profile(full)


def test_a_provider_of_the_users_own_counts_before_another_spelling(catalog):
    assert catalog.with_providers(["codex-cli"]).split("codex-cli:x") == ("codex-cli", "x")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("openai:gtp-5.5", "openai:gpt-5.5"),
        ("anthropic:claude-opus-55", "anthropic:claude-opus-5-5"),
        ("gemini:gemini-4-argo", "gemini:gemini-4-argon"),
        ("openai:zzz", ""),
    ],
)
def test_the_name_that_was_probably_meant_is_found(catalog, name, near):
    assert catalog.near_name(name) == near


def test_an_unknown_model_gets_the_fallback_and_says_so(catalog):
    assert catalog.profile("brand-new") == ModelProfile(
        slug="brand-new",
        known=False,
        context_window=272_000,
        truncation=TruncationPolicy("bytes", 10_000),
        shell="unified_exec",
        apply_patch="none",
        parallel_tool_calls=True,
        reasoning_summary="auto",
        instructions="auto",
    )


def test_an_empty_name_is_an_unknown_model(catalog):
    assert catalog.profile("").known is False


def test_windows_and_limits_are_derived(catalog):
    profile = catalog.profile("gpt-5.5")
    assert (profile.auto_compact_limit, profile.effective_window) == (244_800, 258_400)
    assert profile.override(auto_compact_token_limit=100_000).auto_compact_limit == 100_000
    assert profile.override(auto_compact_token_limit=999_999).auto_compact_limit == 244_800
    windowless = profile.override(context_window=None)
    assert (windowless.auto_compact_limit, windowless.effective_window) == (None, None)
    assert windowless.override(auto_compact_token_limit=7).auto_compact_limit == 7


def test_a_limit_on_tool_output_keeps_the_models_unit(catalog):
    assert catalog.profile("gpt-5.5").truncation_policy() == TruncationPolicy("tokens", 10_000)
    assert catalog.profile("gpt-5.5").truncation_policy(500) == TruncationPolicy("tokens", 500)
    assert catalog.profile("gpt-5.2").truncation_policy(500) == TruncationPolicy("bytes", 2_000)


def test_effort_and_verbosity_are_given_as_the_wire_wants_them(catalog):
    sol, plain = catalog.profile("gpt-5.6-sol"), catalog.profile("gpt-4o")
    assert [sol.effort(), sol.effort("high"), sol.effort("ultra")] == ["low", "high", "max"]
    assert [plain.effort(), plain.effort("high")] == [None, "high"]
    assert [sol.verbosity_for(), sol.verbosity_for("high")] == ["low", "high"]
    assert [plain.verbosity_for(), plain.verbosity_for("high")] == [None, None]


def test_a_users_file_changes_single_fields_and_adds_entries(tmp_path):
    catalog = with_file(
        tmp_path,
        """
        providers = ["house"]

        [fallback]
        context_window = 8000

        [models."gpt-5.5"]
        context_window = 100000

        [models."gpt-5.5-nano"]
        images = false

        [models."mine"]
        like = "gpt-5.4"
        truncation = { mode = "bytes", limit = 77 }
        """,
    )
    built_in = Catalog.load()
    assert catalog.profile("gpt-5.5") == built_in.profile("gpt-5.5").override(
        context_window=100_000
    )
    assert catalog.profile("gpt-5.5-nano") == built_in.profile("gpt-5.5-nano").override(
        context_window=100_000, images=False, entry="gpt-5.5-nano"
    )
    assert catalog.profile("house:mine-2") == built_in.profile("gpt-5.4").override(
        slug="mine-2", provider="house", entry="mine", truncation=TruncationPolicy("bytes", 77)
    )
    assert catalog.profile("brand-new").context_window == 8_000
    assert catalog.profile("gpt-4o") == built_in.profile("gpt-4o")


def test_a_provider_that_an_entry_names_is_known(tmp_path):
    catalog = with_file(tmp_path, '[models."mine"]\nprovider = "attic"\n')
    assert catalog.split("attic:mine:8b") == ("attic", "mine:8b")
    assert catalog.profile("attic:mine:8b") == catalog.profile("mine:8b")


def test_what_a_provider_reports_overrides_the_catalog_but_not_the_user(tmp_path):
    catalog = with_file(tmp_path, '[models."gpt-5.5"]\nimages = false\n')
    reported = {"context_window": 400_000, "images": True}
    profile = catalog.profile("gpt-5.5", reported)
    assert (profile.context_window, profile.images) == (400_000, False)
    unknown = catalog.profile("brand-new", reported)
    assert (unknown.context_window, unknown.images, unknown.known) == (400_000, True, True)


def test_a_missing_users_file_changes_nothing(tmp_path):
    assert Catalog.load(tmp_path / "models.toml") == Catalog.load()


def test_a_file_with_keys_that_earlier_versions_took_is_read(tmp_path):
    old = 'lite = true\nmulti_agent = "v2"\ntool_mode = "code"\ntool_search = true\n'
    catalog = with_file(tmp_path, f'[models."gpt-5.5"]\nimages = false\n{old}')
    assert catalog.profile("gpt-5.5") == Catalog.load().profile("gpt-5.5").override(images=False)


def test_an_unreadable_users_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read '.*': Is a directory"):
        Catalog.load(tmp_path)


def message(tmp_path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        with_file(tmp_path, text)
    return str(caught.value).replace(str(tmp_path / "models.toml"), "models.toml")


def test_a_wrong_users_file_is_explained(tmp_path):
    messages = [
        message(tmp_path, text)
        for text in (
            "[modles]",
            "models = 3",
            'providers = "x"',
            '[models."m"]\ncontext_windows = 5',
            '[models."m"]\ncontext_window = "big"',
            '[models."m"]\ncontext_window = 0',
            '[models."m"]\neffective_window_percent = 101',
            '[models."m"]\nshell = "bash"',
            '[models."m"]\nimages = "yes"',
            '[models."m"]\nefforts = "low"',
            '[models."m"]\ntruncation = 5',
            '[models."m"]\nlike = 5',
            '[models."m"]\nlike = "gpt-5.55"',
            "[fallback]\nimages = 1",
        )
    ]
    shown = "\n".join(textwrap.fill(each, 90, subsequent_indent="  ") for each in messages)
    assert shown == snapshot("""\
models.toml: section 'modles' is unknown; did you mean 'models'? (accepted: fallback,
  models, providers)
models.toml: models must be a table, not 3
models.toml: 'providers' is 'x'; accepted: a list of names
models.toml: models.'m': key 'context_windows' is unknown; did you mean 'context_window'?
  (accepted: apply_patch, audio, auto_compact_token_limit, comp_hash, context_window,
  default_effort, default_verbosity, deferred_tools, effective_window_percent, efforts,
  images, instructions, max_context_window, original_images, parallel_tool_calls,
  provider, reasoning_summary, service_tiers, shell, text_calls, truncation, verbosity,
  web_search)
models.toml: models.'m': 'context_window' is 'big'; accepted: a whole number above 0
models.toml: models.'m': 'context_window' is 0; accepted: a whole number above 0
models.toml: models.'m': 'effective_window_percent' is 101; accepted: a whole number above
  0 and at most 100
models.toml: models.'m': 'shell' is 'bash'; accepted: 'unified_exec', 'shell_command',
  'shell', 'local'
models.toml: models.'m': 'images' is 'yes'; accepted: true or false
models.toml: models.'m': 'efforts' is 'low'; accepted: a list of strings
models.toml: models.'m': 'truncation' is 5; accepted: a table { mode = 'bytes' or
  'tokens', limit = a whole number }
models.toml: models.'m': 'like' is 5; accepted: the name of an entry
models.toml: models.'m' is like 'gpt-5.55', which is not known; did you mean 'gpt-5.5'?
models.toml: fallback: 'images' is 1; accepted: true or false\
""")


def test_a_derived_field_cannot_be_set(tmp_path):
    assert message(tmp_path, '[models."m"]\nslug = "x"').startswith(
        "models.toml: models.'m': key 'slug' is unknown (accepted: apply_patch, audio, "
    )


def test_a_file_that_is_not_toml_is_explained(tmp_path):
    file = tmp_path / "models.toml"
    for data in (b"\xff\xfe", b"[models"):
        file.write_bytes(data)
        with pytest.raises(ConfigError, match=r"is not valid TOML: .*; correct or remove it"):
            Catalog.load(file)


def test_wrong_metadata_of_a_provider_is_explained(catalog):
    with pytest.raises(ConfigError, match=r"metadata of 'm': 'images' is 'no'; accepted: true or"):
        catalog.profile("m", {"images": "no"})


def test_every_entry_is_consistent(catalog):
    for name in catalog.entries:
        profile = catalog.profile(name)
        assert profile.entry == name
        assert profile.default_effort in {"", *profile.efforts}
        assert profile.default_verbosity == "" or profile.verbosity
        assert profile.context_window is not None
        assert profile.context_window <= (profile.max_context_window or profile.context_window)
        assert msgspec.json.decode(msgspec.json.encode(profile), type=ModelProfile) == profile
