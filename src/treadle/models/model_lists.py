"""Model lists: the answers of Codex and of servers, read as facts about models.

Pure. Owns which field of which list means what. Invariants: a field that says nothing usable
is left out, so that the catalog speaks; and a list in no known shape is an error, never an
empty report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, get_args

import msgspec

from ..core.errors import ConfigError
from .profile import ApplyPatch, Shell, Summary, Verbosity, WebSearch

__all__ = [
    "ListedModels",
    "codex_default",
    "read_codex_list",
    "read_llamacpp_window",
    "read_ollama",
    "read_ollama_windows",
    "read_server_list",
]

ListedModels: TypeAlias = dict[str, dict[str, Any]]
"""Fields of profiles by slug."""

_WINDOWS = (
    "loaded_context_length",  # LM Studio: what it was loaded with
    "max_model_len",  # vLLM
    "context_length",  # OpenRouter, Together, Fireworks
    "context_window",  # Groq
    "max_context_length",  # Mistral, LM Studio
    "max_input_tokens",  # Anthropic
    "n_ctx",  # llama.cpp: what it was started with
    "n_ctx_train",
)
_LARGEST = 1 << 40


def read_codex_list(listing: bytes) -> ListedModels:
    """Return the models of `codex debug models`. Raises `ConfigError`."""
    return {model["slug"]: _codex_fields(model) for model in _codex_models(listing)}


def codex_default(listing: bytes) -> str:
    """Return the model that Codex offers first; nothing where it says none."""
    shown = [model for model in _codex_models(listing) if model.get("visibility") == "list"]
    return str(min(shown, key=_priority)["slug"]) if shown else ""


def read_server_list(body: bytes) -> ListedModels:
    """Return the models of a server's ``/models``. Raises `ConfigError`."""
    value = _decode(body)
    listed = value.get("data", value.get("models")) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise ConfigError("its list of models has no known shape; name another address")
    found = [model for model in listed if isinstance(model, dict)]
    named = {_slug(model): model for model in found if _is_text_model(model)}
    return {slug: _server_fields(model) for slug, model in named.items() if slug}


def read_ollama(shown: bytes, loaded: int | None = None) -> dict[str, Any]:
    """Return the facts in Ollama's ``/api/show``; `loaded` is the window that is in use."""
    value = _decode(shown)
    model: dict[str, Any] = value if isinstance(value, dict) else {}
    info = _table(model.get("model_info"))
    trained = next((size for name, size in info.items() if name.endswith(".context_length")), None)
    can = model.get("capabilities")
    return _without_none(
        context_window=_size(loaded) or _num_ctx(model.get("parameters")) or _size(trained),
        max_context_window=_size(trained),
        images="vision" in can if isinstance(can, list) else None,
    )


def read_ollama_windows(running: bytes) -> dict[str, int]:
    """Return the windows of the models in Ollama's ``/api/ps``, which are loaded."""
    value = _decode(running)
    models = _tables(value.get("models")) if isinstance(value, dict) else ()
    sizes = {_slug(model): _size(model.get("context_length")) for model in models}
    return {slug: size for slug, size in sizes.items() if size}


def read_llamacpp_window(props: bytes) -> int | None:
    """Return the window of one slot in llama.cpp's ``/props``; None where it does not say."""
    value = _decode(props)
    settings = _table(value.get("default_generation_settings")) if isinstance(value, dict) else {}
    return _size(settings.get("n_ctx"))


def _codex_models(listing: bytes) -> list[dict[str, Any]]:
    value = _decode(listing)
    models = value.get("models") if isinstance(value, dict) else None
    found = [each for each in models or () if isinstance(each, dict) and each.get("slug")]
    if not found:
        raise ConfigError(
            "Treadle cannot read the model list of this Codex; try another version of Codex"
        )
    return found


def _codex_fields(model: Mapping[str, Any]) -> dict[str, Any]:
    efforts = [each.get("effort") for each in _tables(model.get("supported_reasoning_levels"))]
    modalities = model.get("input_modalities")
    fields = _without_none(
        provider="openai",
        context_window=_size(model.get("context_window")),
        max_context_window=_size(model.get("max_context_window")),
        auto_compact_token_limit=_size(model.get("auto_compact_token_limit")),
        truncation=_truncation(model.get("truncation_policy")),
        shell=_one_of(Shell, model.get("shell_type")),
        apply_patch=_one_of(ApplyPatch, model.get("apply_patch_tool_type")),
        web_search=_one_of(WebSearch, model.get("web_search_tool_type")),
        efforts=[each for each in efforts if isinstance(each, str)],
        default_effort=_text(model.get("default_reasoning_level")),
        reasoning_summary=_one_of(Summary, model.get("default_reasoning_summary")),
        verbosity=_switch(model.get("support_verbosity")),
        default_verbosity=_one_of(Verbosity, model.get("default_verbosity")),
        images="image" in modalities if isinstance(modalities, list) else None,
        original_images=_switch(model.get("supports_image_detail_original")),
        service_tiers=[each["id"] for each in _tables(model.get("service_tiers")) if "id" in each],
        comp_hash=_text(model.get("comp_hash")) or "",
    )
    if fields.get("default_effort") not in fields["efforts"]:
        fields.pop("default_effort", None)
    return fields


def _priority(model: Mapping[str, Any]) -> float:
    value = model.get("priority")
    return value if isinstance(value, int | float) else float("inf")


def _slug(model: Mapping[str, Any]) -> str:
    name = model.get("id") or model.get("key") or model.get("model") or model.get("name")
    # Gemini lists its models with a namespace that requests may leave out.
    return name.removeprefix("models/") if isinstance(name, str) else ""


def _is_text_model(model: Mapping[str, Any]) -> bool:
    kinds = str(model.get("type", "")), str(model.get("object", ""))
    made = _table(model.get("architecture")).get("output_modalities")
    speaks = "text" in made if isinstance(made, list) else True
    return speaks and not any("embedding" in kind for kind in kinds)


def _server_fields(model: Mapping[str, Any]) -> dict[str, Any]:
    places = (model, _table(model.get("top_provider")), _table(model.get("meta")))
    sizes = (_size(place.get(name)) for name in _WINDOWS for place in places)
    return _without_none(
        context_window=next((size for size in sizes if size), None),
        max_context_window=_size(model.get("max_context_length")),
        images=_sees(model),
    )


def _sees(model: Mapping[str, Any]) -> bool | None:
    """Return whether a model takes images; None where the list does not say."""
    for place in (model, _table(model.get("architecture"))):
        modalities = place.get("input_modalities")
        if isinstance(modalities, list):
            return "image" in modalities
    can = model.get("capabilities")
    if isinstance(can, list):
        return "vision" in can or "image" in can
    image = _table(_table(can).get("image_input")).get("supported")
    for said in (model.get("supports_image_input"), _table(can).get("vision"), image):
        if isinstance(said, bool):
            return said
    return {"vlm": True, "llm": False}.get(str(model.get("type")))


def _num_ctx(parameters: object) -> int | None:
    """Return the window that an Ollama model was made with."""
    lines = parameters.splitlines() if isinstance(parameters, str) else []
    words = [line.split() for line in lines]
    given = [each[1] for each in words if len(each) == 2 and each[0] == "num_ctx"]
    return _size(int(given[-1])) if given and given[-1].isdigit() else None


def _truncation(value: object) -> dict[str, Any] | None:
    policy = _table(value)
    known = policy.get("mode") in ("bytes", "tokens") and _size(policy.get("limit"))
    return {"mode": policy["mode"], "limit": policy["limit"]} if known else None


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"its list of models is not JSON ({error}); check the address") from error


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _size(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 < value < _LARGEST else None  # type: ignore[operator,return-value]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _switch(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _one_of(kind: Any, value: object) -> str | None:
    return value if isinstance(value, str) and value in get_args(kind) else None


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
