"""The log directories of a broker that may not run: from its settings, and what they belong to."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kavka.settings.broker import BROKER_SETTINGS
from kavka.storage.checkpoint.meta_properties import META_PROPERTIES, MetaProperties


def log_directories(settings: Mapping[str, str]) -> list[str]:
    """Return the directories that settings name, as they name them; the default one where they name none."""
    listed = (
        settings.get("log.dirs") or settings.get("log.dir") or BROKER_SETTINGS["log.dir"].default
    )
    return [each.strip() for each in str(listed).split(",") if each.strip()]


def identity_of(directory: str) -> tuple[MetaProperties | None, str | None]:
    """Return the identity of a directory, if it has one, and what is wrong with it, if anything is."""
    if not os.path.exists(directory):
        return None, f"{directory} does not exist"
    if not os.path.isdir(directory):
        return None, f"{directory} is not a directory"
    try:
        with open(os.path.join(directory, META_PROPERTIES), "rb") as file:
            return MetaProperties.decode(file.read()), None
    except FileNotFoundError:
        return None, f"{directory} is not formatted: no broker has used it yet"
    except OSError as error:
        return None, f"{directory}: {META_PROPERTIES} cannot be read: {error.strerror}"
    except ValueError as error:
        return None, f"{directory}: {error}"
