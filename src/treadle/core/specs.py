"""Tool specifications: how a request describes the tools that a model may call.

Owns each kind of tool as a frozen value in wire order; `SPECS` reads and writes
them. Invariant: `parameters` keep the exact bytes they were made with, so a tool
list never changes by being read.
"""

# No postponed annotations: decoders read them, and reading them from text takes time.

from typing import TypeAlias

from msgspec import Raw, Struct, field

from .wire import Codec, Json, Unknown, Wire, json_bytes

__all__ = [
    "SPECS",
    "CustomTool",
    "FunctionTool",
    "Grammar",
    "ImageGenerationTool",
    "LocalShellTool",
    "Namespace",
    "SearchFilters",
    "TextFormat",
    "ToolSearchTool",
    "ToolSpec",
    "UserLocation",
    "WebSearchTool",
    "parameters",
    "spec_name",
]


class FunctionTool(Wire, frozen=True, kw_only=True, tag="function"):
    """A function with a JSON schema for its arguments."""

    name: str
    description: str
    strict: bool = field(default_factory=bool)
    defer_loading: bool | None = None
    parameters: Json


class Grammar(Wire, frozen=True, kw_only=True, tag="grammar"):
    """Constrains a freeform tool's input."""

    syntax: str
    definition: str


class TextFormat(Wire, frozen=True, tag="text"):
    """Leaves a freeform tool's input unconstrained."""


class CustomTool(Wire, frozen=True, kw_only=True, tag="custom"):
    """A freeform tool: its input is raw text."""

    name: str
    description: str
    format: Grammar | TextFormat | Unknown


class Namespace(Wire, frozen=True, kw_only=True, tag="namespace"):
    """Tools under one name."""

    name: str
    description: str
    tools: tuple[FunctionTool | CustomTool | Unknown, ...]


class ToolSearchTool(Wire, frozen=True, kw_only=True, tag="tool_search"):
    """Finds deferred tools."""

    execution: str
    description: str
    parameters: Json


class SearchFilters(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a web search may look."""

    allowed_domains: tuple[str, ...] | None = None


class UserLocation(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Roughly where the user is."""

    type: str = field(default_factory=lambda: "approximate")
    country: str | None = None
    region: str | None = None
    city: str | None = None
    timezone: str | None = None


class WebSearchTool(Wire, frozen=True, kw_only=True, tag="web_search"):
    """The provider's web search."""

    external_web_access: bool | None = None
    indexed_web_access: bool | None = None
    filters: SearchFilters | None = None
    user_location: UserLocation | None = None
    search_context_size: str | None = None
    search_content_types: tuple[str, ...] | None = None


class ImageGenerationTool(Wire, frozen=True, kw_only=True, tag="image_generation"):
    """The provider's image generation."""

    output_format: str | None = None


class LocalShellTool(Wire, frozen=True, tag="local_shell"):
    """The provider's own shell tool (legacy)."""


ToolSpec: TypeAlias = (
    FunctionTool
    | CustomTool
    | Namespace
    | ToolSearchTool
    | WebSearchTool
    | ImageGenerationTool
    | LocalShellTool
    | Unknown
)
"""Anything that can stand in a request's `tools`."""

_FORMATS: Codec[Grammar | TextFormat | Unknown] = Codec(Grammar, TextFormat)
_MEMBERS: Codec[FunctionTool | CustomTool | Unknown] = Codec(
    FunctionTool, CustomTool, nested={"format": _FORMATS}
)

SPECS: Codec[ToolSpec] = Codec(
    FunctionTool,
    CustomTool,
    Namespace,
    ToolSearchTool,
    WebSearchTool,
    ImageGenerationTool,
    LocalShellTool,
    nested={"format": _FORMATS, "tools": _MEMBERS},
)
"""Reads and writes tool specifications."""


def parameters(properties: dict[str, dict[str, object]], required: tuple[str, ...] = ()) -> Json:
    """Return an object schema with its properties in alphabetical order."""
    schema: dict[str, object] = {
        "type": "object",
        "properties": {name: properties[name] for name in sorted(properties)},
    }
    if required:
        schema["required"] = sorted(required)
    schema["additionalProperties"] = False
    return Raw(json_bytes(schema))


def spec_name(spec: ToolSpec) -> str:
    """Return the name by which a model calls `spec`; for hosted tools their type."""
    if isinstance(spec, Unknown):
        return spec.type
    return getattr(spec, "name", None) or str(spec.__struct_config__.tag)
