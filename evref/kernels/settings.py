"""A choice that holds for the process or, in a with-statement, for its body alone."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, ClassVar, Self


class Setting:
    """Base of `use_backend` and `use_threads`.

    A plain call changes the choice for the whole process; as a context manager it changes it for the body alone, in
    this thread alone. Subclasses own a `_scoped` variable and a `_process_wide` value.
    """

    _scoped: ClassVar[ContextVar[Any]]
    _process_wide: ClassVar[Any] = None

    def __init__(self, value: Any) -> None:
        self.value = self._checked(value)
        self._before = type(self)._process_wide
        self._tokens: list[Any] = []
        type(self)._process_wide = self.value

    def __enter__(self) -> Self:
        type(self)._process_wide = self._before  # it was not a plain call after all
        self._tokens.append(self._scoped.set(self.value))
        return self

    def __exit__(self, *exc: object) -> None:
        self._scoped.reset(self._tokens.pop())

    @classmethod
    def chosen(cls) -> Any:
        """The value in force, None if nobody chose."""
        scoped = cls._scoped.get()
        return cls._process_wide if scoped is None else scoped

    @staticmethod
    def _checked(value: Any) -> Any:
        return value
