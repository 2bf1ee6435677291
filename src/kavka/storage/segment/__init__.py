"""A segment: the log file, its sparse indexes, and their recovery."""
