"""What the broker knows of the cluster: live brokers, topics, leaders, and Metadata responses made of them."""
