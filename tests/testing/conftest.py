"""The plugin's fixture: `kavka_broker` of other tests here is a broker in a process of its own."""

from kavka.testing.plugin import kavka_broker

__all__ = ["kavka_broker"]
