"""Where the tools of a thread act, and who keeps what they change.

Owns the choice of the executor. Invariant: files are kept only for tools of this machine and
for threads that live in a home.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.home import home as default_home
from ..tools.local.local_executor import LocalExecutor
from ..workspace.recorder import FileRecorder
from ..workspace.watched_executor import WatchedExecutor
from .elsewhere import HomeAgain, Place, host_executor

if TYPE_CHECKING:
    from ..tools.executor import ToolExecutor
    from ..workspace.windows import Owner
    from .options import ToolOptions

__all__ = ["watch_executor"]


def watch_executor(
    options: ToolOptions,
    place: Place | None,
    home: Path | None,
    owners: Callable[[], Sequence[Owner]],
    warn: Callable[[str], None],
) -> tuple[ToolExecutor, FileRecorder | None]:
    """Return where tools act, and who keeps what they change.

    Nobody does on another machine, or for a thread whose store is the host's own.
    """
    if (made := host_executor(options)) is not None:
        return made, None
    if place is not None and not isinstance(place, HomeAgain):
        return place, None  # type: ignore[return-value]
    executor = LocalExecutor(home=home or default_home())
    if home is None or not options.rewind_files:
        return executor, None
    recorder = FileRecorder(home, owners=owners, warn=warn)
    return WatchedExecutor(executor, recorder), recorder
