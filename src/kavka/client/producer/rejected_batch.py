"""Refusals of a batch because of some of its records (KIP-467): each record learns what concerns it. Pure."""

from __future__ import annotations

from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.messages.produce import ProduceResponsePartition

_NEIGHBOUR = (
    "Failed to append record because it was part of a batch which had one or more invalid records"
)


class RejectedBatch(KafkaError):
    """The refusal of a whole batch; `record_errors` has the broker's sentences by index of the record in the batch."""

    def __init__(self, code: ErrorCode, detail: str | None, record_errors: dict[int, str]) -> None:
        """Take the batch's code and sentence, and those of its records."""
        super().__init__(code, detail)
        self.record_errors = record_errors

    def of_records(self, start: int, count: int) -> KafkaError:
        """Return the error of records `start` to `start + count`: that of the first invalid one of them.

        Where the batch has one invalid record, that has the batch's code; else INVALID_RECORD, as valid records have.
        """
        found = [index for index in self.record_errors if start <= index < start + count]
        if not found:
            return KafkaError(ErrorCode.INVALID_RECORD, _NEIGHBOUR)
        code = self.code if len(self.record_errors) == 1 else ErrorCode.INVALID_RECORD
        return KafkaError(code, self.record_errors[min(found)])


def refusal(part: ProduceResponsePartition, topic_partition: TopicPartition) -> KafkaError:
    """Return the error of a batch that a broker refused; it is a RejectedBatch where the broker names records."""
    code = ErrorCode.of(part.error_code)
    if not part.record_errors:
        return KafkaError(code, f"{topic_partition}: {part.error_message or code.message}")
    sentences = {
        error.batch_index: error.batch_index_error_message or part.error_message or code.message
        for error in part.record_errors
    }
    return RejectedBatch(code, part.error_message, sentences)
