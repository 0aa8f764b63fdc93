"""Git, asked about a repository that may be hostile.

Invariant: git runs in the sandbox, because a repository names programs that git runs: filters,
drivers, monitors. Without a sandbox it does not run. It writes only where it was told to, and
then no program of the repository runs at all.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ..core.errors import WorktreeRefused
from ..sandbox.policy import SandboxPolicy
from ..tools.executor import Bounds, ProcessSpec, ToolExecutor

__all__ = ["SandboxedGit"]

_GIT = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"),
)
_STRANGE = "unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY; "
"""Variables that a hook of git's sets; they would lead to another repository."""
_QUIETLY = ("/bin/sh", "-c", _STRANGE + 'exec "$@" 2>/dev/null', "sh")
_LOUDLY = ("/bin/sh", "-c", _STRANGE + 'exec "$@"', "sh")
_PROGRAMS = ("smudge", "clean", "process", "required")
"""What a filter of a repository runs, and whether git may go on without it."""
_ALONE = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none"}


class SandboxedGit(Struct, frozen=True):
    """The repository of a directory."""

    executor: ToolExecutor
    cwd: Path

    async def ask(self, *arguments: str) -> str | None:
        """Return what git prints, None if it fails. Nothing can be written.

        Raises `SandboxUnavailable` where there is no sandbox.
        """
        bounds = Bounds(policy=SandboxPolicy(mode="read-only"), workspace=self.cwd)
        code, out = await self._run((*_QUIETLY, *_GIT, *arguments), bounds, {})
        return out if code == 0 else None

    async def do(self, *arguments: str, place: Path, repository: Path) -> None:
        """Let git write below `place` and `repository`, without filters, hooks or the network.

        Raises `WorktreeRefused` with what git says if it fails.
        """
        policy = SandboxPolicy(
            mode="workspace-write",
            writable_roots=(str(repository),),
            exclude_slash_tmp=True,
            exclude_tmpdir_env_var=True,
        )
        # A filter that could write into `.git` could leave a hook for the user's own git.
        env = {**_ALONE, **await self._without_filters()}
        bounds = Bounds(policy=policy, workspace=place)
        code, out = await self._run((*_LOUDLY, *_GIT, *arguments), bounds, env)
        if code:
            said = [line for line in out.splitlines() if line.strip()]
            raise WorktreeRefused(f"git {arguments[0]} failed: {said[-1] if said else code}")

    async def _without_filters(self) -> dict[str, str]:
        """Return the variables that switch off every filter that git's settings name."""
        listed = await self.ask("config", "--name-only", "-z", "--get-regexp", r"^filter\.")
        names = {key.partition(".")[2].rpartition(".")[0] for key in (listed or "").split("\0")}
        off = [
            (f"filter.{name}.{program}", "false" if program == "required" else "")
            for name in sorted(filter(None, names))
            for program in _PROGRAMS
        ]
        env = {"GIT_CONFIG_COUNT": str(len(off))}
        for at, (key, value) in enumerate(off):
            env |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
        return env

    async def _run(
        self, argv: tuple[str, ...], bounds: Bounds, env: dict[str, str]
    ) -> tuple[int, str]:
        spec = ProcessSpec(argv=argv, cwd=self.cwd, bounds=bounds, env=env)
        process = await self.executor.start(spec)
        out = b"".join([data async for data in process.output()])
        return await process.wait(), out.decode(errors="replace")
