"""The streams of a command with `--json`: objects in lines, their declared shapes, one failure."""
