"""Failures of the cluster tools, with the sentences and exception names of Kafka's tools."""

from __future__ import annotations

from kavka.cli.text.java_errors import spelt_together

ADMIN_COMMAND_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
ADMIN_OPERATION = "org.apache.kafka.tools.AdminOperationException"


class CommandFailed(Exception):
    """The command cannot be done; carries the name of the exception in Kafka's tools and the sentence."""

    def __init__(self, name: str, sentence: str) -> None:
        """Take the name with its package."""
        super().__init__(sentence)
        self.name = name


class TerseFailure(Exception):
    """A failed command of which only the sentence is printed."""


def spelt_failure(error: Exception) -> tuple[str, str]:
    """Return (exception, text); what a broker refused is wrapped, as Java's futures do."""
    if isinstance(error, CommandFailed):
        return error.name, str(error)
    return "java.util.concurrent.ExecutionException", spelt_together(error)
