"""Work that begins at once.

Owns one function, which is what `asyncio.create_task` is, but for the first stretch of the
work: that is run right away, and work which has nothing to wait for is done by then. Most
hooks are such, and engines; a task of the usual kind costs each of them three passes of the
event loop. Invariant: to the work all of it looks like one task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

__all__ = ["begun"]

T = TypeVar("T")


def begun(
    work: Coroutine[Any, Any, T],
    *,
    name: str | None = None,
    kind: type[asyncio.Task[Any]] = asyncio.Task,
) -> asyncio.Future[T]:
    """What `work` gives or will give: done already, or a task that goes on with it."""
    loop, context = asyncio.get_running_loop(), copy_context()
    rest = _Rest(work)
    task: asyncio.Task[T] = kind(rest, loop=loop, name=name, context=context)
    caller = _present(loop, task)
    done: asyncio.Future[T]
    try:
        rest.awaits(context.run(work.send, None))
    except StopIteration as end:
        done = loop.create_future()
        done.set_result(end.value)
    except asyncio.CancelledError:
        done = loop.create_future()
        done.cancel()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - it is for whoever asks for the result
        done = loop.create_future()
        done.set_exception(error)
    else:
        done = task
    finally:
        _present(loop, caller)
    return done


def _present(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None
) -> asyncio.Task[Any] | None:
    """Make `task` the one that runs now; the one that did until then."""
    before = asyncio.current_task(loop)
    if before is not None:
        asyncio._leave_task(loop, before)  # noqa: SLF001 - documented for those who bring tasks of their own
    if task is not None:
        asyncio._enter_task(loop, task)  # noqa: SLF001
    return before


class _Rest(Coroutine[Any, Any, T]):
    """What is left of the work after its first stretch: nothing, until it is known to wait."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._told: list[object] | None = None

    def awaits(self, awaited: object) -> None:
        """The first stretch ended here; the task hears of it when it looks."""
        self._told = [awaited]

    def send(self, value: Any, /) -> Any:
        if self._told is None:
            raise StopIteration
        return self._told.pop() if self._told else self._work.send(value)

    def throw(self, *error: Any) -> Any:
        if self._told is None:
            raise StopIteration
        self._told = []
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()
