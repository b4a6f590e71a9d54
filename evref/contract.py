"""The contract that filters, layers and networks share.

A module is *stateless*: shapes (and a graph) live in the object, numbers live in a plain dict of named arrays.

    params         = module.init(rng=0)
    y, tape        = module.forward(params, x)              # tape: what backward needs, opaque
    grads, grad_x  = module.backward(params, tape, grad_y)  # vector-Jacobian product
    dy             = module.jvp(params, x, dparams, dx)     # Jacobian-vector product

and for all tangents and cotangents

    <dy, grad_y> = sum_p <dparams[p], grads[p]> + <dx, grad_x>

which is the dot test (:func:`evref.verify.gradcheck.dot_test`).

This file holds the public entry points: what comes in is checked, brought to one batch shape and one dtype, and goes
out in the shape it came in. A family of filters or layers writes only the mathematics, as the three hooks `_forward`,
`_backward`, `_jvp`, and says the shapes of its parameters. A fourth, `_parameter_gradients`, is there to be overridden
where `_backward` can be had for less without grad_x, which training does not read.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from hashlib import sha256
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from . import checks

Parameters = dict[str, np.ndarray]


class Tape(NamedTuple):
    """What one forward pass leaves for its backward pass."""

    signature: str  # of the module that wrote it
    saved: Any  # the family's own
    x_shape: tuple[int, ...]  # as the caller gave it
    y_shape: tuple[int, ...]  # as the caller got it
    dtype: np.dtype  # of the computation
    x_dtype: np.dtype  # of the caller's x: grad_x comes back in it


class NotRepresentable(ValueError):
    """A map that does not exist for these parameters; the message says which condition failed."""


class Module:
    """Base of filters, layers and networks.

    Constructor arguments are kept as attributes under their own names (scikit-learn's rule): `config` reads them back,
    and with them a file can rebuild the object.
    """

    name: ClassVar[str]
    graph: Any = None

    # Where every number of x that is not finite reaches the output, and every one of grad_y the gradient of x: those
    # parameters, perhaps none, of which the same is true. Then it is enough to look at the results. None: not so.
    _plain_to_see: tuple[str, ...] | None = None

    # ---- shapes ----------------------------------------------------------------------------------------------------
    @property
    def in_shape(self) -> tuple[int, ...] | None:
        """Shape of one sample, e.g. (features, nodes); None where any shape will do."""
        return None

    @property
    def out_shape(self) -> tuple[int, ...] | None:
        return self.in_shape

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every learnable array."""
        return {}

    @property
    def n_parameters(self) -> int:
        return sum(prod(shape) for shape in self.parameter_shapes().values())

    def n_operations(self, batch: int = 1) -> int:
        """Multiply-adds of one forward pass over `batch` samples."""
        return 0

    # ---- identity --------------------------------------------------------------------------------------------------
    def config(self) -> dict[str, Any]:
        """Constructor arguments other than the graph."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names if name != "graph"}

    @property
    def signature(self) -> str:
        """Names the module, the support it lives on and its weights: tapes and files are checked against it."""
        cached = self.__dict__.get("_signature")
        if cached is None:
            arguments = ", ".join(f"{key}={_described(value)}" for key, value in self.config().items())
            g = self.graph
            on = "" if g is None else f" on graph {g.fingerprint} with weights {g.weights_fingerprint}"
            cached = self.__dict__["_signature"] = f"{type(self).__name__}({arguments}){on}"
        return cached

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.config().items())
        first = [] if self.graph is None else [repr(self.graph)]
        return f"{type(self).__name__}({', '.join(first + ([arguments] if arguments else []))})"

    # ---- parameters ------------------------------------------------------------------------------------------------
    def init(self, rng: Any = None, *, dtype: Any = np.float64) -> Parameters:
        """Fresh parameters: every array uniform in ±s, with s the family's `_init_scale`."""
        rng = checks.as_rng(rng)
        dtype = checks.as_dtype("dtype", dtype)
        params = {}
        for name, shape in self.parameter_shapes().items():
            s = self._init_scale(name)
            params[name] = rng.uniform(-s, s, shape).astype(dtype)
        return params

    def _init_scale(self, name: str) -> float:
        raise TypeError(f"{type(self).__name__} has parameters but no _init_scale")

    def _checked_parameters(
        self,
        params: Mapping[str, Any],
        argument: str = "params",
        check_finite: bool = True,
        unseen: tuple[str, ...] = (),
    ) -> Parameters:
        """`params` as arrays of the right shapes, or an error that names the parameter; `unseen` may hold anything."""
        if not isinstance(params, Mapping):
            raise TypeError(f"{argument} is {type(params).__name__}; expected a dict of named arrays")
        shapes = self.__dict__.get("_parameter_shapes")
        if shapes is None:
            shapes = self.__dict__["_parameter_shapes"] = self.parameter_shapes()
        if params.keys() != shapes.keys():
            raise ValueError(
                f"{argument} has the names {sorted(params, key=str)}; {type(self).__name__} expects {sorted(shapes)}"
            )
        arrays = {}
        for name, shape in shapes.items():
            array = params[name]
            if not checks.is_floating(array):
                array = checks.as_floating(f"{argument}[{name!r}]", array)
            if array.shape != shape:
                raise ValueError(f"{argument}[{name!r}] has shape {array.shape}; expected {shape}")
            if check_finite and name not in unseen and not checks.is_finite(array):
                checks.require_finite(f"{argument}[{name!r}]", array)
            arrays[name] = array
        return arrays

    def _check_results(
        self, results: Mapping[str, np.ndarray], params: Parameters, argument: str, signal: np.ndarray
    ) -> None:
        """Reads the inputs that `_plain_to_see` left unread if the first result is not finite; says what overflowed.

        A look at the gradients of the parameters costs 1.00 to 1.11 times the two passes of an edge-variant filter; the
        most on large graphs with a single sample.
        """
        for i, (name, result) in enumerate(results.items()):
            noted = checks.was_noted_finite(result) if i == 0 else False
            if result.size and (noted or checks.is_finite(result)):
                continue
            if i == 0 and self._plain_to_see is not None:
                for unread in self._plain_to_see:
                    if unread in params:
                        checks.require_finite(f"params[{unread!r}]", params[unread])
                checks.require_finite(argument, signal)
            if result.size:
                self._warn_of_overflow(name, result)

    def _warn_of_overflow(self, name: str, result: np.ndarray) -> None:
        bad = np.argwhere(~np.isfinite(result))
        index = tuple(int(i) for i in bad[0])
        warnings.warn(
            f"{type(self).__name__}: {name} has {len(bad)} value(s) that are not finite, the first {result[index]} at "
            f"index {index}, although all arguments are finite: numbers on the way are too large for {result.dtype}",
            RuntimeWarning,
            stacklevel=4,  # who called forward, backward or jvp
        )

    # ---- entry points ----------------------------------------------------------------------------------------------
    def _by_name(self, argument: str, signal: Any, core: tuple[int, ...] | None) -> Any:
        """A table, such as a DataFrame, as an array, its names in the order of the nodes; all else as it is.

        Its rows are samples (shape `core`) of one feature.
        """
        if not checks.is_labelled(signal):
            return signal
        kind = type(signal).__name__
        if self.graph is None or (core is not None and len(core) != 2):
            raise TypeError(
                f"{argument} is a {kind}, whose names are those of nodes; {type(self).__name__} has none here to hold "
                f"them against; expected an array ({argument}.to_numpy())"
            )
        if core is not None and core[0] != 1:
            raise ValueError(
                f"{argument} is a {kind}, which has one feature; {type(self).__name__} expects {core[0]} "
                "(np.stack([graph.align(table) for table in tables], axis=1) makes an array of several)"
            )
        values = self.graph.align(signal, argument)
        return values[:, np.newaxis] if values.ndim == 2 else values

    def _target_by_name(self, argument: str, target: Any) -> Any:
        """A table of what the module shall give, where that is a signal; labels and the like as they are."""
        core = self.out_shape
        return target if core is None or len(core) != 2 else self._by_name(argument, target, core)

    def _as_batch(self, argument: str, x: Any, check_finite: bool = True) -> np.ndarray:
        """`x` with a batch axis in front; (features, nodes) and, for one feature, (nodes,) are one sample."""
        x = checks.as_floating(argument, x)
        if check_finite:
            checks.require_finite(argument, x)
        core = self.in_shape
        if core is None:
            return x
        if x.ndim == len(core) + 1 and x.shape[1:] == core:
            return x
        if x.shape == core:
            return x[np.newaxis]
        if len(core) == 2 and core[0] == 1 and x.shape == core[1:]:
            return x.reshape(1, *core)
        raise ValueError(self._shape_complaint(argument, x.shape, core))

    def _shape_complaint(self, argument: str, shape: tuple[int, ...], core: tuple[int, ...]) -> str:
        expected = (
            f"(batch, {', '.join(map(str, core))}) or ({', '.join(map(str, core))}{',' if len(core) == 1 else ''})"
        )
        text = f"{argument} has shape {shape}; {type(self).__name__} expects {expected}"
        if len(core) == 2:
            text += f" with {core[0]} feature(s) and {core[1]} nodes"
        return text + shape_hint(argument, shape, core)

    def _out_shape_for(self, x_shape: tuple[int, ...], y: np.ndarray) -> tuple[int, ...]:
        """Shape in which the caller gets the batch `y` back: in kind with x."""
        core = self.in_shape
        if core is None or len(x_shape) == len(core) + 1:
            return y.shape
        if len(x_shape) < len(core) and y.ndim == 3 and y.shape[1] == 1:
            return y.shape[2:]
        return y.shape[1:]

    def forward(self, params: Mapping[str, Any], x: Any, *, check_finite: bool = True) -> tuple[np.ndarray, Tape]:
        """Output and the tape for `backward`. The output comes in the kind of `x`.

        A DataFrame, with a row per sample and a column per node, is read by the names of the nodes
        (:meth:`evref.Graph.align`) and stands for an array (samples, 1, nodes); a Series for one of shape (nodes,).
        """
        if not isinstance(x, np.ndarray):
            x = self._by_name("x", x, self.in_shape)
        unseen = self._plain_to_see
        params = self._checked_parameters(params, check_finite=check_finite, unseen=unseen or ())
        batch = self._as_batch("x", x, check_finite and unseen is None)
        cast, dtype = one_dtype(params, batch.dtype)
        y, saved = self._forward(cast, batch.astype(dtype, copy=False))
        x_shape = np.shape(x)
        if check_finite:
            self._check_results({"y": y}, params, "x", batch.reshape(x_shape))
        y_shape = self._out_shape_for(x_shape, y)
        return y.reshape(y_shape), Tape(self.signature, saved, x_shape, y_shape, dtype, batch.dtype)

    def __call__(self, params: Mapping[str, Any], x: Any, *, check_finite: bool = True) -> np.ndarray:
        """The output of `forward` alone, for who needs no gradient."""
        return self.forward(params, x, check_finite=check_finite)[0]

    def backward(
        self, params: Mapping[str, Any], tape: Tape, grad_y: Any, *, check_finite: bool = True
    ) -> tuple[Parameters, np.ndarray]:
        """Gradients of <grad_y, y> with respect to every parameter and to x, in their own shapes and dtypes."""
        if not isinstance(tape, Tape):
            raise TypeError(f"tape is {type(tape).__name__}; expected the tape that forward returned")
        if tape.signature != self.signature:
            raise ValueError(f"tape was written by {tape.signature}; this is {self.signature}")
        unseen = self._plain_to_see
        params = self._checked_parameters(params, check_finite=check_finite, unseen=unseen or ())
        if not isinstance(grad_y, np.ndarray):
            grad_y = self._by_name("grad_y", grad_y, self.out_shape)
        grad_y = checks.as_floating("grad_y", grad_y)
        if grad_y.shape != tape.y_shape:
            raise ValueError(f"grad_y has shape {grad_y.shape}; the output it belongs to has shape {tape.y_shape}")
        if check_finite and unseen is None:
            checks.require_finite("grad_y", grad_y)
        batch = self._cotangent_batch(tape, grad_y)
        cast, _ = one_dtype(params, tape.dtype)
        grads, grad_x = self._backward(cast, tape.saved, batch.astype(tape.dtype, copy=False))
        if check_finite:
            results = {"grad_x": grad_x} | {f"grads[{name!r}]": grad for name, grad in grads.items()}
            self._check_results(results, params, "grad_y", grad_y)
        grads = {name: grads[name].astype(params[name].dtype, copy=False) for name in params}
        return grads, grad_x.reshape(tape.x_shape).astype(tape.x_dtype, copy=False)

    def _cotangent_batch(self, tape: Tape, grad_y: np.ndarray) -> np.ndarray:
        """`grad_y` with a batch axis in front, as `_backward` and `_parameter_gradients` take it."""
        if self.in_shape is None or len(tape.x_shape) == len(self.in_shape) + 1:
            return grad_y
        return grad_y.reshape(1, *(grad_y.shape if self.out_shape is None else self.out_shape))

    def jvp(
        self, params: Mapping[str, Any], x: Any, dparams: Mapping[str, Any], dx: Any, *, check_finite: bool = True
    ) -> np.ndarray:
        """Directional derivative of the output along (dparams, dx)."""
        params = self._checked_parameters(params, check_finite=check_finite)
        dparams = self._checked_parameters(dparams, "dparams", check_finite)
        x, dx = self._by_name("x", x, self.in_shape), self._by_name("dx", dx, self.in_shape)
        batch, dbatch = self._as_batch("x", x, check_finite), self._as_batch("dx", dx, check_finite)
        if np.shape(x) != np.shape(dx):
            raise ValueError(f"dx has shape {np.shape(dx)}; x has shape {np.shape(x)}, expected the same")
        dtype = np.result_type(batch, dbatch, *params.values(), *dparams.values())
        dy = self._jvp(
            _cast(params, dtype),
            batch.astype(dtype, copy=False),
            _cast(dparams, dtype),
            dbatch.astype(dtype, copy=False),
        )
        if check_finite:
            self._check_results({"dy": dy}, params, "x", batch)
        return dy.reshape(self._out_shape_for(np.shape(x), dy))

    # ---- the mathematics -------------------------------------------------------------------------------------------
    def _forward(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        raise TypeError(f"{type(self).__name__} defines no _forward")

    def _backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        raise TypeError(f"{type(self).__name__} defines no _backward")

    def _parameter_gradients(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> Parameters:
        """`_backward` without grad_x, which nobody reads in training; override it where leaving it out saves work."""
        return self._backward(params, saved, grad_y)[0]

    def _jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        raise TypeError(f"{type(self).__name__} defines no _jvp")


def shape_hint(argument: str, shape: tuple[int, ...], core: tuple[int, ...]) -> str:
    """The end of an error message: what a signal of this shape, where samples have the shape `core`, may have been.

    >>> shape_hint("x", (100, 50), (1, 50))
    '; 100 samples of one feature are x[:, None, :], with shape (100, 1, 50)'
    """
    if len(core) != 2 or not shape:
        return ""
    features, nodes = core
    if features == 1 and len(shape) == 2 and shape[1] == nodes:
        return f"; {shape[0]} samples of one feature are {argument}[:, None, :], with shape ({shape[0]}, 1, {nodes})"
    if shape[-1] != nodes and nodes in shape:
        return f"; axis {shape.index(nodes)} has {nodes} entries: are the axes swapped? nodes come last"
    return ""


def _described(value: Any) -> str:
    """repr, but arrays by shape and content: NumPy's repr leaves the middle of a long array out."""
    if isinstance(value, np.ndarray):
        digest = sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        return f"<{value.dtype} {value.shape} {digest}>"
    return repr(value)


def one_dtype(params: Parameters, dtype: np.dtype) -> tuple[Parameters, np.dtype]:
    """The dtype of the computation, and the parameters in it; usually there is nothing to do."""
    if all(array.dtype == dtype for array in params.values()):
        return params, dtype
    dtype = np.result_type(dtype, *params.values())
    return _cast(params, dtype), dtype


def _cast(params: Parameters, dtype: np.dtype) -> Parameters:
    return {name: array.astype(dtype, copy=False) for name, array in params.items()}
