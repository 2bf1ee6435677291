"""Code that tests of several files share. Tests import it, and never one another."""
