"""Random rotation of files, with scans, reads and crashes in between: each line is sent once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from support.stories.file_tracker_story import Story

STEPS = 120


class Writer:
    """A program that writes lines, and the rotation of its file: by rename or copy, with or without compression."""

    def __init__(self, story: Story, name: str, rng: random.Random) -> None:
        self.story = story
        self.name = name
        self.rng = rng
        self.written: list[bytes] = []
        self.kept = 0  # app.log.1 to app.log.<kept>
        self.archived: set[int] = set()
        self.copies = rng.random() < 0.5
        self.compresses = rng.random() < 0.5
        self.banner = rng.choice([0, 1, 40])

    def write(self) -> None:
        inode = self.story.changed(self.name)
        if not inode.data:
            for number in range(self.banner):
                self.line(f"header {number} of a program that always begins like this")
        for _ in range(self.rng.choice([1, 1, 2, 5, 40])):
            self.line(f"{self.name} writes {'x' * self.rng.randrange(30)}")

    def line(self, text: str) -> None:
        line = text.encode()
        if not text.startswith("header"):
            line += b" %d" % len(self.written)
        self.story.changed(self.name).data += line + b"\n"
        self.written.append(line)

    def path(self, number: int) -> str:
        return f"{self.name}.{number}" + (".gz" if number in self.archived else "")

    def rotate(self) -> None:
        folder = self.story.folder
        if not folder.get(self.name) or not folder[self.name].data:
            return
        for number in range(self.kept, 0, -1):
            old = self.path(number)
            self.archived = {n for n in self.archived if n != number} | (
                {number + 1} if number in self.archived else set()
            )
            self.story.do_rename([old, self.path(number + 1)])
        self.kept += 1
        if self.copies:
            self.story.do_copy([self.name, f"{self.name}.1"])
            if self.rng.random() < 0.2:
                self.story.do_scan([])
            self.story.do_truncate([self.name])
        else:
            self.story.do_rename([self.name, f"{self.name}.1"])

    def compress(self) -> None:
        plain = [number for number in range(1, self.kept + 1) if number not in self.archived]
        if not self.compresses or not plain:
            return
        number = plain[-1]
        source = f"{self.name}.{number}"
        if self.rng.random() < 0.3:
            self.story.do_gzip([source, f"{source}.gz", "unfinished"])
            self.story.do_scan([])
            self.story.do_finish([f"{source}.gz"])
            if self.rng.random() < 0.3:
                self.story.do_scan([])
            self.story.do_delete([source])
        else:
            self.story.do_gzip([source, f"{source}.gz"])
        self.archived.add(number)


def play(seed: int) -> tuple[Counter[bytes], Counter[bytes]]:
    """Return the lines that were written and those that were sent."""
    rng = random.Random(seed)
    story = Story()
    writers = [Writer(story, name, rng) for name in ("app.log", "web.log")[: rng.choice([1, 2])]]
    for _ in range(STEPS):
        step(story, rng.choice(writers), rng)
    for _ in range(4):
        story.do_scan([])
        story.do_read([])
        story.do_wait(["10000"])
    return Counter(line for w in writers for line in w.written), Counter(story.sent)


def step(story: Story, writer: Writer, rng: random.Random) -> None:
    chance = rng.random()
    if chance < 0.4:
        writer.write()
    elif chance < 0.5:
        writer.rotate()
    elif chance < 0.57:
        writer.compress()
    elif chance < 0.75:
        story.do_scan([])
    elif chance < 0.9:
        for read in story.tracker.pending_reads(story.now_ms)[: rng.choice([1, 2])]:
            story.read(read, rng.choice([120, 1000, 1 << 20]))
        if rng.random() < 0.8:
            story.store()
    elif chance < 0.95:
        story.do_wait([str(rng.choice([100, 3000, 20_000]))])
    else:
        story.do_restart([] if rng.random() < 0.7 else ["device"])


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_each_line_is_sent_once_whatever_the_rotation(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        written, sent = play(seed)
        assert (seed, written - sent) == (seed, Counter()), "lost"
        assert (seed, sent - written) == (seed, Counter()), "doubled"
