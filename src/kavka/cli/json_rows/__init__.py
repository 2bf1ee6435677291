"""From what brokers answer to the objects that commands print with `--json`, in the shapes of `json_lines.shapes`."""
