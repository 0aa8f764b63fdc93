"""Thread: a durable conversation, from input to the exact request it makes.

Owns how a thread is found or made and given back. Invariant: one writer per thread;
whoever has it open holds its lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from .config import home as default_home
from .context.head import Choices
from .context.journal import Journal
from .context.view import load_view
from .entries import Head
from .errors import ConfigError
from .models.catalog import Catalog
from .prompt.observation import PromptContext
from .prompt.registry import Registry, installed_registry
from .specs import ToolSpec
from .store.contract import Index, Store, ThreadInfo
from .store.index import SqliteIndex
from .store.sqlite import SqliteStore

__all__ = ["Thread"]


class Thread(Journal):
    """A conversation that this process writes.

    `Thread.open` takes the lease and gives it back.
    """

    __slots__ = ()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        thread: str | None = None,
        *,
        model: str | None = None,
        cwd: Path | str | None = None,
        home: Path | None = None,
        store: Store | None = None,
        index: Index | None = None,
        registry: Registry | None = None,
        tools: Sequence[ToolSpec] = (),
        choices: Choices | None = None,
        settings: PromptContext | None = None,
        title: str = "",
    ) -> AsyncIterator[Thread]:
        """Open a thread for writing, or make a new one.

        Without a `store`, threads live in `home` (by default `WEFT_HOME`, or the
        platform's data directory). Raises `ThreadBusy` when someone else writes it.
        """
        if thread is None and model is None:
            raise ConfigError("a new thread needs a model; say which, such as 'openai:gpt-5.5'")
        async with AsyncExitStack() as stack:
            if store is None:
                home = default_home() if home is None else home
                store = await SqliteStore.open(home)
                stack.push_async_callback(store.close)
            if index is None:
                index = SqliteIndex(store, home)
                stack.push_async_callback(index.close)
            if thread is None:
                info = await store.create(cwd=_absolute(cwd), title=title)
            else:
                info = await store.info(thread)
            lease = await store.acquire(info.id)
            stack.push_async_callback(lease.release)
            info = await store.info(info.id)
            if registry is None:
                registry = await asyncio.to_thread(installed_registry)
            view = await load_view(store, info.id, registry)
            yield cls(
                id=info.id,
                store=store,
                index=index,
                registry=registry,
                catalog=await asyncio.to_thread(
                    Catalog.load, home / "models.toml" if home else None
                ),
                lease=lease,
                view=view,
                model=model or named_model(view.head),
                cwd=Path(cwd or info.cwd),
                home=home,
                tools=tuple(tools),
                choices=choices or Choices(),
                settings=settings,
                turn=info.turns,
                step=await _newest_step(store, info),
            )


def named_model(head: Head | None) -> str:
    """The name of the model that a thread used last."""
    if head is None:
        raise ConfigError("the thread has no model yet; say which, such as 'openai:gpt-5.5'")
    return f"{head.provider}:{head.model}"


async def _newest_step(store: Store, info: ThreadInfo) -> int:
    """The step that the newest turn had reached, for a writer that goes on with it."""
    newest = await store.read(info.id, info.last, info.last) if info.last else []
    return newest[0].step if newest and newest[0].turn == info.turns else 0


def _absolute(place: Path | str | None) -> str:
    return str(Path(place or ".").absolute())
