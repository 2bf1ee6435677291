"""Runs a scenario of one follower against one leader: commands in, questions, steps and the follower's log out.

    leader start=0 end=N epochs=E:S,E:S hw=N      the leader's log
    follower start=0 end=N epochs=E:S,... hw=N    the follower's log
    follow epoch=N [old]                          follow from now on; `old` is a leader below Fetch v12
    round [most=N]                                one question, answered from the leader's log (N records at most)
    error NAME                                    one question, answered with an error
    wait MS

Records are not modelled: a log is its ends and its epochs.
"""

from __future__ import annotations

from kavka.core.follower import (
    LATEST,
    Append,
    FetchedPartition,
    FetchEpochEndOffset,
    FetchOffset,
    FetchRecords,
    FollowedPartition,
    LeaderRequest,
    RestartAt,
    Step,
    Truncate,
)
from kavka.errors import ErrorCode
from kavka.storage.checkpoint.leader_epochs import EpochStart, LeaderEpochs


class StoryLog:
    """A log without records."""

    def __init__(self, start: int = 0, end: int = 0, epochs: str = "", hw: int = 0) -> None:
        pairs = [part.split(":") for part in epochs.split(",") if part]
        self.log_start_offset, self.log_end_offset, self.high_watermark = start, end, hw
        self.epochs = LeaderEpochs([EpochStart(int(e), int(s)) for e, s in pairs])

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def truncate(self, offset: int) -> None:
        self.epochs.truncate_from_end(offset)
        self.log_end_offset = min(self.log_end_offset, offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)

    def restart(self, offset: int) -> None:
        self.epochs.clear()
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset

    def __str__(self) -> str:
        epochs = ",".join(f"{epoch}:{start}" for epoch, start in self.epochs.entries)
        return (
            f"start={self.log_start_offset} hw={self.high_watermark} end={self.log_end_offset} "
            f"epochs={epochs or '-'}"
        )


class Story:
    """One leader, one follower."""

    def __init__(self) -> None:
        self.leader, self.follower = StoryLog(), StoryLog()
        self.followed: FollowedPartition | None = None
        self.now_ms = 0
        self.out: list[str] = []

    def command(self, line: str) -> str:
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        self.out = []
        getattr(self, f"do_{name}")(plain, options)
        return "\n".join(self.out) or "ok"

    def do_leader(self, _: list[str], options: dict[str, str]) -> None:
        self.leader = _log(options)

    def do_follower(self, _: list[str], options: dict[str, str]) -> None:
        self.follower = _log(options)

    def do_follow(self, words: list[str], options: dict[str, str]) -> None:
        self.followed = FollowedPartition(
            self.follower, int(options["epoch"]), is_checked_by_fetch="old" not in words
        )
        self.perform(self.followed.first_step(), 0)
        self.show()

    def do_wait(self, words: list[str], _: dict[str, str]) -> None:
        self.now_ms += int(words[0])

    def do_error(self, words: list[str], _: dict[str, str]) -> None:
        error = ErrorCode[words[0]]
        self.respond(error, 0)

    def do_round(self, _: list[str], options: dict[str, str]) -> None:
        self.respond(ErrorCode.NONE, int(options.get("most", 1000)))

    # One question and its reply

    def respond(self, error: ErrorCode, most: int) -> None:
        assert self.followed is not None
        question = self.followed.next_request(self.now_ms)
        self.out.append(f"asks {show(question)}")
        if question is None:
            return
        step: Step | None
        match question:
            case FetchRecords():
                reply = self.fetch(question) if error is ErrorCode.NONE else FetchedPartition(error)
                step = self.followed.records_fetched(question, reply, self.now_ms)
            case FetchEpochEndOffset():
                epoch, end = self.leader.end_offset_for(question.epoch)
                self.out.append(f"response {error.name} epoch={epoch} end={end}")
                step = self.followed.epoch_end_offset_fetched(
                    question, error, epoch, end, self.now_ms
                )
            case FetchOffset():
                is_end = question.timestamp == LATEST
                offset = self.leader.log_end_offset if is_end else self.leader.log_start_offset
                self.out.append(f"response {error.name} offset={offset}")
                step = self.followed.offset_fetched(question, error, offset, self.now_ms)
        self.perform(step, most)
        self.show()

    def fetch(self, asked: FetchRecords) -> FetchedPartition:
        leader = self.leader
        start, hw = leader.log_start_offset, leader.high_watermark
        if asked.last_fetched_epoch >= 0 and asked.fetch_offset >= start:
            epoch, end = leader.end_offset_for(asked.last_fetched_epoch)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                self.out.append(f"response diverging epoch={epoch} end={end}")
                return FetchedPartition(ErrorCode.NONE, hw, start, epoch, end)
        if not start <= asked.fetch_offset <= leader.log_end_offset:
            self.out.append("response OFFSET_OUT_OF_RANGE")
            return FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE)
        return FetchedPartition(ErrorCode.NONE, hw, start)

    def perform(self, step: Step | None, most: int) -> None:
        log = self.follower
        match step:
            case Append():
                end = min(self.leader.log_end_offset, log.log_end_offset + most)
                self.copy(end)
                log.high_watermark = min(step.high_watermark, end)
                log.log_start_offset = max(log.log_start_offset, step.log_start_offset)
                self.out.append(f"appends up to {end}")
            case Truncate():
                self.out.append(f"truncates to {step.offset}")
                log.truncate(step.offset)
            case RestartAt():
                self.out.append(f"restarts at {step.offset}")
                log.restart(step.offset)

    def copy(self, end: int) -> None:
        for offset in range(self.follower.log_end_offset, end):
            self.follower.epochs.assign(self.leader.epochs.epoch_at(offset), offset)
        self.follower.log_end_offset = end

    def show(self) -> None:
        assert self.followed is not None
        delay = self.followed.delayed_until_ms - self.now_ms
        late = f" delayed={delay}" if delay > 0 else ""
        self.out.append(f"{self.followed.phase.value} {self.follower}{late}")


def _log(options: dict[str, str]) -> StoryLog:
    epochs = options.pop("epochs", "")
    return StoryLog(epochs=epochs, **{name: int(value) for name, value in options.items()})


def show(question: LeaderRequest | None) -> str:
    match question:
        case FetchRecords():
            return f"records from={question.fetch_offset} last_epoch={question.last_fetched_epoch}"
        case FetchEpochEndOffset():
            return f"end of epoch {question.epoch}"
        case FetchOffset():
            return "end of the log" if question.timestamp == LATEST else "start of the log"
        case None:
            return "nothing"
