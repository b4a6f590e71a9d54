"""Filters, layers and networks of evref as PyTorch modules.

>>> import torch, evref as ev
>>> from evref.bridges.torch import FilterModule
>>> graph = ev.generators.path(6)
>>> layer = FilterModule(ev.EdgeVariant(graph, order=2, out_features=3), rng=0)
>>> layer(torch.ones(10, 1, 6, dtype=torch.float64)).shape
torch.Size([10, 3, 6])
>>> [name for name, parameter in layer.named_parameters()]
['phi']

Values and derivatives are evref's own: the same kernels, on the memory of the tensors, without copies. First and second
derivatives, ``torch.compile(fullgraph=True)``, ``state_dict``, copies, pickles and forks work. Not supported, each with
an error: devices other than the CPU, dtypes other than float32 and float64, `torch.func`, forward mode, third
derivatives. NaN and inf pass through, as in PyTorch, where evref itself would refuse them.

How it is done is in :mod:`evref.bridges.torch_ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..checks import what_is
from ..contract import Module, Parameters
from ..filters import Filter
from ..learn import Network

try:
    import torch
    from torch import Tensor
    from torch.nn.utils.parametrize import is_parametrized
except ImportError as error:
    raise ImportError(
        "evref.bridges.torch needs PyTorch, which is not installed; the extra evref[torch] brings it"
    ) from error

from .torch_ops import DTYPES, key_of, run

__all__ = ["EvrefModule", "FilterModule", "NetworkModule", "as_torch"]


class EvrefModule(torch.nn.Module):
    """A filter, layer or network of evref whose numbers are torch parameters.

    The parameters have evref's names. A network's "0.phi" is the parameter `phi` of a child module called "0", as in
    ``torch.nn.Sequential``, so that `named_parameters` and `state_dict` have evref's names as well.

    Shapes
    ------
    x : (batch, *in_shape), such as (batch, features, nodes); what `module` accepts besides comes back in kind
    y : (batch, *out_shape)

    Parameters
    ----------
    module : Module
        A filter, a layer or a network.
    params : dict of arrays, optional
        Where to start; copied. By default ``module.init(rng)``.
    rng : None, int or Generator
        Draws the parameters. None: seeded by PyTorch's own generator, so that ``torch.manual_seed`` decides.
    dtype : torch.float32 or torch.float64
        Of the parameters. x must have the same; ``module.to(torch.float32)`` changes it later.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not fit each other; in a call, for an x or parameters that are not on the CPU, have
        another dtype than float32 and float64 or different ones, and for an x of the wrong shape.

    Examples
    --------
    >>> import evref as ev, numpy as np
    >>> net = ev.Network([ev.Dense((2,), outputs=2), ev.Tanh()])
    >>> wrapped = EvrefModule(net, {"0.weight": np.eye(2), "0.bias": np.zeros(2)}, dtype=torch.float32)
    >>> list(wrapped.state_dict())
    ['0.weight', '0.bias']
    >>> wrapped(torch.tensor([[0.0, 1.0]]))
    tensor([[0.0000, 0.7616]], grad_fn=<_EagerBackward>)
    """

    module: Module

    def __init__(
        self,
        module: Module,
        params: Mapping[str, Any] | None = None,
        *,
        rng: Any = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"module is {what_is(module)}; expected a filter, a layer or a network of evref")
        if dtype not in DTYPES:
            raise TypeError(f"dtype is {dtype!r}; supported are torch.float32 and torch.float64")
        if params is not None and rng is not None:
            raise ValueError("params and rng are both given; expected one of them: rng draws what params would hold")
        self.module = module
        self._key, self._names = key_of(module), list(module.parameter_shapes())
        if params is None:
            params = module.init(int(torch.randint(2**62, (), device="cpu")) if rng is None else rng)
        for name, array in module._checked_parameters(_arrays(params)).items():
            self._add_parameter(name, torch.nn.Parameter(torch.tensor(array, dtype=dtype, device="cpu")))

    def _add_parameter(self, name: str, parameter: torch.nn.Parameter) -> None:
        owner: torch.nn.Module = self
        *children, last = name.split(".")
        for child in children:
            if child not in owner._modules:
                owner.add_module(child, torch.nn.Module())
            owner = owner.get_submodule(child)
        owner.register_parameter(last, parameter)

    def _parameter(self, name: str) -> Tensor:
        """By attribute, so that torch.func.functional_call and parametrizations have their say."""
        found: Any = self
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def forward(self, x: Tensor) -> Tensor:
        return run(self.module, self._key, self._names, [self._parameter(name) for name in self._names], x)

    def numpy_parameters(self) -> Parameters:
        """The parameters as evref takes them: a dict of arrays, copied, so that later training does not change them."""
        return {name: self._parameter(name).numpy(force=True).copy() for name in self._names}

    @torch.no_grad()
    def load_numpy(self, params: Mapping[str, Any]) -> None:
        """Take over evref's parameters, in the dtype of this module; all are checked before the first one changes.

        Where torch.nn.utils.parametrize computes a parameter from others, these are set by its `right_inverse`.
        """
        for name, array in self.module._checked_parameters(_arrays(params)).items():
            path, _, last = name.rpartition(".")
            owner, parameter = self.get_submodule(path), self._parameter(name)
            value = torch.tensor(array, dtype=parameter.dtype)
            if is_parametrized(owner, last):
                setattr(owner, last, value)
            else:
                parameter.copy_(value)

    def extra_repr(self) -> str:
        return repr(self.module)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """After copy.deepcopy or unpickling there is a new evref module, which the ops have to find."""
        super().__setstate__(state)
        self._key = key_of(self.module)


def _arrays(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """`params` with tensors as arrays: those that learn NumPy would refuse."""
    if not isinstance(params, Mapping):
        return params  # refused where the names are looked at
    return {name: a.numpy(force=True) if isinstance(a, Tensor) else a for name, a in params.items()}


class FilterModule(EvrefModule):
    """A filter of ``ev.catalogue`` as a torch.nn.Module. Arguments: :class:`EvrefModule`.

    >>> import evref as ev
    >>> layer = FilterModule(ev.GCN(ev.generators.path(4), in_features=2, out_features=3), rng=0)
    >>> y = layer(torch.zeros(5, 2, 4, dtype=torch.float64))
    >>> y.shape, y.requires_grad
    (torch.Size([5, 3, 4]), True)
    """

    def __init__(
        self,
        filt: Filter,
        params: Mapping[str, Any] | None = None,
        *,
        rng: Any = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if not isinstance(filt, Filter):
            raise TypeError(f"filt is {type(filt).__name__}; expected a filter (EvrefModule takes layers as well)")
        super().__init__(filt, params, rng=rng, dtype=dtype)


class NetworkModule(EvrefModule):
    """A network of evref as a torch.nn.Module. Arguments: :class:`EvrefModule`.

    One call forward and one back for the whole chain: fewer steps between PyTorch and evref than a module per layer.
    """

    def __init__(
        self,
        net: Network,
        params: Mapping[str, Any] | None = None,
        *,
        rng: Any = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if not isinstance(net, Network):
            raise TypeError(f"net is {what_is(net)}; expected a Network (EvrefModule takes layers as well)")
        super().__init__(net, params, rng=rng, dtype=dtype)


def as_torch(module: Module) -> Callable[[Mapping[str, Tensor], Tensor], Tensor]:
    """`module` as a function of its parameters and x, both tensors, with derivatives with respect to both.

    Parameters
    ----------
    module : Module
        A filter, a layer or a network.

    Returns
    -------
    callable
        ``f(params, x)`` with `params` a dict of tensors under evref's names.

    Examples
    --------
    >>> import evref as ev
    >>> filt = ev.EdgeVariant(ev.generators.path(3), order=1)
    >>> f = as_torch(filt)
    >>> phi = torch.ones(1, 1, 1, 7, dtype=torch.float64, requires_grad=True)
    >>> f({"phi": phi}, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)).sum().backward()
    >>> phi.grad.flatten()
    tensor([1., 0., 1., 0., 0., 0., 0.], dtype=torch.float64)
    """
    if not isinstance(module, Module):
        raise TypeError(f"module is {what_is(module)}; expected a filter, a layer or a network of evref")
    key, names = key_of(module), list(module.parameter_shapes())

    def function(params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        if not isinstance(params, Mapping):
            raise TypeError(f"params is {type(params).__name__}; expected a dict of named tensors")
        if params.keys() != set(names):
            raise ValueError(f"params has the names {sorted(params)}; {type(module).__name__} expects {sorted(names)}")
        return run(module, key, names, [params[name] for name in names], x)

    return function
