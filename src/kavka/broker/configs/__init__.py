"""Configuration of the broker: what its file says, what topics and brokers override, levels of loggers."""
