"""Load of a run: programs on client nodes that report to the checker."""
