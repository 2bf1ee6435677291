"""A partition's log: its segments, and appending, flushing, reading, truncation and removal."""
