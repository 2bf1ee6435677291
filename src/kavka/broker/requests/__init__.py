"""The way of a request: connections, stages, large requests, deferred responses, counters."""
