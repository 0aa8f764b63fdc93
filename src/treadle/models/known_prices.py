"""The built-in prices of models.

Owns what a million tokens cost at each provider, since when, and where and when that was read.
docs/prices.md says how they are used. Invariant: only what a provider lists for exactly this
model stands here; a model that is like another one has no price until somebody has read it.
"""

from __future__ import annotations

from msgspec import Struct

from ..config.settings import Price

__all__ = ["KNOWN_PRICES", "OWN_MACHINE", "ListPrice"]


class ListPrice(Struct, frozen=True, kw_only=True):
    """What a provider's list says of one model, for one span of time."""

    price: Price
    looked_up: str
    """The day on which somebody read it, in ISO format."""
    source: str
    since: str = ""
    """The day (UTC) from which it is charged; empty: it is the first that we know."""
    long_from: int = 0
    """Input tokens from which the whole request costs `long`; 0 where nothing changes."""
    long: Price | None = None
    tiers: dict[str, float] = {}
    """How many times the price a service tier costs; a tier that is missing has no price."""
    busy_hours: tuple[tuple[int, int], ...] = ()
    """Hours (UTC) of working days at which the price holds; at all others it costs `quiet`."""
    quiet: float = 1.0


_TIERS = {"auto": 1.0, "default": 1.0, "standard_only": 1.0}
_OPENAI = "https://developers.openai.com/api/docs/pricing"
_ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing"
_GOOGLE = "https://ai.google.dev/gemini-api/docs/pricing"
_XAI = "https://docs.x.ai/developers/pricing"
_DEEPSEEK = "https://api-docs.deepseek.com/quick_start/pricing"
_MISTRAL = "https://docs.mistral.ai/inference/model-selection-guide"
_QWEN = "https://www.alibabacloud.com/help/en/model-studio/model-pricing"
_GROQ = "https://groq.com/pricing"
_CEREBRAS = "https://www.cerebras.ai/pricing"
_OPENROUTER = "https://openrouter.ai/api/v1/models"
_READ = "2026-11-18"


def _openai(
    given: float,
    cached: float,
    output: float,
    *,
    writes: bool = False,
    long: bool = False,
    faster: float | None = None,
    source: str = _OPENAI,
) -> ListPrice:
    """Return a price of OpenAI, where newer models charge for what they write to the cache."""

    def price(once: float, made: float) -> Price:
        write = 1.25 * once * given if writes else None
        kept = 2.5 * once * given if writes else None
        return Price(
            input=once * given,
            cached_input=once * cached,
            cache_write=write,
            cache_write_long=kept,
            output=made * output,
        )

    return ListPrice(
        price=price(1.0, 1.0),
        looked_up=_READ,
        source=source,
        # More than 272,000 tokens of input: all input doubles, output costs half as much again.
        long_from=272_001 if long else 0,
        long=price(2.0, 1.5) if long else None,
        tiers=_TIERS | ({"priority": faster} if faster else {}),
    )


def _claude(given: float, cached: float, output: float) -> Price:
    """Return a price of Anthropic: writes cost 1.25 times the input, for an hour twice as much."""
    return Price(
        input=given,
        cached_input=cached,
        cache_write=1.25 * given,
        cache_write_long=2.0 * given,
        output=output,
    )


def _list_price(source: str, given: float, cached: float | None, output: float) -> ListPrice:
    price = Price(input=given, cached_input=cached, output=output)
    return ListPrice(price=price, looked_up=_READ, source=source, tiers=_TIERS)


def _anthropic(given: float, cached: float, output: float, source: str = _ANTHROPIC) -> ListPrice:
    price = _claude(given, cached, output)
    return ListPrice(price=price, looked_up=_READ, source=source, tiers=_TIERS)


def _xai(given: float, cached: float, output: float) -> ListPrice:
    long = Price(input=2 * given, cached_input=2 * cached, output=2 * output)
    return ListPrice(
        price=Price(input=given, cached_input=cached, output=output),
        looked_up=_READ,
        source=_XAI,
        long_from=200_000,
        long=long,
        tiers=_TIERS,
    )


def _deepseek(given: float, cached: float, output: float, since: str) -> ListPrice:
    # On Chinese holidays all hours are quiet: then this is an upper bound.
    return ListPrice(
        price=Price(input=given, cached_input=cached, output=output),
        looked_up=_READ,
        source=_DEEPSEEK,
        since=since,
        tiers=_TIERS,
        busy_hours=((1, 4), (6, 10)),
        quiet=0.5,
    )


def _google_long(given: float, cached: float, output: float, long_output: float) -> ListPrice:
    return ListPrice(
        price=Price(input=given, cached_input=cached, output=output),
        looked_up=_READ,
        source=_GOOGLE,
        long_from=200_001,
        long=Price(input=2 * given, cached_input=2 * cached, output=long_output),
        tiers=_TIERS,
    )


def _argon(since: str, given: float, cached: float, output: float) -> ListPrice:
    return ListPrice(
        price=Price(input=given, cached_input=cached, output=output),
        looked_up=_READ,
        source=_GOOGLE,
        since=since,
        tiers=_TIERS,
    )


_ARGON = (_argon("", 2.0, 0.1, 10.0), _argon("2026-12-01", 4.0, 0.2, 20.0))
"""Introduced at half its price, until the end of November 2026."""

_HAIKU_5_5 = ListPrice(
    price=_claude(0.1, 0.01, 0.5),
    looked_up=_READ,
    source=_ANTHROPIC,
    long_from=100_001,
    long=_claude(0.5, 0.05, 2.5),
    tiers=_TIERS,
)

OWN_MACHINE = ListPrice(
    price=Price(input=0.0, output=0.0),
    looked_up=_READ,
    source="a model on your own machine: no provider charges for its tokens",
    tiers=_TIERS,
)
"""What servers of one's own charge."""

_FLASH = _deepseek(0.3, 0.006, 1.2, "2026-09-10")

KNOWN_PRICES: dict[str, dict[str, tuple[ListPrice, ...]]] = {
    "openai": {
        "gpt-6.1-sol": (_openai(2.0, 0.1, 10.0, writes=True, long=True, faster=2.0),),
        "gpt-6.1-terra": (_openai(1.0, 0.05, 5.0, writes=True, long=True, faster=2.0),),
        "gpt-6-astra": (_openai(10.0, 1.0, 50.0, writes=True, long=True, faster=2.0),),
        "gpt-6-sol": (_openai(2.0, 0.2, 10.0, writes=True, long=True, faster=2.0),),
        "gpt-6-luna": (_openai(0.1, 0.01, 0.5, writes=True, long=True, faster=2.0),),
        "gpt-5.6": (_openai(4.0, 0.4, 20.0, writes=True, long=True, faster=2.0),),
        "gpt-5.6-sol": (_openai(4.0, 0.4, 20.0, writes=True, long=True, faster=2.0),),
        "gpt-5.6-terra": (_openai(2.0, 0.2, 12.0, writes=True, long=True, faster=2.0),),
        "gpt-5.6-luna": (_openai(0.2, 0.02, 1.2, writes=True, long=True, faster=2.0),),
        "gpt-5.5": (_openai(5.0, 0.5, 30.0, long=True, faster=2.5),),
        "gpt-5.4": (_openai(2.5, 0.25, 15.0, long=True, faster=2.0),),
        "gpt-5.4-mini": (_openai(0.75, 0.075, 4.5, faster=2.0),),
        "gpt-5.4-nano": (_openai(0.2, 0.02, 1.25),),
        "gpt-5.3-codex": (_openai(1.75, 0.175, 14.0),),
        "gpt-5.2": (_openai(1.75, 0.175, 14.0),),
        "gpt-5.2-codex": (_openai(1.75, 0.175, 14.0),),
        "gpt-5.1": (_openai(1.25, 0.125, 10.0),),
        "gpt-5.1-codex": (_openai(1.25, 0.125, 10.0),),
        "gpt-5.1-codex-max": (_openai(1.25, 0.125, 10.0),),
        "gpt-5.1-codex-mini": (_openai(0.25, 0.025, 2.0),),
        "gpt-5": (_openai(1.25, 0.125, 10.0),),
        "gpt-5-codex": (_openai(1.25, 0.125, 10.0),),
        "gpt-5-mini": (_openai(0.25, 0.025, 2.0),),
        "gpt-5-nano": (_openai(0.05, 0.005, 0.4),),
        "gpt-4.1": (_openai(2.0, 0.5, 8.0),),
        "gpt-4.1-mini": (_openai(0.4, 0.1, 1.6),),
        "gpt-4.1-nano": (_openai(0.1, 0.025, 0.4),),
        "gpt-4o": (_openai(2.5, 1.25, 10.0),),
        "gpt-4o-mini": (_openai(0.15, 0.075, 0.6),),
        "o1": (_openai(15.0, 7.5, 60.0),),
        "o3": (_openai(2.0, 0.5, 8.0),),
        "o3-mini": (_openai(1.1, 0.55, 4.4),),
        "o4-mini": (_openai(1.1, 0.275, 4.4),),
    },
    "anthropic": {
        "claude-fable-5-1": (_anthropic(10.0, 0.25, 50.0),),
        "claude-fable-5": (_anthropic(10.0, 1.0, 50.0),),
        "claude-opus-5-5": (_anthropic(4.0, 0.2, 20.0),),
        "claude-opus-5": (_anthropic(5.0, 0.5, 25.0),),
        "claude-opus-4-8": (_anthropic(5.0, 0.5, 25.0),),
        "claude-opus-4-7": (_anthropic(5.0, 0.5, 25.0),),
        "claude-opus-4-6": (_anthropic(5.0, 0.5, 25.0),),
        "claude-opus-4-5": (_anthropic(5.0, 0.5, 25.0),),
        "claude-sonnet-5-5": (_anthropic(2.0, 0.1, 10.0),),
        "claude-sonnet-5": (_anthropic(2.0, 0.2, 10.0),),
        "claude-sonnet-4-6": (_anthropic(3.0, 0.3, 15.0),),
        "claude-sonnet-4-5": (_anthropic(3.0, 0.3, 15.0),),
        "claude-haiku-5-5": (_HAIKU_5_5,),
        "claude-haiku-4-5": (_anthropic(1.0, 0.1, 5.0),),
    },
    "gemini": {
        "gemini-4-argon": _ARGON,
        "gemini-3.8-flash": (_list_price(_GOOGLE, 0.75, 0.075, 3.75),),
        "gemini-3.7-flash": (_list_price(_GOOGLE, 0.75, 0.075, 3.75),),
        "gemini-3.6-flash": (_list_price(_GOOGLE, 0.75, 0.075, 3.75),),
        "gemini-3.5-flash": (_list_price(_GOOGLE, 1.5, 0.15, 9.0),),
        "gemini-3.5-flash-lite": (_list_price(_GOOGLE, 0.3, 0.03, 2.5),),
        "gemini-3.1-flash-lite": (_list_price(_GOOGLE, 0.25, 0.025, 1.5),),
        "gemini-3.1-pro-preview": (_google_long(2.0, 0.2, 12.0, 18.0),),
        "gemini-2.5-pro": (_google_long(1.25, 0.125, 10.0, 15.0),),
        "gemini-2.5-flash": (_list_price(_GOOGLE, 0.3, 0.03, 2.5),),
        "gemini-2.5-flash-lite": (_list_price(_GOOGLE, 0.1, 0.01, 0.4),),
    },
    "xai": {
        "grok-4.7": (_xai(2.0, 0.5, 6.0),),
        "grok-4.6": (_xai(2.0, 0.5, 6.0),),
        "grok-4.5": (_xai(2.0, 0.3, 6.0),),
        "grok-4.3": (_xai(1.25, 0.2, 2.5),),
        "grok-4.20": (_xai(1.25, 0.2, 2.5),),
        "grok-build-0.1": (_xai(1.0, 0.2, 2.0),),
    },
    "deepseek": {
        "deepseek-v4-pro": (_deepseek(1.32, 0.044, 3.96, "2026-08-17"),),
        "deepseek-flash": (_FLASH,),
        "deepseek-v4-flash": (_FLASH,),
    },
    "mistral": {
        "devstral-latest": (_list_price(_MISTRAL, 0.4, 0.04, 2.0),),
        "devstral-2512": (_list_price(_MISTRAL, 0.4, 0.04, 2.0),),
        "devstral-medium-latest": (_list_price(_MISTRAL, 0.4, 0.04, 2.0),),
        "devstral-small-latest": (_list_price(_MISTRAL, 0.1, 0.01, 0.3),),
        "codestral-latest": (_list_price(_MISTRAL, 0.3, 0.03, 0.9),),
        "codestral-2508": (_list_price(_MISTRAL, 0.3, 0.03, 0.9),),
        "mistral-large-4": (_list_price(_MISTRAL, 1.36, 0.14, 4.18),),
        "mistral-medium-3.5": (_list_price(_MISTRAL, 1.5, 0.15, 7.5),),
        "mistral-medium-latest": (_list_price(_MISTRAL, 1.5, 0.15, 7.5),),
        "mistral-small-latest": (_list_price(_MISTRAL, 0.15, 0.015, 0.6),),
    },
    # Alibaba's own service; it is a provider that users configure under this name.
    "dashscope": {
        "qwen3.8-max": (_list_price(_QWEN, 2.0, 0.25, 6.0),),
        "qwen3.8-flash": (_list_price(_QWEN, 0.15, 0.016, 0.47),),
        "qwen3.7-max": (_list_price(_QWEN, 2.5, 0.5, 7.5),),
    },
    "groq": {
        "openai/gpt-oss-120b": (_list_price(_GROQ, 0.15, 0.075, 0.6),),
        "openai/gpt-oss-20b": (_list_price(_GROQ, 0.075, 0.0375, 0.3),),
    },
    "cerebras": {"gpt-oss-120b": (_list_price(_CEREBRAS, 0.35, None, 0.75),)},
    "openrouter": {
        "anthropic/claude-opus-5.5": (_anthropic(4.0, 0.2, 20.0, _OPENROUTER),),
        "anthropic/claude-sonnet-5.5": (_anthropic(2.0, 0.1, 10.0, _OPENROUTER),),
        "openai/gpt-6.1-sol": (
            _openai(2.0, 0.1, 10.0, writes=True, long=True, source=_OPENROUTER),
        ),
    },
}
"""By provider and model; of several spans of time the oldest first."""
