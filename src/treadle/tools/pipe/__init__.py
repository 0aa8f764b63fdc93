"""Executors on other machines: at the other end of a pipe, over ssh or into a container."""

from __future__ import annotations

from .pipe_executor import ConnectionLost, PipeExecutor

__all__ = ["ConnectionLost", "PipeExecutor"]
