"""Executors on other machines: at the other end of a pipe, over ssh or into a container."""

from __future__ import annotations

from .pipe_executor import PipeExecutor

__all__ = ["PipeExecutor"]
