"""What a layer may change outside of itself: random generators, default dtype and device, error handling. Set back."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np


class Setting(NamedTuple):
    """One global setting, and how to read and to write it."""

    says: str
    read: Callable[[], Any]
    write: Callable[[Any], object]


@contextmanager
def set_back() -> Iterator[list[str]]:
    """Global settings and random generators are afterwards what they were; the list says which settings were changed.

    Generators are set back without a word: a comparison should not change what a program draws next.
    """
    changed: list[str] = []
    before = [(setting, setting.read()) for setting in _settings()]
    generators = generator_states()
    try:
        yield changed
    finally:
        for setting, value in before:
            now = setting.read()
            if now != value:
                setting.write(value)
                changed.append(f"the layer changes {setting.says} from {value} to {now}; it was set back")
        set_generators(generators)


def generator_states() -> dict[str, Any]:
    """The states of the global random generators that are there."""
    states = {"random": random.getstate(), "numpy": np.random.get_state()}  # noqa: NPY002
    if _loaded("torch"):
        import torch

        states["torch"] = torch.get_rng_state()
    return states


def set_generators(states: dict[str, Any]) -> None:
    """The global random generators as `generator_states` found them."""
    random.setstate(states["random"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    if "torch" in states:
        import torch

        torch.set_rng_state(states["torch"])


def _settings() -> list[Setting]:
    settings = [
        Setting("NumPy's error handling (np.seterr)", np.geterr, lambda value: np.seterr(**value)),
        Setting("the current folder", os.getcwd, os.chdir),
    ]
    if _loaded("torch"):
        settings += _of_torch()
    if _loaded("jax"):
        settings += _of_jax()
    return settings


def _of_torch() -> list[Setting]:
    import torch

    def set_device(device: Any) -> None:
        # None is what it is before anybody sets one: a device, even the CPU, costs time at every call.
        torch.set_default_device(None if device == torch.device("cpu") else device)

    def default_device() -> Any:
        return torch.get_default_device() if hasattr(torch, "get_default_device") else torch.empty(0).device

    return [
        Setting("torch's default device", default_device, set_device),
        Setting("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Setting("whether torch records gradients", torch.is_grad_enabled, torch.set_grad_enabled),
        Setting("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
    ]


def _of_jax() -> list[Setting]:
    import jax

    def setting(name: str) -> Setting:
        return Setting(
            f"jax.config.{name}", lambda: getattr(jax.config, name), lambda value: jax.config.update(name, value)
        )

    names = ("jax_enable_x64", "jax_disable_jit", "jax_debug_nans")
    return [setting(name) for name in names if hasattr(jax.config, name)]


def _loaded(name: str) -> bool:
    """Whether a framework is there, and whole: an import that failed leaves parts."""
    module = sys.modules.get(name)
    return module is not None and hasattr(module, {"torch": "get_rng_state", "jax": "config"}[name])
