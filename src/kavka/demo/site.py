"""A plausible web site: the access log of its server, from a seed.

Each visitor is a process that yields its requests and their times; a heap merges them by the arrival of the
line. There are visitors in sessions (pages by Zipf's law, searches, links that are broken), crawlers that respect
robots.txt and one that does not, and an abuser who tries passwords. Some lines arrive late, few too late, some are
broken. The same seed gives the same lines, on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from random import Random

from kavka.demo.line import LogLine, combined

START_MS = 1_740_960_000_000
"""Midnight of 3 March 2025 UTC, where every site starts."""
DISALLOWED = "/private/"
"""Path prefix that the site's robots.txt forbids to crawlers."""

_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Version/17.5 Safari/605.1.15",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
)
_SECTIONS = ("articles", "products", "guides", "people")
_SEARCHES = (
    "kafka",
    "spark",
    "python",
    "event sourcing",
    "caf\u00e9",
    "log compaction",
    "100% off",
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A request and its response."""

    time_ms: int
    visitor: str
    agent: str
    request: str
    status: int = 200
    size: int = 5120
    referrer: str = "-"


@dataclass(frozen=True, slots=True)
class Traffic:
    """The amount of traffic; rates are per hour of the site's time."""

    sessions: int = 3000
    pages: int = 300
    visitors: int = 20_000
    polite_crawlers: int = 3
    rude_crawlers: int = 1
    attacks: float = 2.0
    late_share: float = 0.01
    too_late_share: float = 0.001
    malformed_share: float = 0.003


class Site:
    """The site of one seed; each call of `lines()` starts from the beginning."""

    def __init__(self, seed: int, traffic: Traffic | None = None) -> None:
        """Lay out the pages; nothing random is drawn yet."""
        self.traffic = traffic or Traffic()
        self._seed = seed
        self._pages = ["/"] + [
            f"/{_SECTIONS[number % len(_SECTIONS)]}/{number}"
            for number in range(1, self.traffic.pages)
        ]
        self._page_weights = _zipf(self.traffic.pages, 1.1)
        self._visitor_weights = _zipf(self.traffic.visitors, 0.6)

    def lines(self) -> Iterator[LogLine]:
        """Yield lines without end, in the order of their arrival."""
        rng = Random(self._seed)
        order = count()
        waiting: list[tuple[int, int, LogLine]] = []
        for hit in self._hits(rng):
            line = self._log_line(rng, hit)
            heapq.heappush(waiting, (line.arrived_ms, next(order), line))
            # Later hits have a later event time, so they cannot arrive before this hit happened.
            while waiting and waiting[0][0] <= hit.time_ms:
                yield heapq.heappop(waiting)[2]

    def _hits(self, rng: Random) -> Iterator[Hit]:
        """Merge the hits of all visitors by time."""
        streams = [self._sessions(rng)]
        streams += [self._polite(rng, number) for number in range(self.traffic.polite_crawlers)]
        streams += [self._rude(rng, number) for number in range(self.traffic.rude_crawlers)]
        if self.traffic.attacks > 0:
            streams.append(self._attacks(rng))
        return heapq.merge(*streams, key=lambda hit: hit.time_ms)

    def _sessions(self, rng: Random) -> Iterator[Hit]:
        """Yield hits of people: sessions start at random times, each a random walk over pages."""
        now = float(START_MS)
        order = count()
        open_sessions: list[tuple[int, int, Hit]] = []
        while True:
            now += rng.expovariate(self.traffic.sessions / 3_600_000)
            for hit in self._session(rng, int(now)):
                heapq.heappush(open_sessions, (hit.time_ms, next(order), hit))
            while open_sessions and open_sessions[0][0] <= now:
                yield heapq.heappop(open_sessions)[2]

    def _session(self, rng: Random, start_ms: int) -> Iterator[Hit]:
        number = _pick(rng, self._visitor_weights)
        visitor = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        agent = _AGENTS[number % len(_AGENTS)]
        time_ms, referrer = float(start_ms), "-"
        while True:
            request, status, size = self._visitor_request(rng)
            yield Hit(int(time_ms), visitor, agent, request, status, size, referrer)
            if rng.random() < 0.2:
                return
            referrer = "https://site.example" + request.split(" ")[1]
            time_ms += 1000 + rng.expovariate(1 / 25_000)

    def _visitor_request(self, rng: Random) -> tuple[str, int, int]:
        """Return request, status and bytes."""
        draw = rng.random()
        if draw < 0.08:
            words = _SEARCHES[min(int(rng.expovariate(0.7)), len(_SEARCHES) - 1)]
            return f"GET /search?q={_query(words)}&page=1", 200, 2048
        if draw < 0.10:
            return f"GET /gone/{rng.randrange(50)}", 404, 312
        if draw < 0.101:
            return "POST /cart", 500, 99
        page = self._pages[_pick(rng, self._page_weights)]
        return f"GET {page}", 304 if draw < 0.2 else 200, 1024 + len(page) * 512

    def _polite(self, rng: Random, number: int) -> Iterator[Hit]:
        """Yield hits of a crawler that reads robots.txt once a day, waits ten seconds and respects it."""
        visitor, agent = f"192.0.2.{number + 1}", f"GoodBot{number}/1.0 (+https://good.example/bot)"
        time_ms = START_MS + rng.randrange(10_000)
        for step in count():
            page = self._pages[step % len(self._pages)]
            path = "/robots.txt" if step % 8640 == 0 else page
            yield Hit(time_ms, visitor, agent, f"GET {path}")
            time_ms += 10_000 + rng.randrange(500)

    def _rude(self, rng: Random, number: int) -> Iterator[Hit]:
        """Yield hits of a crawler that requests two pages a second, the forbidden ones too."""
        visitor, agent = f"198.51.100.{number + 1}", "GreedySpider/0.9"
        time_ms = START_MS + 60_000 + rng.randrange(60_000)
        for step in count():
            path = f"{DISALLOWED}{step}" if step % 5 == 0 else self._pages[step % len(self._pages)]
            yield Hit(time_ms, visitor, agent, f"GET {path}")
            time_ms += 500 + rng.randrange(50)
            if step % 600 == 599:
                time_ms += 1_200_000

    def _attacks(self, rng: Random) -> Iterator[Hit]:
        """Yield hits of an abuser with a browser's name that tries a few hundred passwords in some minutes."""
        now = float(START_MS)
        while True:
            now += 300_000 + rng.expovariate(self.traffic.attacks / 3_600_000)
            visitor = f"203.0.113.{rng.randrange(1, 255)}"
            for _ in range(rng.randrange(300, 900)):
                yield Hit(int(now), visitor, _AGENTS[1], "POST /login", 401, 64)
                now += rng.randrange(100, 300)

    def _log_line(self, rng: Random, hit: Hit) -> LogLine:
        """Return the line of a hit, sometimes late or malformed."""
        text = combined(
            hit.visitor, hit.time_ms, hit.request, hit.status, hit.size, hit.referrer, hit.agent
        ).encode()
        event_ms = hit.time_ms // 1000 * 1000
        draw = rng.random()
        if draw < self.traffic.malformed_share:
            broken = _DAMAGE[rng.randrange(len(_DAMAGE))](text)
            return LogLine(hit.visitor, broken, hit.time_ms, None)
        draw -= self.traffic.malformed_share
        if draw < self.traffic.too_late_share:
            return LogLine(
                hit.visitor, text, hit.time_ms + rng.randrange(900, 3600) * 1000, event_ms
            )
        draw -= self.traffic.too_late_share
        if draw < self.traffic.late_share:
            return LogLine(hit.visitor, text, hit.time_ms + rng.randrange(60, 480) * 1000, event_ms)
        return LogLine(hit.visitor, text, hit.time_ms, event_ms)


_DAMAGE: tuple[Callable[[bytes], bytes], ...] = (
    lambda text: text[: len(text) // 2],
    lambda text: text.replace(b"[", b"[99/", 1),
    lambda text: text.replace(b"HTTP/1.1", b"\xff\xfe", 1),
    lambda text: text.replace(b' HTTP/1.1"', b'"', 1),
    lambda text: b"",
)
"""Ways in which a line breaks: cut, no such day, not UTF-8, half a request line, empty."""


def _zipf(size: int, exponent: float) -> list[float]:
    """Return cumulated weights of Zipf's law."""
    return list(accumulate(1 / rank**exponent for rank in range(1, size + 1)))


def _pick(rng: Random, cumulated: list[float]) -> int:
    return rng.choices(range(len(cumulated)), cum_weights=cumulated)[0]


def _query(words: str) -> str:
    """Encode for a query string, as a browser does in a form."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else "+" if byte == 32 else f"%{byte:02X}"
        for byte in words.encode()
    )
