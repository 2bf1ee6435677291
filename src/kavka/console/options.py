"""The options of a console: the cluster, the address to listen on, and its bounds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kavka.console.access.config import Access
from kavka.console.access.exposure import Exposure


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The cluster that one console shows, and the bounds of its questions."""

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of clients, as in a file for `--command-config`."""
    registry: Mapping[str, str] = field(default_factory=dict)
    """Settings of the schema registry; without its `url` there is none."""
    timeout_ms: int = 8_000
    """Bound on one page: a cluster that takes longer gives an error page."""
    most_calls: int = 16
    """Calls of the admin client in progress; others wait."""
    most_readers: int = 12
    """Consumers that read messages or follow a topic; one more is refused."""
    sample_interval_ms: int = 5_000
    """Time between two looks at the ends of all partitions, for rates; 0 looks never."""
    access: Access = field(default_factory=Access)
    """Logins, roles and masks; by default none."""
    exposure: Exposure = field(default_factory=Exposure)
    """The way in from other machines; by default none."""
    history: Path | None = None
    """The file of the history; None keeps it in memory."""
    history_interval_ms: int = 20_000
    """Time between two looks that are kept and that alerts are decided on; 0 looks never."""
    most_history_bytes: int = 1 << 30
    """Bound on the history's file."""
    most_series: int = 50_000
    """Series that are kept, with half as many of groups in topics beside them; the page says what is left out."""
    rules: Path | None = None
    """The file of the alerts' rules; None has the default rules, and no channels."""

    @property
    def part_ms(self) -> int:
        """Bound on one broker's part of a page, 3 s by default: the page goes on without one that does not answer."""
        return self.timeout_ms * 3 // 8
