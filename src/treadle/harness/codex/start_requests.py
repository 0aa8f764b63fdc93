"""The requests that start a Codex thread and a turn on it.

Owns the translation of Treadle's settings and tools to Codex's. Invariant: Codex never gets more
rights than the settings allow, and no file of Codex's can give it more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from ...core.errors import ConfigError
from ...core.redact import blank_value
from ...core.specs import CustomTool, FunctionTool, Namespace, ToolSpec, parameters, spec_name
from ...log.thread_log import ThreadLog
from ...prompt.prompt_context import CollaborationMode, PromptContext
from .codex_home import UNLIMITED
from .native_projection import thread_instructions
from .protocol.client_requests import (
    CommandEnvironment,
    DynamicFunction,
    DynamicNamespace,
    DynamicTool,
    StartThread,
    StartTurn,
    UserInput,
)
from .protocol.types import CodexApprovalPolicy, CodexSandboxMode
from .server_access import PROVIDER

__all__ = [
    "FREEFORM_INPUT",
    "THREAD_CONFIG",
    "WITHOUT_SKILLS",
    "SentSettings",
    "approval_policy",
    "check_network",
    "collaboration_mode",
    "dynamic_tools",
    "sandbox_config",
    "sandbox_mode",
    "sandbox_policy",
    "thread_start",
    "turn_start",
]

FREEFORM_INPUT = "input"
"""The one parameter of a freeform tool, which Codex knows as a function."""
_FREEFORM_SCHEMA = parameters({FREEFORM_INPUT: {"type": "string"}}, required=(FREEFORM_INPUT,))

_NO_TIER = "default"
"""The service tier that takes an earlier one back."""

THREAD_CONFIG: dict[str, Any] = {
    # Its own agents would be hidden from the host, beside Treadle's of the same names.
    "agents.enabled": False,
    # Without it, the tool that asks the user answers that it is unavailable.
    "features.default_mode_request_user_input": True,
    "suppress_unstable_features_warning": True,
}
"""The settings of every thread."""

WITHOUT_SKILLS: dict[str, Any] = {
    "skills.include_instructions": False,
    "skills.bundled.enabled": False,
}
"""Codex then lists no skills; what it adds for a `$name` is `may_call_skill`'s matter."""

_POLICY_TYPES: dict[CodexSandboxMode, str] = {
    "read-only": "readOnly",
    "workspace-write": "workspaceWrite",
    "danger-full-access": "dangerFullAccess",
}


class SentSettings(Struct, frozen=True):
    """The settings that a Codex thread was last sent."""

    settings: PromptContext
    cwd: str
    mode: CollaborationMode | None = None
    effort: str | None = None
    summary: str | None = None
    tier: str | None = None

    @classmethod
    def of(cls, log: ThreadLog) -> SentSettings:
        """Return the present settings of a thread."""
        settings, head = log.setup.settings or PromptContext(cwd=""), log.view.head
        asked = (head.effort, head.summary, head.service_tier) if head else ()
        return cls(settings, str(log.setup.cwd), settings.collaboration_mode, *asked)

    @classmethod
    def at_start(cls, log: ThreadLog) -> SentSettings:
        """Return the settings that `thread_start` sends: a turn sends the collaboration mode."""
        return msgspec.structs.replace(cls.of(log), mode=None)


def thread_start(
    log: ThreadLog,
    route: dict[str, Any],
    tools: Sequence[DynamicTool],
    *,
    unlimited: bool,
    use_project_settings: bool,
) -> StartThread:
    """Return the request that starts a thread.

    A project's own settings for Codex may start any program. They are used only if the user
    has decided about the project; otherwise Codex would decide itself.
    """
    cwd = str(log.setup.cwd)
    settings = log.setup.settings or PromptContext(cwd="")
    check_network(settings)
    config = {**THREAD_CONFIG, **route, **sandbox_config(settings), **_model_config(log)}
    if unlimited:
        config |= UNLIMITED
    if log.setup.tells_skills:
        config |= WITHOUT_SKILLS
    return StartThread(
        cwd=cwd if use_project_settings else None,
        environments=None if use_project_settings else (CommandEnvironment.local(cwd),),
        model=log.setup.profile.slug,
        model_provider=PROVIDER if route else None,
        approval_policy=approval_policy(settings),
        sandbox=sandbox_mode(settings),
        developer_instructions=thread_instructions(log.view, log.registry) or None,
        config=config,
        dynamic_tools=blank_value(tuple(tools)) or None,
        experimental_raw_events=True,
    )


def turn_start(
    log: ThreadLog, thread_id: str, parts: tuple[UserInput, ...], before: SentSettings
) -> StartTurn:
    """Return the request that starts a turn, with the settings that differ from those `before`."""
    now = SentSettings.of(log)
    check_network(now.settings)
    settings, schema, model = now.settings, log.setup.choices.output_schema, log.setup.profile
    changed = (before.settings, before.cwd) != (now.settings, now.cwd)
    # Codex keeps the last value; if none is wanted any more, it gets the model's default.
    effort = now.effort or (model.default_effort if before.effort else None)
    summary = now.summary or (model.reasoning_summary if before.summary else None)
    mode = collaboration_mode(settings, model.slug, now.effort) if before.mode != now.mode else None
    return StartTurn(
        thread_id=thread_id,
        input=parts,
        cwd=now.cwd if changed else None,
        effort=effort or None,
        summary=summary,  # type: ignore[arg-type]
        service_tier=(now.tier or _NO_TIER) if before.tier != now.tier else None,
        approval_policy=approval_policy(settings) if changed else None,
        sandbox_policy=sandbox_policy(settings) if changed else None,
        output_schema=None if schema is UNSET else blank_value(msgspec.json.decode(schema)),
        collaboration_mode=blank_value(mode),
    )


def dynamic_tools(specs: Sequence[ToolSpec]) -> tuple[tuple[DynamicTool, ...], tuple[str, ...]]:
    """Return the dynamic tools for `specs`, and the names of tools that only a provider runs."""
    offered: list[DynamicTool] = []
    omitted: list[str] = []
    for spec in specs:
        if isinstance(spec, Namespace):
            members = tuple(_dynamic_functions(spec.tools))
            offered.append(
                DynamicNamespace(name=spec.name, description=spec.description, tools=members)
            )
        elif functions := tuple(_dynamic_functions((spec,))):
            offered += functions
        else:
            omitted.append(spec_name(spec))
    return tuple(offered), tuple(omitted)


def _dynamic_functions(specs: Sequence[ToolSpec]) -> Iterator[DynamicFunction]:
    for spec in specs:
        if isinstance(spec, FunctionTool):
            yield DynamicFunction(
                name=spec.name,
                description=spec.description,
                input_schema=spec.parameters,
                defer_loading=spec.defer_loading or False,
            )
        elif isinstance(spec, CustomTool):
            yield DynamicFunction(
                name=spec.name, description=spec.description, input_schema=_FREEFORM_SCHEMA
            )


def approval_policy(settings: PromptContext) -> CodexApprovalPolicy:
    """Return when Codex asks for approval; ``on-failure`` is an old name of ``on-request``."""
    policy = settings.approval_policy
    return "on-request" if policy == "on-failure" else policy


def sandbox_mode(settings: PromptContext) -> CodexSandboxMode:
    """Return the sandbox of Codex's commands; none inside an external sandbox."""
    mode = settings.sandbox_mode
    return "danger-full-access" if mode == "external-sandbox" else mode


def collaboration_mode(settings: PromptContext, model: str, effort: str | None) -> dict[str, Any]:
    """Return the collaboration mode; one that Codex does not know becomes the default mode."""
    mode = settings.collaboration_mode
    planning = mode is not None and mode.name == "plan"
    return {
        "mode": "plan" if planning else "default",
        "settings": {
            "model": model,
            "reasoning_effort": effort,
            "developer_instructions": mode.instructions or None if mode else None,
        },
    }


def check_network(settings: PromptContext) -> None:
    """Refuse a list of hosts, which Codex does not enforce. Raises `ConfigError`."""
    if settings.network_hosts and sandbox_mode(settings) != "danger-full-access":
        raise ConfigError(
            f"Codex cannot keep commands to the hosts {list(settings.network_hosts)!r}; set "
            "`network` to true or false for its turns, or run them with `--harness treadle`"
        )


def sandbox_config(settings: PromptContext) -> dict[str, Any]:
    """Return the sandbox settings of a thread's `config`, which override Codex's files."""
    if sandbox_mode(settings) != "workspace-write":
        return {}
    return {
        "sandbox_workspace_write.writable_roots": list(settings.writable_roots),
        "sandbox_workspace_write.network_access": settings.network_access,
    }


def sandbox_policy(settings: PromptContext) -> dict[str, Any]:
    """Return the sandbox of a turn whose settings differ from those of its thread."""
    mode = sandbox_mode(settings)
    policy: dict[str, Any] = {"type": _POLICY_TYPES[mode]}
    if mode == "workspace-write":
        policy["writableRoots"] = list(settings.writable_roots)
    if mode != "danger-full-access":
        policy["networkAccess"] = settings.network_access
    return policy


def _model_config(log: ThreadLog) -> dict[str, Any]:
    """Return the settings of the model in a thread's `config`, if the user chose any."""
    head = log.view.head
    chosen: dict[str, Any] = {
        "tool_output_token_limit": log.setup.output_limit,
        "model_verbosity": head.verbosity if head else None,
        "service_tier": head.service_tier if head else None,
    }
    return {name: value for name, value in chosen.items() if value is not None}
