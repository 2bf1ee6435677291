"""Context of all parts of a log: its directory, its files, its settings, and whether it is closed."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.partition_directory import PartitionDirectory
from kavka.storage.failures import LogClosed
from kavka.storage.log_config import LogConfig


class LogContext:
    """The surroundings of one log. `config` is replaced live; a part that decides by it reads it here."""

    __slots__ = ("config", "directory", "files", "is_closed", "topic_partition")

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        files: PartitionDirectory,
    ) -> None:
        """Count the log among the open ones of its directory."""
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.files = files
        self.is_closed = False
        directory.open_logs += 1

    def close(self) -> None:
        """Mark the log as closed."""
        if not self.is_closed:
            self.is_closed = True
            self.directory.open_logs -= 1

    def check_open(self) -> None:
        """Raise LogClosed, or LogDirectoryFailed when the directory is offline."""
        if self.is_closed:
            raise LogClosed(self.files.path)
        if self.directory.failure is not None:
            self.directory.check()
