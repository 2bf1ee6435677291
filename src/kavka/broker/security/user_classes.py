"""Classes of users that settings name as `module:Class`: imported and made at the start of the broker."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from kavka.settings.declaration import InvalidSetting


def make_user_object(setting: str, name: str, options: Mapping[str, str], method: str) -> Any:
    """Return an object of the class that a setting names, made with `options`.

    Raise InvalidSetting, also where it has no method of this name.
    """
    module, colon, class_name = name.partition(":")
    if not colon:
        reason = f"Expected module:Class, a Python class with the method {method}"
        raise InvalidSetting(setting, name, reason)
    try:
        made = getattr(importlib.import_module(module), class_name)(dict(options))
    except Exception as error:
        # Code of a user: whatever keeps the object from being made keeps the broker from starting.
        raise InvalidSetting(setting, name, f"The object cannot be made: {error!r}") from error
    if not callable(getattr(made, method, None)):
        raise InvalidSetting(setting, name, f"The class has no method {method}")
    return made
