"""The operating system's disk, and the open files of one partition's directory."""
