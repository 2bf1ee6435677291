"""Names of Kafka's releases in settings that choose formats and protocols: `2.8`, `2.8.1`, `3.0-IV1`."""

from __future__ import annotations

from kavka.settings.declaration import Value

# How many versions between brokers each release of Apache Kafka went through, -IV0 first; none had that suffix before.
_STEPS = {
    "0.8.0": 0,
    "0.8.1": 0,
    "0.8.2": 0,
    "0.9.0": 0,
    "0.10.0": 2,
    "0.10.1": 3,
    "0.10.2": 1,
    "0.11.0": 3,
    "1.0": 1,
    "1.1": 1,
    "2.0": 2,
    "2.1": 3,
    "2.2": 2,
    "2.3": 2,
    "2.4": 2,
    "2.5": 1,
    "2.6": 1,
    "2.7": 3,
    "2.8": 2,
    "3.0": 2,
    "3.1": 1,
    "3.2": 1,
    "3.3": 4,
    "3.4": 1,
    "3.5": 3,
    "3.6": 3,
    "3.7": 5,
    "3.8": 1,
    "3.9": 1,
    "4.0": 2,
}
_NAMES = frozenset(
    [*_STEPS, *(f"{name}-IV{step}" for name, steps in _STEPS.items() for step in range(steps))]
)


def release_fault(value: Value) -> str | None:
    """Return why Apache Kafka 3.9 does not know a release by this name, None when it does.

    Parts behind those that distinguish releases are ignored: 2.8.1 means 2.8.
    """
    assert isinstance(value, str)
    parts = value.rstrip(".").split(".")
    significant = 3 if value.startswith("0.") else 2
    name = ".".join(parts[:significant]) if len(parts) > significant else value
    return None if name in _NAMES else f"Version {value} is not a valid version"
