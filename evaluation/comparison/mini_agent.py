"""mini-swe-agent as its authors configure it, without a person: `mini_agent.py BASE_URL MODEL`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ |= {
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_GLOBAL_CONFIG_DIR": "/tmp/mini",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}

import yaml
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel


def main(base: str, model: str) -> None:
    settings = yaml.safe_load((Path(package_dir) / "config" / "mini.yaml").read_text())
    agent = {**settings["agent"], "cost_limit": 0.0}
    for name in ("mode", "confirm_exit", "whitelist_actions"):
        agent.pop(name, None)
    asked = {**settings["model"], "model_name": f"openai/{model}"}
    given = {**asked.pop("model_kwargs", {}), "api_base": base}
    chosen = LitellmModel(**asked, model_kwargs=given)
    DefaultAgent(chosen, LocalEnvironment(**settings["environment"]), **agent).run(sys.stdin.read())


if __name__ == "__main__":
    main(*sys.argv[1:])
