"""Parts of the ZooKeeper commands: the shell's language and the session with a registry."""
