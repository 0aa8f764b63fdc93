"""Exporting: spans and metrics to a collector, over HTTP.

Owns the providers of the command line. Invariants: the standard variables ``OTEL_*`` win over the
settings; a collector that is slow or gone costs a turn and the close of a thread nothing, and the
end of the process at most `_PATIENCE` seconds.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from .. import __version__
from ..config.settings import OtelSettings
from .telemetry import Telemetry

__all__ = ["open_telemetry"]

_PATIENCE = 3.0
_EXPORT_SECONDS = 2
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@contextmanager
def open_telemetry(
    settings: OtelSettings, environ: Mapping[str, str] = os.environ
) -> Iterator[Telemetry]:
    """Open telemetry that exports to the collector of the settings.

    What is left at the end is sent behind; the end of the process waits for it.
    """
    resource = _resource(settings)
    tracers, readers = TracerProvider(resource=resource), list[MetricReader]()
    if _is_wanted("TRACES", environ):
        spans = OTLPSpanExporter(**_place("TRACES", settings, environ))
        tracers.add_span_processor(BatchSpanProcessor(spans))
    if _is_wanted("METRICS", environ):
        figures = OTLPMetricExporter(**_place("METRICS", settings, environ))
        readers.append(PeriodicExportingMetricReader(figures))
    meters = MeterProvider(resource=resource, metric_readers=readers)

    def shut_down() -> None:
        tracers.shutdown()
        meters.shutdown(timeout_millis=int(_PATIENCE * 1000))

    try:
        yield Telemetry(tracers, meters, content=_takes_content(settings, environ))
    finally:
        _farewell.send(shut_down)


def _resource(settings: OtelSettings) -> Resource:
    """Return what is said of this program: what the standard variables leave open."""
    ours = {"service.name": "treadle", "service.version": __version__, **settings.attributes}
    told = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in ours.items() if name not in told})


def _is_wanted(signal: str, environ: Mapping[str, str]) -> bool:
    chosen = environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not off and chosen != "none"


def _takes_content(settings: OtelSettings, environ: Mapping[str, str]) -> bool:
    """Return whether texts go along; the variable of the conventions knows where they may go."""
    said = environ.get(_CONTENT, "").strip().lower()
    return said in ("span_only", "span_and_event") if said else settings.content == "full"


def _place(signal: str, settings: OtelSettings, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return where a signal goes; nothing where the standard variables say it."""
    own = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    if settings.endpoint is None or environ.get(own) or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return {"timeout": _EXPORT_SECONDS}
    endpoint = f"{settings.endpoint.rstrip('/')}/v1/{signal.lower()}"
    return {"endpoint": endpoint, "timeout": _EXPORT_SECONDS}


class _Farewell:
    """What is still sent of threads that are closed, and the end of the process, which waits."""

    def __init__(self) -> None:
        self._sending: list[threading.Thread] = []
        self._awaited = False

    def send(self, work: Callable[[], None]) -> None:
        """Send behind whatever comes next; nobody waits for it but the end of the process."""
        # A daemon: the process ends although a collector does not answer.
        thread = threading.Thread(target=work, name="treadle-telemetry", daemon=True)
        thread.start()
        self._sending = [*(each for each in self._sending if each.is_alive()), thread]
        if not self._awaited:
            self._awaited = True
            atexit.register(self.wait)

    def wait(self) -> None:
        """Wait for all of it, for a moment."""
        until = time.monotonic() + _PATIENCE
        for thread in self._sending:
            thread.join(max(until - time.monotonic(), 0.0))


_farewell = _Farewell()
