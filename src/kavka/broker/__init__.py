"""The server: thin shells around core. Events in, core decides, effects out."""
