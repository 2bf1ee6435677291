"""Commands with the flags and output of Kafka's scripts: one module each, with `main(arguments) -> exit code`."""
