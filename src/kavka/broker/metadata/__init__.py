"""The metadata cache: live brokers, topics and leaders, and the Metadata responses made of them."""
