"""A choice that holds for the process, and choices for the body of a with-statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class Setting(Generic[T]):
    """What `set_backend`/`use_backend` and `set_threads`/`use_threads` share; `check` validates a value."""

    def __init__(self, name: str, check: Callable[[T], T]) -> None:
        self._check = check
        self._process_wide: T | None = None
        self._scoped: ContextVar[T | None] = ContextVar(name, default=None)  # a thread has its own

    def set(self, value: T) -> None:
        """For the whole process, where no with-statement says otherwise."""
        self._process_wide = self._check(value)

    def use(self, value: T) -> AbstractContextManager[None]:
        """For the body of a with-statement, in this thread alone. Without `with`, nothing changes."""
        return self._body(self._check(value))  # a bad value is refused at the call

    @contextmanager
    def _body(self, value: T) -> Iterator[None]:
        token = self._scoped.set(value)
        try:
            yield
        finally:
            self._scoped.reset(token)

    def chosen(self) -> T | None:
        """The value in force, None if nobody chose."""
        scoped = self._scoped.get()
        return self._process_wide if scoped is None else scoped
