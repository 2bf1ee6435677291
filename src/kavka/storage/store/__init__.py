"""All logs of all log directories: which there are, which move, and which belong to no topic of this broker."""
