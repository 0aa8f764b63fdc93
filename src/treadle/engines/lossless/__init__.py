"""The lossless engine: summaries over a log that keeps everything."""
