"""Methods from a user's own module: import `module:function`, and report its faults in one sentence."""

import importlib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from evenhand import errors
from evenhand.core.method import Method


def imported(name: str) -> Callable[..., Method]:
    """Import the function called module:function; whatever it or its module raises becomes an `EvenhandError`."""
    module, _, attribute = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)
        inspect.signature(made)  # raises if it cannot be called
    except Exception as error:  # the module may raise anything
        raise _unusable(name, error) from None

    @wraps(made)
    def build(*tested: Method, **arguments: Any) -> Method:
        try:
            method = made(*tested, **arguments)
        except errors.EvenhandError:
            raise
        except Exception as error:
            raise _unusable(name, error) from None
        if not isinstance(method, Method):
            raise errors.wrong(f"'{name}'", "return a Method", type(method).__name__)
        return method

    return build


def _unusable(name: str, error: Exception) -> errors.InputError:
    return errors.InputError(f"'{name}' cannot be used: {errors.fault(error)}.")
