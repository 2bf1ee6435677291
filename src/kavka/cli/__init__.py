"""Commands with the flags and output of Kafka's scripts: one file each, with `main(arguments) -> exit code`."""
