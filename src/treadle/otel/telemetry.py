"""Telemetry: which threads are followed, and the trace that each of their turns belongs to.

Owns the trace context of turns. Invariants: it stands in the outbox from the transaction on that
admits the turn, so that whoever goes on with a turn goes on with its trace; and a failure of
telemetry never reaches a turn.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw, Struct
from opentelemetry import metrics, trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .. import __version__
from ..core.items import Message, decode_item, text_of
from ..core.wire import json_bytes
from ..store.contract import Admission, OutboxDraft, TurnEnd
from . import conventions as names
from .instruments import Instruments
from .turn_spans import Recorder, TurnSpans, input_attributes

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["Telemetry"]

_TOPIC = "trace"
_logger = logging.getLogger(__name__)
_propagator = TraceContextTextMapPropagator()


class _Trace(Struct, frozen=True):
    """The trace of the newest turn of a thread."""

    turn: str
    context: dict[str, str]


_traces = msgspec.json.Decoder(_Trace)


class Telemetry:
    """Follows threads. Without providers it uses those that are set for the process."""

    def __init__(
        self,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        url = f"https://opentelemetry.io/schemas/{names.CONVENTIONS}"
        tracer = (tracers or trace.get_tracer_provider()).get_tracer(
            names.SCOPE, __version__, schema_url=url
        )
        meter = (meters or metrics.get_meter_provider()).get_meter(
            names.SCOPE, __version__, schema_url=url
        )
        self._recorder = Recorder(tracer, Instruments(meter), content)

    @asynccontextmanager
    async def follow(self, thread: Thread, agent: str = "treadle") -> AsyncIterator[None]:
        """Turn the turns of a thread into spans, as long as this is open.

        A turn that the host runs below a span of its own is a child of that span.
        """
        followed = _Followed(self._recorder, thread, agent, await _stored_trace(thread))
        thread.observers.append(followed.spans.observe)
        thread.log.followers.append(followed)
        try:
            yield
        finally:
            thread.observers.remove(followed.spans.observe)
            thread.log.followers.remove(followed)
            followed.spans.end("abandoned")


class _Followed:
    """One thread that is followed."""

    def __init__(
        self, recorder: Recorder, thread: Thread, agent: str, stored: _Trace | None
    ) -> None:
        facts = {
            names.AGENT: agent,
            names.AGENT_VERSION: __version__,
            names.CONVERSATION: thread.id,
        }
        newest = None if stored is None else _propagator.extract(stored.context)
        self.spans = TurnSpans(recorder, facts, newest)
        self._recorder, self._thread, self._stored = recorder, thread, stored

    def rows_on_admission(self, admission: Admission) -> tuple[OutboxDraft, ...]:
        """Begin the trace of a turn, or go on with it, and leave it with the turn."""
        try:
            return (self._begin(admission),)
        except Exception as error:  # noqa: BLE001 - telemetry must not end a turn
            _logger.warning("a turn is not traced: %r", error)
            return ()

    def rows_on_end(self, end: TurnEnd) -> tuple[OutboxDraft, ...]:
        """Leave nothing: the next turn replaces the trace of this one."""
        del end
        return ()

    def rows_on_hiding(
        self, first: int, last: int, reason: Literal["reset", "rollback"]
    ) -> tuple[OutboxDraft, ...]:
        """Leave nothing."""
        del first, last, reason
        return ()

    def _begin(self, admission: Admission) -> OutboxDraft:
        parent: Context = get_current()
        stored = self._stored
        attributes: dict[str, Any] = {
            names.TURN: admission.id,
            names.ENGINE: self._thread.engine.name,
        }
        if stored is not None and stored.turn == admission.id:
            # Another process began it.
            parent = _propagator.extract(stored.context)
            attributes[names.RESUMED] = True
        if self._recorder.content:
            attributes |= _input_attributes(admission)
        self.spans.begin(self._thread.log.asked_model, parent, attributes)
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, context=self.spans.context)
        body = Raw(json_bytes({"turn": admission.id, "context": carrier}))
        # One row for a thread: the newest turn's.
        return OutboxDraft(topic=_TOPIC, key=self._thread.id, body=body)


async def _stored_trace(thread: Thread) -> _Trace | None:
    rows = await thread.store.outbox(thread=thread.id, topic=_TOPIC)
    try:
        return _traces.decode(bytes(rows[-1].body)) if rows else None
    except msgspec.MsgspecError:
        return None  # of another version; the turn begins a new trace


def _input_attributes(admission: Admission) -> dict[str, str]:
    item = decode_item(bytes(admission.input))
    return input_attributes(text_of(item.content)) if isinstance(item, Message) else {}
