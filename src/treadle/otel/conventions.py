"""Names: what spans, attributes and metrics are called.

Owns all of them, ours and those of the conventions. The conventions are those of the repository
`semantic-conventions-genai`, in which nothing is stable yet: `CONVENTIONS` is the state that is
followed. What only Treadle can say stands under ``treadle.``.
"""

from __future__ import annotations

__all__ = [
    "AGENT",
    "AGENT_DURATION",
    "AGENT_VERSION",
    "BREAKS",
    "CACHE_READ",
    "CACHE_WRITE",
    "CHAT_DURATION",
    "CHUNK_DURATION",
    "COMPACTED",
    "CONVENTIONS",
    "CONVERSATION",
    "COST",
    "EFFICIENCY",
    "ENGINE",
    "EPOCH_REASON",
    "ERROR",
    "EXPECTED_TOKENS",
    "FIRST_CHUNK",
    "HARNESS",
    "INPUT_MESSAGES",
    "INPUT_TOKENS",
    "LIMIT",
    "MCP_METHOD",
    "OPERATION",
    "OUTPUT_MESSAGES",
    "OUTPUT_TOKENS",
    "PROFILE",
    "PROVIDER",
    "PROVIDERS",
    "REASONING_TOKENS",
    "REQUEST_BYTES",
    "REQUEST_MODEL",
    "RESPONSE_MODEL",
    "RESUMED",
    "SANDBOX",
    "SCOPE",
    "SHARED_BYTES",
    "STEP",
    "STEP_BOUNDS",
    "TOKEN_BOUNDS",
    "TOOL",
    "TOOL_ARGUMENTS",
    "TOOL_CALL",
    "TOOL_DURATION",
    "TOOL_RESULT",
    "TOOL_TYPE",
    "TURN",
    "TURN_BOUNDS",
    "USAGE",
    "USAGE_TYPE",
    "VIEW_BUDGET",
    "VIEW_TOKENS",
]

CONVENTIONS = "gen-ai-dev/1.42.0-dev"
SCOPE = "treadle"
"""The instrumentation scope of all spans and metrics."""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
USAGE_TYPE = "gen_ai.token.type"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
MCP_METHOD = "mcp.method.name"
ERROR = "error.type"

EPOCH_REASON = "treadle.epoch.reason"
REQUEST_BYTES = "treadle.request.bytes"
SHARED_BYTES = "treadle.request.shared_bytes"
EXPECTED_TOKENS = "treadle.cache.expected_tokens"
EFFICIENCY = "treadle.cache.efficiency"
ENGINE = "treadle.engine.id"
HARNESS = "treadle.harness"
PROFILE = "treadle.profile"
SANDBOX = "treadle.sandbox"
STEP = "treadle.step"
TURN = "treadle.turn.id"
VIEW_TOKENS = "treadle.view.tokens"
VIEW_BUDGET = "treadle.view.budget"
COST = "treadle.cost"
LIMIT = "treadle.limit"
RESUMED = "treadle.turn.resumed"

CHAT_DURATION = "gen_ai.client.operation.duration"
USAGE = "gen_ai.client.token.usage"
TOOL_DURATION = "gen_ai.execute_tool.duration"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
CHUNK_DURATION = "gen_ai.client.operation.time_to_first_chunk"
BREAKS = "treadle.prefix.breaks"

TURN_BOUNDS = tuple(0.1 * 2**power for power in range(13))
"""The bounds that the conventions ask for: of turns, 0.1 to 409.6 seconds."""
STEP_BOUNDS = tuple(0.01 * 2**power for power in range(14))
"""Of requests, their first words, and calls: 0.01 to 81.92 seconds."""
TOKEN_BOUNDS = tuple(4**power for power in range(14))
"""Of tokens: 1 to 67,108,864."""

PROVIDERS = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "codex": "openai",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "groq": "groq",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "openai": "openai",
    "perplexity": "perplexity",
    "xai": "x_ai",
}
"""What the conventions call providers; others have the names that they have here."""
