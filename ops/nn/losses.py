"""Losses: how far predictions are from what they should be. All have gradients of every order.

`reduction` is "mean" (over all elements left), "sum" or "none".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interp import DTypeError, OperatorError, ShapeError, Tensor
from interp.dtypes import is_floating

from ..activation import logsigmoid
from ..arithmetic import add, multiply, negative, safe_multiply, square, subtract
from ..axes import as_handle, normal_axis
from ..comparison import abs, greater, less_equal, maximum, where
from ..exponential import log, log1p
from ..reduction import mean, sum
from .picking import indexing_one_hot
from .softmax import log_softmax

__all__ = [
    "binary_cross_entropy",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "square_loss",
]

_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"mean": mean, "sum": sum, "none": lambda loss: loss}


def _reduced(loss: Tensor, reduction: str, name: str) -> Tensor:
    try:
        return _REDUCTIONS[reduction](loss)
    except KeyError:
        raise OperatorError(f"{name}: reduction is one of {', '.join(_REDUCTIONS)}, not {reduction!r}") from None


def _lost(gained: Tensor, reduction: str, name: str) -> Tensor:
    """Minus what was gained, reduced: that comes first, for it leaves less to negate."""
    return negative(_reduced(gained, reduction, name))


def _pair(pred: Any, label: Any, name: str) -> tuple[Tensor, Tensor]:
    """Predictions and labels of one shape. Raises ShapeError."""
    pred, label = as_handle(pred), as_handle(label)
    if pred.shape != label.shape:
        raise ShapeError(f"{name}: predictions of shape {pred.shape}, labels of shape {label.shape}")
    return pred, label


def _class_axis(pred: Tensor, axis: int | None, name: str) -> int:
    if axis is None:
        axis = min(1, pred.ndim - 1)
    return normal_axis(axis, pred.ndim, name)


def _at_labels(x: Tensor, label: Tensor, axis: int, name: str) -> Tensor:
    """The element of `x` along `axis` that each label names."""
    wanted = x.shape[:axis] + x.shape[axis + 1 :]
    if label.shape != wanted:
        raise ShapeError(
            f"{name}: predictions of shape {x.shape} with classes along axis {axis} take integer labels of shape "
            f"{wanted}, or probabilities of their own shape, not {label.shape}"
        )
    return indexing_one_hot(x, label, axis)


def cross_entropy(
    pred: Any,
    label: Any,
    axis: int | None = None,
    with_logits: bool = True,
    label_smooth: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """-log of the probability that `pred` gives to the right class.

    `pred` has the classes along `axis`, by default the second (the only one, where there is one); they are logits, or
    probabilities when not `with_logits`. `label` has integers, in the shape of `pred` without the axis, or floats, a
    probability for each class, in its shape. `label_smooth` moves this much of each label's weight evenly to all
    classes. Dtype: that of `pred`.
    Raises ShapeError, DTypeError, OperatorError, and IndexOutOfRangeError for a label that is no class.

    >>> import interp
    >>> cross_entropy(interp.tensor([[0.0, 0.0]]), interp.tensor([1]))
    tensor(0.6931472)
    """
    pred, label = as_handle(pred), as_handle(label)
    axis = _class_axis(pred, axis, "cross_entropy")
    if label.dtype.kind not in "iuf":
        raise DTypeError(f"cross_entropy: labels are integers or probabilities, not {label.dtype}")
    sparse = label.dtype.kind != "f"
    if sparse and not with_logits and not label_smooth:
        return _lost(log(_at_labels(pred, label, axis, "cross_entropy")), reduction, "cross_entropy")
    logs = log_softmax(pred, axis) if with_logits else log(pred)
    if sparse:
        gained = _at_labels(logs, label, axis, "cross_entropy")
    else:
        pred, label = _pair(pred, label, "cross_entropy")
        gained = sum(safe_multiply(label, logs), axis=axis)
    if label_smooth:
        evenly = mean(logs, axis=axis)
        gained = add(multiply(gained, 1.0 - label_smooth), multiply(evenly, float(label_smooth)))
    return _lost(gained, reduction, "cross_entropy")


def nll_loss(logp: Any, label: Any, axis: int | None = None, reduction: str = "mean") -> Tensor:
    """Minus the log-probability that `logp` has for the class `label`: `cross_entropy` after a `log_softmax`.

    Shapes and errors as there, with integer labels.

    >>> import interp
    >>> nll_loss(interp.tensor([[-1.0, -2.0]]), interp.tensor([1]))
    tensor(2.)
    """
    logp, label = as_handle(logp), as_handle(label)
    axis = _class_axis(logp, axis, "nll_loss")
    return _lost(_at_labels(logp, label, axis, "nll_loss"), reduction, "nll_loss")


def binary_cross_entropy(pred: Any, label: Any, with_logits: bool = True, reduction: str = "mean") -> Tensor:
    """-(label * log(p) + (1 - label) * log(1 - p)), where `p` is `pred`, or its sigmoid when `with_logits`.

    `label` has the shape of `pred`. With logits it is accurate however large they are. Raises ShapeError,
    OperatorError.

    >>> import interp
    >>> binary_cross_entropy(interp.tensor([0.0, -100.0]), interp.tensor([1.0, 1.0]), reduction="none")
    tensor([  0.6931472, 100.       ])
    """
    pred, label = _pair(pred, label, "binary_cross_entropy")
    if not is_floating(label.dtype):
        label = multiply(label, 1.0)
    rest = subtract(1.0, label)
    if with_logits:
        yes, no = logsigmoid(pred), logsigmoid(negative(pred))
    else:
        yes, no = log(pred), log1p(negative(pred))
    gained = add(safe_multiply(label, yes), safe_multiply(rest, no))
    return _lost(gained, reduction, "binary_cross_entropy")


def square_loss(pred: Any, label: Any, reduction: str = "mean") -> Tensor:
    """(pred - label)**2, for arrays of one shape. Raises ShapeError, OperatorError.

    >>> import interp
    >>> square_loss(interp.tensor([1.0, 3.0]), interp.tensor([0.0, 0.0]))
    tensor(5.)
    """
    pred, label = _pair(pred, label, "square_loss")
    return _reduced(square(subtract(pred, label)), reduction, "square_loss")


mse_loss = square_loss


def l1_loss(pred: Any, label: Any, reduction: str = "mean") -> Tensor:
    """abs(pred - label), for arrays of one shape. Raises ShapeError, OperatorError.

    >>> import interp
    >>> l1_loss(interp.tensor([1.0, -3.0]), interp.tensor([0.0, 0.0]))
    tensor(2.)
    """
    pred, label = _pair(pred, label, "l1_loss")
    return _reduced(abs(subtract(pred, label)), reduction, "l1_loss")


def huber_loss(pred: Any, label: Any, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """Half the squared difference where that is at most `delta`, linear beyond. Raises ShapeError, OperatorError.

    Source: Huber, "Robust estimation of a location parameter", 1964.

    >>> import interp
    >>> huber_loss(interp.tensor([0.5, 3.0]), interp.tensor([0.0, 0.0]), reduction="none")
    tensor([0.125, 2.5  ])
    """
    pred, label = _pair(pred, label, "huber_loss")
    distance = abs(subtract(pred, label))
    near = multiply(0.5, square(distance))
    far = multiply(float(delta), subtract(distance, 0.5 * delta))
    return _reduced(where(less_equal(distance, float(delta)), near, far), reduction, "huber_loss")


def hinge_loss(pred: Any, label: Any, norm: str = "L1", reduction: str = "mean") -> Tensor:
    """max(0, 1 - pred * label), summed over the last axis; with norm "L2", its square. Labels are 1 and -1.

    `pred` and `label` have one shape. Raises ShapeError, OperatorError.

    >>> import interp
    >>> hinge_loss(interp.tensor([[0.5, 2.0]]), interp.tensor([[1, -1]]))
    tensor(3.5)
    """
    pred, label = _pair(pred, label, "hinge_loss")
    if norm not in ("L1", "L2"):
        raise OperatorError(f'hinge_loss: norm is "L1" or "L2", not {norm!r}')
    loss = maximum(subtract(1.0, multiply(pred, label)), 0.0)
    if norm == "L2":
        loss = square(loss)
    return _reduced(sum(loss, axis=-1) if pred.ndim else loss, reduction, "hinge_loss")


def kl_div(logp: Any, target: Any, reduction: str = "mean") -> Tensor:
    """target * (log(target) - logp), the divergence of probabilities `target` from log-probabilities `logp`.

    A target of zero contributes nothing. Raises ShapeError, OperatorError.
    Source: Kullback and Leibler, "On information and sufficiency", 1951.

    >>> import interp
    >>> kl_div(interp.tensor([-1.0, -2.0]), interp.tensor([1.0, 0.0]), reduction="sum")
    tensor(1.)
    """
    logp, target = _pair(logp, target, "kl_div")
    log_target = log(where(greater(target, 0.0), target, 1.0))
    return _reduced(safe_multiply(target, subtract(log_target, logp)), reduction, "kl_div")
