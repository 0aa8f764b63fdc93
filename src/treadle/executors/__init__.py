"""Executors elsewhere: containers, other machines, sandboxes of providers.

`find_source` makes one of what a user wrote, such as ``docker:python:3.13``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .choice import ExecutorChoice, find_source
    from .docker import DockerSource
    from .e2b import E2BSource
    from .kept_executor import KeptExecutor
    from .kubernetes import KubernetesSource
    from .pipe import PipeSource
    from .remote_executor import RemoteExecutor
    from .ssh import SshSource

__all__ = [
    "DockerSource",
    "E2BSource",
    "ExecutorChoice",
    "KeptExecutor",
    "KubernetesSource",
    "PipeSource",
    "RemoteExecutor",
    "SshSource",
    "find_source",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "choice": "ExecutorChoice find_source",
        "docker": "DockerSource",
        "e2b": "E2BSource",
        "kept_executor": "KeptExecutor",
        "kubernetes": "KubernetesSource",
        "pipe": "PipeSource",
        "remote_executor": "RemoteExecutor",
        "ssh": "SshSource",
    },
)
