"""Tailing of log files: `tracker` decides the state of each file, `tailer` reads and sends."""
