"""What a training step does around its filters, in NumPy: softmax cross-entropy, ReLU, Adam.

The compiled twin is :mod:`evref.kernels.learning_compiled`. Complex numbers pass through without conjugation, ordered
by their real part: the complex-step check differentiates these functions.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def cross_entropy(z: Array, label: Array) -> tuple[float, Array]:
    """Mean over the batch of -log softmax(z)_label, and its derivative (softmax(z) - onehot(label)) / batch.

    z is (batch, classes), label (batch,) holds integers 0..classes-1 (nobody checks here). With t the largest logit,
    log softmax(z) = (z - t) - log sum_c exp(z_c - t), where no exponential overflows.
    """
    sample = np.arange(len(z))
    shifted = z - z.real.max(axis=1, keepdims=True)
    slope = np.exp(shifted)
    total = slope.sum(axis=1)
    value = np.log(total) - shifted[sample, label]
    slope /= total[:, None]
    slope[sample, label] -= 1
    slope /= len(z)
    return (value.sum() / len(z)).item(), slope


def relu(x: Array) -> tuple[Array, Array]:
    """y = max(x, 0) and its derivative as a mask, x > 0. A NaN stays a NaN and has the derivative 1."""
    keep = ~(x.real <= 0)  # not `x > 0`, which a NaN would fail
    y = np.where(keep, x, 0) if np.iscomplexobj(x) else np.maximum(x, 0)  # the same; the latter ten times faster
    return y, keep


def relu_backward(keep: Array, grad_y: Array) -> Array:
    """grad_x = grad_y where x > 0, else 0."""
    return keep * grad_y


def adam_update(
    params: list[Array], grads: list[Array], ms: list[Array], vs: list[Array],
    rate: float, beta1: float, beta2: float, epsilon: float, step: int,
) -> list[tuple[Array, Array, Array]]:  # fmt: skip
    """One step of Adam (Kingma & Ba 2015, algorithm 1), `step` counted from 1; new (param, m, v) for each array.

    m <- beta1 m + (1 - beta1) g,           v <- beta2 v + (1 - beta2) g^2,
    param <- param - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
    """
    size = rate / (1 - beta1**step)
    root = (1 - beta2**step) ** 0.5
    new = []
    for param, grad, m, v in zip(params, grads, ms, vs, strict=True):
        m = beta1 * m + (1 - beta1) * grad
        v = beta2 * v + (1 - beta2) * grad * grad
        new.append((param - size * m / (np.sqrt(v) / root + epsilon), m, v))
    return new
