"""Text as Kafka's tools print it: tables, JSON, times, error names, statistics."""
