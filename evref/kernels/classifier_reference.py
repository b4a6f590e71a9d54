r"""The network that the paper trains, as one function of its parameters: the loss on a batch and all its gradients.

An edge-variant layer, ReLU, a dense readout, softmax cross-entropy, with H_fg from eq. (evConv, 9):

    y_f = sum_g H_fg x_g + bias_f,    a_f = relu(y_f),    z_c = sum_f <weight_cf, a_f> + offset_c,
    loss = mean over the batch of -log softmax(z)_label.

Adjoint, with grad_z = (softmax(z) - onehot(label)) / batch, `slope` below:

    grad_weight_cf = sum_batch grad_z_c a_f,          grad_offset_c = sum_batch grad_z_c,
    grad_y_f = [a_f > 0] sum_c weight_cf grad_z_c,    grad_bias_f = sum over batch and nodes of grad_y_f,

and grad_y_f, the cotangent of the filters' output (`v` below), goes through their own adjoint
(:mod:`evref.kernels.reference`).

Shapes: phi (K, F, G, nnz), phi0 (F, G, N) or None, bias (F,) or None, weight (C, F N), offset (C,) or None,
x (batch, G, N), label (batch,). The compiled twin is :mod:`evref.kernels.classifier_compiled`.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from ..graph.pattern import Pattern
from . import learning_reference, reference

Array = np.ndarray
Five = tuple[
    Array, Array | None, Array | None, Array, Array | None
]  # phi, phi0, bias, weight, offset, or what belongs to them
Updated = tuple[tuple[Array, Array, Array] | None, ...]  # new (param, m, v) for each


def loss_and_gradients(graph: Pattern, params: Five, x: Array, label: Array) -> tuple[float, Five]:
    """The loss and the gradients of the five, None where there is no such parameter."""
    return composed(reference, learning_reference, graph, params, x, label)


def adam_step(
    graph: Pattern, params: Five, ms: Five, vs: Five, x: Array, label: Array,
    rate: float, beta1: float, beta2: float, epsilon: float, decay: float, step: int,
) -> tuple[float, Updated]:  # fmt: skip
    """The loss before a step of Adam (:func:`evref.kernels.learning_reference.adam_update`), and what is after it.

    Parameters without moments are not learned. decay: that much of a parameter is added to its gradient.
    """
    value, grads = loss_and_gradients(graph, params, x, label)
    return value, updated(learning_reference, params, grads, ms, vs, rate, beta1, beta2, epsilon, decay, step)


def composed(
    filters: ModuleType, learning: ModuleType, graph: Pattern, params: Five, x: Array, label: Array
) -> tuple[float, Five]:
    """One after another, with the kernels of these modules for filters and for what is around them."""
    phi, phi0, bias, weight, offset = params
    y, saved = filters.ev_forward(graph, phi, phi0, x)
    if bias is not None:
        y += bias[:, None]
    hidden, keep = learning.relu(y)
    flat = hidden.reshape(len(x), -1)
    z = flat.dot(weight.T)
    if offset is not None:
        z += offset
    value, slope = learning.cross_entropy(z, label)
    v = learning.relu_backward(keep, slope.dot(weight).reshape(y.shape))
    grad_phi, grad_phi0, _ = filters.ev_backward(graph, phi, phi0, saved, v, False)
    grad_bias = None if bias is None else v.sum(axis=(0, 2))
    grad_offset = None if offset is None else slope.sum(axis=0)
    return value, (grad_phi, grad_phi0, grad_bias, slope.T.dot(flat), grad_offset)


def updated(
    learning: ModuleType, params: Five, grads: Five, ms: Five, vs: Five,
    rate: float, beta1: float, beta2: float, epsilon: float, decay: float, step: int,
) -> Updated:  # fmt: skip
    """The second half of `adam_step`, with the kernels of `learning`."""
    learned = [i for i, m in enumerate(ms) if m is not None]
    slopes = [grads[i] + decay * params[i] if decay else grads[i] for i in learned]  # type: ignore[operator]
    chosen = ([arrays[i] for i in learned] for arrays in (params, ms, vs))
    p, m, v = chosen
    new = dict(zip(learned, learning.adam_update(p, slopes, m, v, rate, beta1, beta2, epsilon, step), strict=True))
    return tuple(new.get(i) for i in range(len(params)))
