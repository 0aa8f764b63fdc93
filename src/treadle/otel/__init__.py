"""Traces and metrics of turns, by the conventions of OpenTelemetry for generative AI."""
