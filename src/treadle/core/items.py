"""Items: what the model reads and writes, in the shape of the Responses API.

Owns every item and content part as a frozen value with exact wire names and
field order; `ITEMS` and `PARTS` read and write them. Invariant: decoding and
encoding again loses nothing, not even what a newer server adds.
"""

# No postponed annotations: decoders read them, and reading them from text takes time.

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, UnsetType, field

from .wire import Codec, Json, Unknown, Wire, empty, null

__all__ = [
    "ITEMS",
    "PARTS",
    "Action",
    "AdditionalTools",
    "AgentMessage",
    "Compaction",
    "CompactionTrigger",
    "ContextCompaction",
    "CustomToolCall",
    "CustomToolCallOutput",
    "EncryptedContent",
    "ExecAction",
    "FindInPage",
    "FunctionCall",
    "FunctionCallOutput",
    "ImageDetail",
    "ImageGenerationCall",
    "InputAudio",
    "InputImage",
    "InputText",
    "Item",
    "LocalShellCall",
    "Message",
    "OpenPage",
    "Output",
    "OutputText",
    "Part",
    "PlainText",
    "Reasoning",
    "ReasoningText",
    "Refusal",
    "Role",
    "SummaryText",
    "ToolSearchCall",
    "ToolSearchOutput",
    "Unknown",
    "WebSearch",
    "WebSearchCall",
    "decode_item",
    "encode_action",
    "encode_item",
    "item_type",
    "text_of",
]

Role: TypeAlias = Literal["system", "developer", "user", "assistant"]
ImageDetail: TypeAlias = Literal["auto", "low", "high", "original"]


def _metadata() -> Any:
    """Return the field for a harness's own metadata; prefix comparison ignores it."""
    return field(default=UNSET, name="internal_chat_message_metadata_passthrough")


class InputText(Wire, frozen=True, tag="input_text"):
    """Text that goes to the model."""

    text: str


class InputImage(Wire, frozen=True, tag="input_image"):
    """An image that goes to the model, as a data or remote URL."""

    image_url: str
    detail: ImageDetail | None = None


class InputAudio(Wire, frozen=True, tag="input_audio"):
    """Sound that goes to the model, as a data URL."""

    audio_url: str


class OutputText(Wire, frozen=True, tag="output_text"):
    """Text the model wrote."""

    text: str
    annotations: Json | UnsetType = UNSET
    logprobs: Json | UnsetType = UNSET


class Refusal(Wire, frozen=True, tag="refusal"):
    """The model's refusal to answer."""

    refusal: str


class EncryptedContent(Wire, frozen=True, tag="encrypted_content"):
    """Content only its origin can read."""

    encrypted_content: str


class SummaryText(Wire, frozen=True, tag="summary_text"):
    """One part of a reasoning summary."""

    text: str


class ReasoningText(Wire, frozen=True, tag="reasoning_text"):
    """Raw reasoning."""

    text: str


class PlainText(Wire, frozen=True, tag="text"):
    """Reasoning in its older spelling."""

    text: str


Part: TypeAlias = (
    InputText
    | InputImage
    | InputAudio
    | OutputText
    | Refusal
    | EncryptedContent
    | SummaryText
    | ReasoningText
    | PlainText
    | Unknown
)
"""One piece of an item's content."""

Output: TypeAlias = str | tuple[Part, ...]
"""A tool's answer: plain text, or parts when it holds more than text."""


class ExecAction(Wire, frozen=True, kw_only=True, tag="exec"):
    """The command of a local shell call."""

    command: tuple[str, ...]
    timeout_ms: int | None = field(default_factory=null)
    working_directory: str | None = field(default_factory=null)
    env: dict[str, str] | None = field(default_factory=null)
    user: str | None = field(default_factory=null)


class WebSearch(Wire, frozen=True, tag="search"):
    """A web search."""

    query: str | None = None
    queries: tuple[str, ...] | None = None


class OpenPage(Wire, frozen=True, tag="open_page"):
    """A page that was opened."""

    url: str | None = None


class FindInPage(Wire, frozen=True, tag="find_in_page"):
    """A search inside a page."""

    url: str | None = None
    pattern: str | None = None


class Message(Wire, frozen=True, kw_only=True, tag="message"):
    """A message of any role."""

    id: str | None = None
    role: str
    content: tuple[Part, ...]
    status: str | None = None
    phase: str | None = None
    metadata: Json | UnsetType = _metadata()


class AgentMessage(Wire, frozen=True, kw_only=True, tag="agent_message"):
    """A message between agents."""

    id: str | None = None
    author: str
    recipient: str
    content: tuple[Part, ...]
    metadata: Json | UnsetType = _metadata()


class Reasoning(Wire, frozen=True, kw_only=True, tag="reasoning"):
    """The model's reasoning; only its origin can read `encrypted_content`."""

    id: str | None = None
    summary: tuple[Part, ...] = field(default_factory=empty)
    content: tuple[Part, ...] | None = field(default_factory=null)
    encrypted_content: str | None = field(default_factory=null)
    status: str | None = None
    metadata: Json | UnsetType = _metadata()


class LocalShellCall(Wire, frozen=True, kw_only=True, tag="local_shell_call"):
    """A call of the provider's own shell tool (legacy)."""

    id: str | None = None
    call_id: str | None = field(default_factory=null)
    status: str
    action: ExecAction | Unknown
    metadata: Json | UnsetType = _metadata()


class FunctionCall(Wire, frozen=True, kw_only=True, tag="function_call"):
    """A call of a function tool; `arguments` is a string that holds JSON."""

    id: str | None = None
    name: str
    namespace: str | None = None
    arguments: str
    encrypted_function_args: tuple[str, ...] | None = None
    call_id: str
    status: str | None = None
    metadata: Json | UnsetType = _metadata()


class FunctionCallOutput(Wire, frozen=True, kw_only=True, tag="function_call_output"):
    """The answer to a function call; a named one may stand without a call."""

    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    output: Output
    status: str | None = None
    metadata: Json | UnsetType = _metadata()


class CustomToolCall(Wire, frozen=True, kw_only=True, tag="custom_tool_call"):
    """A call of a freeform tool; `input` is raw text."""

    id: str | None = None
    status: str | None = None
    call_id: str
    name: str
    namespace: str | None = None
    input: str
    metadata: Json | UnsetType = _metadata()


class CustomToolCallOutput(Wire, frozen=True, kw_only=True, tag="custom_tool_call_output"):
    """The answer to a freeform call."""

    id: str | None = None
    call_id: str
    name: str | None = None
    output: Output
    status: str | None = None
    metadata: Json | UnsetType = _metadata()


class ToolSearchCall(Wire, frozen=True, kw_only=True, tag="tool_search_call"):
    """A search for deferred tools."""

    id: str | None = None
    call_id: str | None = field(default_factory=null)
    status: str | None = None
    execution: str
    arguments: Json
    metadata: Json | UnsetType = _metadata()


class ToolSearchOutput(Wire, frozen=True, kw_only=True, tag="tool_search_output"):
    """The tools a search found."""

    id: str | None = None
    call_id: str | None = field(default_factory=null)
    status: str
    execution: str
    tools: tuple[Json, ...]
    metadata: Json | UnsetType = _metadata()


class WebSearchCall(Wire, frozen=True, kw_only=True, tag="web_search_call"):
    """A web search run by the provider."""

    id: str | None = None
    status: str | None = None
    action: WebSearch | OpenPage | FindInPage | Unknown | None = None
    metadata: Json | UnsetType = _metadata()


class ImageGenerationCall(Wire, frozen=True, kw_only=True, tag="image_generation_call"):
    """An image made by the provider, in base64."""

    id: str | None = None
    status: str
    revised_prompt: str | None = None
    result: str
    metadata: Json | UnsetType = _metadata()


class Compaction(Wire, frozen=True, kw_only=True, tag="compaction"):
    """A provider's own summary; only its origin can read it."""

    id: str | None = None
    encrypted_content: str
    metadata: Json | UnsetType = _metadata()


class ContextCompaction(Wire, frozen=True, kw_only=True, tag="context_compaction"):
    """A provider's summary of a whole context window."""

    id: str | None = None
    encrypted_content: str | None = None
    metadata: Json | UnsetType = _metadata()


class CompactionTrigger(Wire, frozen=True, kw_only=True, tag="compaction_trigger"):
    """Asks for a compaction. Part of a request only, never of a log."""


class AdditionalTools(Wire, frozen=True, kw_only=True, tag="additional_tools"):
    """Tools sent as an item. Part of a request only, never of a log."""

    id: str | None = None
    role: str
    tools: tuple[Json, ...]
    metadata: Json | UnsetType = _metadata()


Item: TypeAlias = (
    Message
    | AgentMessage
    | Reasoning
    | LocalShellCall
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | ToolSearchCall
    | ToolSearchOutput
    | WebSearchCall
    | ImageGenerationCall
    | Compaction
    | ContextCompaction
    | CompactionTrigger
    | AdditionalTools
    | Unknown
)
"""Anything that can stand in a request's `input`."""

Action: TypeAlias = ExecAction | WebSearch | OpenPage | FindInPage | Unknown
"""What a shell call runs, or a web search did."""

PARTS: Codec[Part] = Codec(
    InputText,
    InputImage,
    InputAudio,
    OutputText,
    Refusal,
    EncryptedContent,
    SummaryText,
    ReasoningText,
    PlainText,
)
"""Reads and writes content parts."""

_ACTIONS: Codec[Action] = Codec(ExecAction, WebSearch, OpenPage, FindInPage)

ITEMS: Codec[Item] = Codec(
    Message,
    AgentMessage,
    Reasoning,
    LocalShellCall,
    FunctionCall,
    FunctionCallOutput,
    CustomToolCall,
    CustomToolCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
    ImageGenerationCall,
    Compaction,
    ContextCompaction,
    CompactionTrigger,
    AdditionalTools,
    nested={"content": PARTS, "summary": PARTS, "output": PARTS, "action": _ACTIONS},
    aliases={"compaction_summary": "compaction"},
)
"""Reads and writes items."""


def decode_item(data: bytes | Raw) -> Item:
    """Decode the item in `data`; an unknown type becomes `Unknown`."""
    return ITEMS.decode(data)


def encode_item(item: Item) -> bytes:
    """Encode `item` as the bytes a provider reads."""
    return ITEMS.encode(item)


def encode_action(action: Action) -> bytes:
    """Encode what a shell call or a web search does, with what only newer servers say."""
    return _ACTIONS.encode(action)


def item_type(item: Item) -> str:
    """Return the wire type of `item`."""
    if isinstance(item, Unknown):
        return item.type
    return str(item.__struct_config__.tag)


def text_of(content: Output) -> str:
    """Return the text of a content array or tool output, non-blank parts joined by newlines.

    A refusal is what the model said, too.
    """
    if isinstance(content, str):
        return content
    texts = (getattr(part, "text", "") or getattr(part, "refusal", "") for part in content)
    return "\n".join(text for text in texts if text.strip())
