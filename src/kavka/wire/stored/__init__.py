"""Records of internal topics, declared as messages are; keys and values carry their version in front."""
