"""The tools `note_write`, `note_list` and `new_context`.

Owns the notes of an agent and the request for a fresh start. Invariant: a note outlives
every epoch, and a fresh start loses nothing: what leaves the context can be recalled.
"""

# No postponed annotations: tools are made of them, and evaluating text takes time.

from typing import Annotated

from msgspec import Meta, Struct

from ....tools.contract import ToolContext, ToolResult
from .record_texts import format_time
from .resolver import Resolver

__all__ = ["MOST_NOTES", "NewContextArguments", "NoteTools"]

MOST_NOTES = 50

_Reason = Annotated[str, Meta(min_length=1, max_length=500, description="Why, in a sentence.")]


class NewContextArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a valid call of `new_context`."""

    reason: _Reason


class NoteTools(Struct):
    """Holds the functions behind the tools; a model reads their docstrings."""

    resolver: Resolver

    async def note_write(
        self,
        name: Annotated[
            str,
            Meta(
                pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
                description="A short name; the same name replaces the note.",
            ),
        ],
        text: Annotated[
            str, Meta(max_length=4_000, description="The note; an empty one removes it.")
        ],
        context: ToolContext,
    ) -> ToolResult:
        """Write a note to yourself that stays when the context is summarised or left behind.

        For decisions, open tasks, and facts you will need again.
        """
        library = self.resolver.library
        known = [note.name for note in await library.notes(context.thread)]
        if text.strip() and name not in known and len(known) >= MOST_NOTES:
            return ToolResult(
                f"note_write failed: there are {MOST_NOTES} notes already; "
                "join some, or remove one by writing an empty text to it",
                success=False,
            )
        await library.write_note(context.thread, name, text)
        if text.strip():
            return ToolResult(f"Note {name!r} is kept.")
        return ToolResult(f"Note {name!r} is {'removed' if name in known else 'not there'}.")

    async def note_list(self, context: ToolContext) -> ToolResult:
        """Read the notes that you have written in this thread."""
        notes = await self.resolver.library.notes(context.thread)
        if not notes:
            return ToolResult("There are no notes yet; write one with note_write.")
        blocks = (f"[{note.name}] {format_time(note.time)}\n{note.text.strip()}" for note in notes)
        return ToolResult("\n\n".join(blocks))

    async def new_context(
        self,
        reason: _Reason,
        context: ToolContext,
    ) -> ToolResult:
        """Leave all turns before this one behind and go on with a fresh context.

        They are replaced by summaries before your next step; your notes stay, and everything
        can still be recalled. Use it when earlier work no longer matters. Write down first
        what you will need.
        """
        del reason  # it is in the call, for people who read the log
        view = self.resolver.views.get(context.thread)
        has_earlier_turns = view is not None and any(
            item.seq is not None and item.turn < context.turn for item in view.items
        )
        if not has_earlier_turns:
            return ToolResult("There is nothing before this turn to leave behind.")
        self.resolver.fresh_starts[context.thread] = context.turn
        return ToolResult(
            "Done: before your next step, what lies before this turn becomes summaries. "
            "Notes and recall stay as they are."
        )
