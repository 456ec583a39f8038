"""`Grad` scopes and the `GradManager`, in MegEngine's manner: operate on handles, ask for gradients at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from interp import GradError, Tensor, apply, read
from interp.dispatch import Handle
from interp.tensor import from_value

from .grad_operators import AttachGrad, GradBackward, IsAttachedTo
from .grad_transformation import GradTransformation
from .gradient import value_of
from .tape import GradKey

__all__ = ["Grad", "GradManager"]


class Grad:
    """A scope in which operators are recorded for one backward pass.

    `wrt(x, callback=f)` asks for the gradient of a handle, `g(y, dy)` runs the backward pass, in which `f` gets a
    Tensor of the shape and dtype of `x`. A tensor that `y` does not depend on gets no call.

    >>> import interp
    >>> x = interp.tensor([1.0, 2.0])
    >>> with Grad() as g:
    ...     _ = g.wrt(x, callback=print)
    ...     y = x * x
    ...     g(y, interp.tensor([1.0, 1.0]))
    tensor([2., 4.])
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.key: GradKey | None = None
        self._layer: GradTransformation | None = None

    def __enter__(self) -> Grad:
        if self._layer is not None:
            raise GradError("this Grad scope is open already; make another to nest")
        self.key = GradKey(self.name)
        self._layer = GradTransformation(self.key)
        self._layer.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        layer, self._layer = self._layer, None
        if layer is not None:
            layer.__exit__(*exc)

    def wrt(self, *tensors: Tensor, callback: Callable[[Tensor], object] | None = None) -> Grad:
        """Ask for the gradients of handles; each complete gradient is given to `callback` as a Tensor.

        Raises GradError for a leaf asked for before, for integers, and outside of the scope.
        """
        key = self._open_key()
        for x in tensors:
            if not isinstance(x, Tensor):
                raise GradError(f"Grad.wrt takes Tensors, not {type(x).__name__}; make one with tensor(...)")
            x._rebind(apply(AttachGrad(key), read(x), _as_receiver(callback))[0])
        return self

    def is_attached_to(self, x: Tensor) -> bool:
        """Whether gradients are asked of `x` here, or of something it was computed from."""
        return bool(apply(IsAttachedTo(self._open_key()), read(x))[0])

    def __call__(self, ys: Any, dys: Any) -> None:
        """Run the backward pass from outputs `ys` with their gradients `dys`: a Tensor each, or sequences.

        Raises GradError the second time, and for gradients of another shape or dtype.
        """
        key = self._open_key()
        outputs = [ys] if isinstance(ys, Handle) else list(ys)
        cotangents = _as_list(dys)
        if len(outputs) != len(cotangents):
            raise GradError(f"{len(outputs)} outputs need {len(outputs)} gradients, not {len(cotangents)}")
        values = [read(y) for y in outputs]
        values += [None if dy is None else value_of(dy) for dy in cotangents]
        apply(GradBackward(key), *values)

    def _open_key(self) -> GradKey:
        if self._layer is None or self.key is None:
            raise GradError("the Grad scope is not open; use `with Grad() as g:`")
        if not self.key.live:
            raise GradError(f"{self.key!r}: the backward pass was asked for already; open another scope")
        return self.key


def _as_list(gradients: Any) -> list[Any]:
    """One gradient (None: none came), or a sequence of them, as a list."""
    return list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]


def _as_receiver(callback: Callable[[Tensor], object] | None) -> Callable[[Any], object] | None:
    """The callback as the tape calls it: with a value."""
    if callback is None:
        return None
    return lambda gradient: callback(from_value(gradient))


class GradManager:
    """Attach handles once, record again and again; gradients add up in each handle's `.grad`.

    >>> import interp, ops
    >>> w = interp.tensor([2.0])
    >>> gm = GradManager().attach([w])
    >>> with gm:
    ...     gm.backward(ops.sum(w * w))
    >>> w.grad
    tensor([4.])
    """

    def __init__(self) -> None:
        self._attached: dict[int, tuple[Tensor, list[Callable[[Tensor, Tensor], Tensor | None]]]] = {}
        self._grad: Grad | None = None
        self._pending: dict[int, tuple[Tensor, Tensor]] = {}

    def attach(
        self, tensors: Tensor | Iterable[Tensor], callbacks: Any = None
    ) -> GradManager:
        """Ask for the gradients of handles in every later recording, and in the one in progress.

        `callbacks`, a function or several, each take `(tensor, gradient)` and may return another gradient.
        Raises GradError for what is not a floating Tensor.
        """
        handles = [tensors] if isinstance(tensors, Handle) else list(tensors)
        functions = [] if callbacks is None else list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
        for x in handles:
            if not isinstance(x, Tensor):
                raise GradError(f"GradManager.attach takes Tensors, not {type(x).__name__}")
            known = self._attached.get(id(x))
            if known is None:
                self._attached[id(x)] = (x, list(functions))
                if self._grad is not None:
                    self._ask(x)
            else:
                known[1].extend(functions)
        return self

    def attached_tensors(self) -> list[Tensor]:
        """The handles whose gradients are asked for."""
        return [x for x, _ in self._attached.values()]

    def record(self) -> GradManager:
        """Start recording. Raises GradError while a recording is in progress."""
        if self._grad is not None:
            raise GradError("this GradManager is recording already; call backward() or release() first")
        grad = Grad("GradManager")
        grad.__enter__()
        self._grad = grad
        try:
            for x, _ in self._attached.values():
                self._ask(x)
        except BaseException:
            self._grad = None
            grad.__exit__(GradError, None, None)
            raise
        return self

    def _ask(self, x: Tensor) -> None:
        assert self._grad is not None
        key = id(x)

        def receive(gradient: Tensor) -> None:
            self._pending[key] = (x, gradient)

        self._grad.wrt(x, callback=receive)

    def backward(self, y: Tensor | Sequence[Tensor] | None = None, dy: Any = None) -> None:
        """Run the backward pass from `y` (gradient `dy`; ones when it is None), add to `.grad`, stop recording.

        Raises GradError when nothing is being recorded, or `y` needs a `dy`.
        """
        grad = self._grad
        if grad is None:
            raise GradError(
                "nothing is being recorded: call backward() within `with gm:`, and once (record() starts anew)"
            )
        ys = [] if y is None else [y] if isinstance(y, Handle) else list(y)
        if dy is None:
            dys = [_ones_like(one) for one in ys]
        else:
            dys = _as_list(dy)
        self._pending = {}
        try:
            grad(ys, dys)
        finally:
            pending, self._pending = self._pending, {}
            self.release()
        for key, (x, gradient) in pending.items():
            changed: Tensor = gradient
            for callback in self._attached[key][1]:
                answer = callback(x, changed)
                changed = changed if answer is None else answer
            x.grad = changed if x.grad is None else x.grad + changed

    def release(self) -> None:
        """Stop recording and forget what was recorded."""
        grad, self._grad = self._grad, None
        if grad is not None:
            grad.__exit__(None, None, None)

    def __enter__(self) -> GradManager:
        return self.record()

    def __exit__(self, kind: object, *exc: object) -> None:
        grad, self._grad = self._grad, None
        if grad is not None:
            grad.__exit__(kind, *exc)


def _ones_like(y: Tensor) -> Tensor:
    if not isinstance(y, Tensor):
        raise GradError(f"backward takes Tensors, not {type(y).__name__}")
    return from_value(np.ones(y.shape, y.dtype))
