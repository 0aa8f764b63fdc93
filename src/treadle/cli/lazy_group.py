"""Help without loading: a group whose commands are imported when they are called.

Owns the promise that `treadle --help` imports no command: names and one-line helps
stand in a table, and a test compares the table with the commands.
"""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Mapping

import click

from ..core.choices import near_hint

__all__ = ["LazyGroup", "examples"]


def examples(*lines: str) -> str:
    """Return the examples at the end of a command's help."""
    # A lone backspace tells click to keep the line breaks.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


class LazyGroup(click.Group):
    """Commands by name, each with its one-line help and the module that holds `command`.

    `renamed` says what commands of earlier versions are called now.
    """

    def __init__(
        self,
        *args: object,
        table: Mapping[str, str],
        package: str,
        renamed: Mapping[str, str] | None = None,
        **kw: object,
    ) -> None:
        super().__init__(*args, **kw)  # type: ignore[arg-type] # click's own signature
        self.table = table
        self._package = package
        self._renamed = renamed or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        del ctx
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        del ctx
        if cmd_name not in self.table:
            return None
        # A module cannot be called by a word of the language, such as `import`.
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command = importlib.import_module(f"{self._package}.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command; for an unknown name, suggest a similar one."""
        name = args[0]
        if name in self.table or name.startswith("-"):
            return super().resolve_command(ctx, args)
        if name in self._renamed:
            raise click.UsageError(
                f"The command {name!r} is called {self._renamed[name]!r} now: "
                f"`treadle {self._renamed[name]} --help`.",
                ctx,
            )
        hint = near_hint(name, self.table)
        where = f"`{ctx.command_path} --help` lists them"
        if ctx.parent is None:
            where = "`treadle help` lists them, `treadle chat TEXT` says it to the agent"
        raise click.UsageError(f"there is no command {name!r}; {hint}{where}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))
