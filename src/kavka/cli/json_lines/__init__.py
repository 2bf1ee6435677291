"""Answers and failures of commands as JSON, an object in a line, for scripts: `--json`."""
