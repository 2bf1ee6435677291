"""The output of a registry's shell for a list of commands: ZooKeeper's and ours."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

SHELL = """\
ls /
ls -s /brokers
ls -R /config
get /cluster/id
get -s /brokers/ids/0
get /admin
stat /nope
create ROOT first
create ROOT again
create ROOT/a
create -e ROOT/e passing
create -s ROOT/s- x
create -s -e ROOT/se- 'two words'
create ROOT/no/parent x
create ROOT/e/child x
set ROOT second
set -v 0 ROOT third
get -s ROOT
set -s ROOT "the fourth"
get -w ROOT
set ROOT fifth
ls ROOT
create ROOT/a/b
create ROOT/a/b/deep
create ROOT/a/c
create ROOT/d
create ROOT/d/e
ls -R ROOT
ls -R /nope
getAcl ROOT
getAcl -s ROOT/a
getAcl /nope
getAcl
getEphemerals ROOT/e
getEphemerals /nope
sync ROOT
sync
whoami
get -w ROOT
removewatches -c ROOT
removewatches ROOT
removewatches ROOT
ls -w ROOT
removewatches -d ROOT
removewatches -c ROOT
set ROOT sixth
deleteall ROOT/a/b
delete ROOT/a/c
deleteall ROOT/d
delete ROOT
delete -v 9 ROOT/a
delete ROOT/a
delete ROOT/a
getAllChildrenNumber ROOT
deleteall ROOT
deleteall ROOT
ls
ls nope
get -x /
history
get /nope
quit
"""


EVENT = re.compile(r"\nWatchedEvent state:(\S+) type:(\S+) path:(\S+)\n")


class Typed(NamedTuple):
    """The result of what was typed into a shell."""

    code: int
    events: list[tuple[str, ...]]
    out: str
    err: str


def typed_into(command: list[str], root: str) -> Typed:
    """Run a shell, and return what it said but for the numbers and times of transactions.

    ZooKeeper's shell prints events by a thread of its own, in two pieces: what a command says may come before, behind
    and between them. That it is closed it prints if the process lives long enough.
    """
    done = subprocess.run(
        command,
        input=SHELL.replace("ROOT", root),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    out, err = (re.sub(r"(?m)^(.Zxid|.time) = .*$", r"\1", t) for t in (done.stdout, done.stderr))
    events = [event for event in EVENT.findall(out) if event != ("Closed", "None", "null")]
    said = EVENT.sub("", out.replace("\nWATCHER::\n", ""))
    return Typed(done.returncode, events, said.rstrip(), err.rstrip())
