"""What to do next: pure machines and tables. Nothing here does I/O, reads a clock or draws a random number."""
