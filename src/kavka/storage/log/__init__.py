"""One partition's log: its segments, and what is appended, flushed, read, truncated and removed."""
