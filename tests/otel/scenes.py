"""Scenes: threads that are followed, and collectors that keep what they are sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from treadle.otel.telemetry import Telemetry

__all__ = ["Collected", "Seen", "collector"]


class Seen:
    """Telemetry that keeps its spans and figures in memory."""

    def __init__(self, *, content: bool = False) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider(metric_readers=[self._reader])
        self.telemetry = Telemetry(self.tracers, meters, content=content)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.spans if each.name == name]

    def told(self, name: str) -> list[dict[str, Any]]:
        """The attributes of all spans of that name."""
        return [dict(each.attributes or {}) for each in self.named(name)]

    def tree(self) -> list[str]:
        """The spans in the order of their starts, below their parents."""
        depths: dict[int, int] = {}
        lines = []
        for span in sorted(self.spans, key=lambda each: each.start_time or 0):
            depth = depths.get(span.parent.span_id, -1) + 1 if span.parent else 0
            depths[span.context.span_id] = depth
            lines.append("  " * depth + span.name)
        return lines

    def metrics(self) -> dict[str, list[Any]]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@dataclass
class Collected:
    """What a collector was sent."""

    url: str = ""
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def raw(self) -> bytes:
        every: list[Any] = [*self.traces, *self.metrics]
        return b"".join(each.SerializeToString() for each in every)


@contextmanager
def collector() -> Iterator[Collected]:
    """A collector that decodes what it is sent over HTTP, as the protocol says."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            collected.headers.append(dict(self.headers.items()))
            if self.path == "/v1/traces":
                collected.traces.append(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                collected.metrics.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collected.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
