"""MCP settings: the keys of `[mcp]` and of each server in it.

Owns their types and defaults. Invariant: a server is described completely by its own table;
nothing of two tables with one name is mixed, except by the layers of a configuration.
"""

# No postponed annotations: decoders read them, and reading them from text is slow.

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

__all__ = [
    "McpApproval",
    "McpOAuthSettings",
    "McpServerSettings",
    "McpSettings",
    "McpToolSettings",
]

_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
_Natural: TypeAlias = Annotated[int, Meta(ge=0)]
_Port: TypeAlias = Annotated[int, Meta(gt=0)]
_Seconds: TypeAlias = Annotated[float, Meta(gt=0)]

McpApproval: TypeAlias = Literal["auto", "prompt", "writes", "approve"]
"""When the user is asked before a call: ``auto``: unless a trusted server says that it is
harmless; ``writes``: unless a trusted server says that it only reads; ``prompt``: always;
``approve``: never."""


class McpToolSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for one tool of a server."""

    approval: McpApproval | None = None
    """None: as its server says."""
    timeout: _Seconds | None = None
    """Seconds for a call; None: as its server says."""


class McpOAuthSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to log in to an HTTP server."""

    client_id: _Text | None = None
    """None: what the authorization server gives out."""
    client_secret_variable: _Text | None = None
    callback_port: _Port | None = None
    """None: any port that is free."""
    scopes: tuple[str, ...] = ()


class McpServerSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server: a command to start, or an address."""

    command: _Text | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Added to the few variables that a server gets; ``${NAME}`` stands for a variable's value."""
    env_vars: tuple[str, ...] = ()
    """Variables of ours that it gets, too."""
    cwd: _Text | None = None
    """Where it starts, from the directory of the thread; None: in the user's home."""
    url: _Text | None = None
    """The address of a server that speaks streamable HTTP."""
    headers: dict[str, str] = {}
    env_headers: dict[str, str] = {}
    """Headers whose values are in environment variables, by the names of both."""
    bearer_token_variable: _Text | None = None
    oauth: McpOAuthSettings = McpOAuthSettings()
    enabled: bool = True
    required: bool = False
    """Whether a turn fails where it does not start."""
    trusted: bool = False
    """Whether what it says of its own tools, such as that they only read, counts."""
    start_timeout: _Seconds = 30.0
    timeout: _Seconds = 300.0
    """Seconds for a call."""
    enabled_tools: tuple[str, ...] | None = None
    """None: all."""
    disabled_tools: tuple[str, ...] = ()
    approval: McpApproval = "auto"
    parallel: bool = False
    """Whether its calls may run beside each other, also where they write."""
    load: Literal["auto", "direct", "search"] = "auto"
    """Whether its tools are in every request, or found by search."""
    tools: dict[str, McpToolSettings] = {}


class McpSettings(Struct, frozen=True, kw_only=True):
    """The MCP servers, and how their tools are offered."""

    direct_tools: _Natural = 10
    """Up to so many tools, of all servers together, are in every request; more are searched."""
    servers: dict[str, McpServerSettings] = {}
