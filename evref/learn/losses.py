"""Losses: one number for a batch of predictions, with its derivatives by hand.

value, tape     = loss.forward(prediction, target)
grad_prediction = loss.backward(tape, grad=1.0)
dvalue          = loss.jvp(prediction, target, dprediction)
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import checks, kernels

Array = np.ndarray


class LossTape(NamedTuple):
    """What one forward pass leaves for its backward pass."""

    loss: str  # name of the loss that wrote it
    slope: Array  # derivative of the value with respect to the prediction


class Loss:
    """Base of the losses. A loss writes `_value_and_gradient` and says which targets it takes."""

    name: ClassVar[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def check_target(self, target: Any, shape: tuple[int, ...], argument: str = "target") -> Array:
        """`target` as an array that fits predictions of `shape`, or an error."""
        raise TypeError(f"{type(self).__name__} defines no check_target")

    def _value_and_gradient(self, prediction: Array, target: Array) -> tuple[Any, Array]:
        """The value, a Python or NumPy number, and its derivative in the shape of the prediction; all is checked."""
        raise TypeError(f"{type(self).__name__} defines no _value_and_gradient")

    def _checked(self, prediction: Any, target: Any, check_finite: bool) -> tuple[Array, Array]:
        prediction = checks.as_floating("prediction", prediction)
        if prediction.size == 0:
            raise ValueError(f"prediction has shape {prediction.shape}; a mean over nothing has no value")
        target = self.check_target(target, prediction.shape)
        if check_finite:
            checks.require_finite("prediction", prediction)
            checks.require_finite("target", target)
        return prediction, target

    def forward(self, prediction: Any, target: Any, *, check_finite: bool = True) -> tuple[float, LossTape]:
        """The value, a Python number, and the tape for `backward`."""
        value, slope = self._value_and_gradient(*self._checked(prediction, target, check_finite))
        return np.asarray(value).item(), LossTape(self.name, slope)

    def backward(self, tape: LossTape, grad: float = 1.0) -> Array:
        """`grad` times the derivative of the value, in the shape of the prediction."""
        if not isinstance(tape, LossTape) or tape.loss != self.name:
            raise TypeError(f"tape is not from the forward pass of {type(self).__name__}: got {type(tape).__name__}")
        return tape.slope * grad

    def jvp(self, prediction: Any, target: Any, dprediction: Any, *, check_finite: bool = True) -> float:
        """Derivative of the value along `dprediction`."""
        prediction, target = self._checked(prediction, target, check_finite)
        dprediction = checks.as_floating("dprediction", dprediction)
        if dprediction.shape != prediction.shape:
            raise ValueError(f"dprediction has shape {dprediction.shape}; prediction has shape {prediction.shape}")
        return np.sum(self._value_and_gradient(prediction, target)[1] * dprediction).item()


class CrossEntropy(Loss):
    """Softmax cross-entropy, the mean over the batch of -log softmax(z)_label.

    Adjoint: grad_z = (softmax(z) - onehot(label)) / batch.

    Shapes
        prediction z (batch, classes) with target (batch,), or one sample: (classes,) with a single label

    Labels are integers 0..classes-1; :func:`encode_labels` turns any others into these.

    >>> loss = CrossEntropy()
    >>> value, tape = loss.forward([[0.0, 0.0]], [1])
    >>> round(value, 6)
    0.693147
    >>> loss.backward(tape)
    array([[ 0.5, -0.5]])
    """

    name = "cross_entropy"

    def check_target(self, target: Any, shape: tuple[int, ...], argument: str = "target") -> Array:
        if len(shape) not in (1, 2):
            raise ValueError(f"prediction has shape {shape}; CrossEntropy expects (batch, classes) or (classes,)")
        labels = checks.as_array(argument, target)
        if labels.dtype.kind not in "iu":
            raise TypeError(
                f"{argument} has dtype {labels.dtype}; expected integer labels (encode_labels makes them from others)"
            )
        if labels.shape != shape[:-1]:
            raise ValueError(f"{argument} has shape {labels.shape}; expected {shape[:-1]}, one label per sample")
        bad = np.flatnonzero((labels < 0) | (labels >= shape[-1]))
        if bad.size:
            first = int(bad[0])
            raise ValueError(
                f"{argument} has the label {labels.reshape(-1)[first]} at index {first}; "
                f"expected 0..{shape[-1] - 1} (encode_labels turns any labels into these)"
            )
        return labels

    def _value_and_gradient(self, prediction: Array, target: Array) -> tuple[Any, Array]:
        logits = prediction.reshape(-1, prediction.shape[-1])  # (batch, classes)
        value, slope = kernels.for_learning(logits.dtype).cross_entropy(logits, target.reshape(-1))
        return value, slope.reshape(prediction.shape)


class MeanSquaredError(Loss):
    """Mean over all entries of (prediction - target)^2.

    Adjoint: grad_prediction = 2 (prediction - target) / size.

    Shapes: prediction and target alike, any.

    >>> loss = MeanSquaredError()
    >>> value, tape = loss.forward([1.0, 3.0], [1.0, 1.0])
    >>> value
    2.0
    >>> loss.backward(tape)
    array([0., 2.])
    """

    name = "mean_squared_error"

    def check_target(self, target: Any, shape: tuple[int, ...], argument: str = "target") -> Array:
        if len(shape) == 1:  # a Series of one sample's outputs: the loss does not know whose names these are
            checks.refuse_labelled(argument, target)
        values = checks.as_floating(argument, target)
        if values.shape != shape:
            raise ValueError(f"{argument} has shape {values.shape}; expected {shape}, that of the prediction")
        return values

    def _value_and_gradient(self, prediction: Array, target: Array) -> tuple[Any, Array]:
        # The target is data: it must not widen a float32 computation.
        difference = prediction - target.astype(prediction.dtype, copy=False)
        return np.mean(difference * difference), 2 * difference / difference.size


def encode_labels(labels: Any) -> tuple[Array, Array]:
    """Codes 0..C-1 and the sorted array of C classes, with `classes[codes]` the labels again.

    Parameters
    ----------
    labels : sequence, ndarray, or a column of a DataFrame
        Numbers, bools or strings, all of one kind. Only classes that occur count, also of a categorical column.

    Returns
    -------
    codes : ndarray of int, one per label
    classes : ndarray, of numbers, bools or strings
        To be kept with a network, give them to :class:`Network`.

    Raises
    ------
    ValueError
        Labels are missing (None, NaN, pandas' NA) or infinite; or there is more than one axis.
    TypeError
        Labels of several kinds, or of another kind.

    Examples
    --------
    >>> codes, classes = encode_labels(["poe", "austen", "poe"])
    >>> codes
    array([1, 0, 1])
    >>> classes
    array(['austen', 'poe'], dtype='<U6')
    """
    classes, codes = np.unique(as_classes("labels", labels), return_inverse=True)
    return codes, classes


KINDS: dict[str, tuple[type, ...]] = {
    "strings": (str,),
    "bools": (bool, np.bool_),
    "numbers": (int, float, np.integer, np.floating),  # after bools, which are integers to Python
}


def as_classes(argument: str, labels: Any) -> Array:
    """One-dimensional array of numbers, bools or strings; of a list or of objects, each one is looked at."""
    # NumPy would make strings of a number among strings, and of what stands for a missing one.
    array = checks.as_array(argument, labels, None if hasattr(labels, "dtype") else object)
    if array.ndim != 1:
        raise ValueError(f"{argument} has shape {array.shape}; expected one dimension, one label per sample")
    if array.dtype.kind in "SU":
        return array
    if array.dtype.kind in "biufcmM":
        missing = np.flatnonzero(~np.isfinite(array))
    else:
        array = array.astype(object)
        missing = np.flatnonzero([_is_missing(value) for value in array])
        _require_one_kind(argument, array, np.delete(np.arange(array.size), missing))
    if missing.size:
        raise ValueError(
            f"{argument} has {missing.size} value(s) that are missing or not finite, the first {array[missing[0]]} at "
            f"index {missing[0]}; expected one class per sample"
        )
    return np.array(array.tolist()) if array.dtype == object else array


def _require_one_kind(argument: str, array: Array, positions: Array) -> None:
    kinds = [_kind(array[i]) for i in positions]
    other = next((i for i, kind in zip(positions, kinds, strict=True) if kind is None or kind != kinds[0]), None)
    if other is not None:
        raise TypeError(
            f"{argument} has dtype object, with {array[other]!r} ({type(array[other]).__name__}) at index {other}; "
            "expected numbers, bools or strings, all of one kind"
        )


def _is_missing(value: Any) -> bool:
    """None, infinite, or nothing that equals itself: NaN, NaT, pandas' NA (whose comparisons have no truth value)."""
    try:
        return value is None or bool(value != value) or value in (np.inf, -np.inf)
    except (TypeError, ValueError):
        return True


def _kind(value: Any) -> str | None:
    return next((kind for kind, types in KINDS.items() if isinstance(value, types)), None)


def accuracy(prediction: Any, target: Any) -> float:
    """Share of samples whose largest logit is at the label; of equal logits the first counts.

    >>> accuracy([[2.0, 1.0], [0.0, 3.0]], [0, 0])
    0.5
    """
    prediction = checks.as_floating("prediction", prediction)
    target = CrossEntropy().check_target(target, prediction.shape)
    return float(np.mean(prediction.argmax(axis=-1) == target))
