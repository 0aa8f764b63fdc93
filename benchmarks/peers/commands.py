"""How contestants are started: the drivers, and two products as their users start them.

Invariant: no contestant reports to anyone; measured is the agent, not its telemetry.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .contestants import HERE, Contestant, python_of

__all__ = ["codex_settings", "command", "environment"]

MODEL = "gpt-5.5"
QUIET = {
    "NO_PROXY": "*",
    "OPENAI_API_KEY": "none",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OTEL_SDK_DISABLED": "true",
}


def command(
    contestant: Contestant, scenario: str, address: str, scratch: Path, sizes: dict[str, int]
) -> list[str]:
    """The command line of a run."""
    python = python_of(contestant)
    if contestant.name == "treadle_exec":
        treadle = str(python.with_name("treadle"))
        return [treadle, "exec", "--engine", "lossless", "Say hello."]
    if contestant.name == "codex" and scenario == "cold_start":
        from codex_cli_bin import (  # type: ignore[import-untyped]
            bundled_codex_path,
        )

        options = codex_settings(f"{address}/text/v1")
        codex = str(bundled_codex_path())
        return [codex, "exec", "--skip-git-repo-check", *options, "Say hello."]
    driver = HERE / "drivers" / f"{contestant.driver}.py"
    return [str(python), str(driver), scenario, address, str(scratch), json.dumps(sizes)]


def environment(contestant: Contestant, address: str, scratch: Path) -> dict[str, str]:
    """The variables of a run; of ours only the search path."""
    usual = {"PATH": os.environ["PATH"], "HOME": str(scratch), **QUIET}
    if contestant.environment is not None:
        return usual
    (scratch / "codex").mkdir(exist_ok=True)
    root = HERE.parent.parent
    sources = f"{root / 'src'}{os.pathsep}{root}"
    ours = {"PYTHONPATH": sources, "CODEX_HOME": str(scratch / "codex")}
    if contestant.name == "treadle_exec":
        ours |= {"TREADLE_HOME": str(scratch / "home"), "OPENAI_BASE_URL": f"{address}/text/v1"}
    return usual | ours


def codex_settings(base: str) -> list[str]:
    """Options with which Codex asks our server and nobody else."""
    provider = {
        "name": "instant",
        "base_url": base,
        "wire_api": "responses",
        "requires_openai_auth": False,
        "supports_websockets": False,
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    chosen: dict[str, object] = {
        "model": MODEL,
        "model_provider": "instant",
        "approval_policy": "never",
        "sandbox_mode": "workspace-write",
        "check_for_update_on_startup": False,
        "analytics.enabled": False,
        "features.plugins": False,
        "features.apps": False,
        **{f"model_providers.instant.{key}": value for key, value in provider.items()},
    }
    return [part for key, value in chosen.items() for part in ("-c", f"{key}={json.dumps(value)}")]
