"""`treadle help`: the help of a command, for those who ask in words."""

from __future__ import annotations

import click

from ..lazy_group import examples

__all__ = ["command"]


@click.command(
    "help", epilog=examples("treadle help", "treadle help exec", "treadle help auth add")
)
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of COMMAND, or of `treadle` itself."""
    parent = ctx.parent
    assert parent is not None, "it is a command of a group"
    shown: click.Command = parent.command
    for word in words:
        found = shown.get_command(parent, word) if isinstance(shown, click.Group) else None
        if found is None:
            raise click.UsageError(
                f"there is no command {' '.join(words)!r}; `treadle help` lists them", ctx
            )
        parent = click.Context(found, info_name=word, parent=parent)
        shown = found
    click.echo(shown.get_help(parent))
