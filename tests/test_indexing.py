"""Indexing means what it means in numpy, both ways, with gradients, for one example or many."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import ops
from interp import (
    DTypeError,
    IndexOutOfRangeError,
    InterpError,
    OperatorError,
    ShapeError,
    Transformation,
    apply,
    tensor,
)
from interp.value import Spec
from ops.accumulate import add_at
from ops.index import Mark, Slice
from ops.indexing import GetItem, ScatterAdd, SetItem
from transformations import Grad, OptimizedBackwardGraph, grad, make_backward_graph, vmap

RNG = np.random.default_rng(0)


class Draw:
    """Random indices of all kinds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)

    def slice(self, n: int) -> slice:
        def end() -> int | None:
            return self.random.choice([None, self.random.randint(-n - 1, n + 1)])

        return slice(end(), end(), self.random.choice([None, 1, 2, -1, -2]))

    def part(self, n: int, advanced: tuple[int, ...]) -> Any:
        place = self.random.randint(-n, n - 1)
        kind = self.random.choice(["int", "slice", "array", "list", "numpy int", "0-d"])
        if kind == "slice":
            return self.slice(n)
        if kind == "array":
            return self.rng.integers(-n, n, size=self.random.choice([advanced, advanced[-1:], ()]))
        if kind == "list":
            return self.rng.integers(-n, n, size=advanced[-1:] or (1,)).tolist()
        return {"int": place, "numpy int": np.int64(place), "0-d": np.array(place)}[kind]

    def key(self, shape: tuple[int, ...]) -> Any:
        advanced = self.random.choice([(), (2,), (2, 3), (1,)])
        key: list[Any] = []
        axis = 0
        while axis < len(shape) and self.random.random() < 0.85:
            kind = self.random.choice(["part"] * 5 + ["none", "mask", "true"])
            if kind == "none":
                key.append(None)
            elif kind == "true" and self.random.random() < 0.4:
                key.append(self.random.choice([True, np.True_, False]))
            elif kind == "mask":
                end = min(len(shape), axis + self.random.choice([1, 1, 2]))
                key.append(self.rng.random(shape[axis:end]) < 0.5)
                axis = end
            elif kind == "part":
                key.append(self.part(shape[axis], advanced))
                axis += 1
        if self.random.random() < 0.3:
            key.append(...)
            rest = [n for n in shape[axis:] if self.random.random() < 0.6]
            key += [self.part(n, advanced) for n in shape[len(shape) - len(rest) :]]
        return tuple(key) if len(key) != 1 or self.random.random() < 0.5 else key[0]

    def with_tensors(self, key: Any) -> Any:
        def wrapped(part: Any) -> Any:
            return tensor(part) if isinstance(part, np.ndarray) and self.random.random() < 0.5 else part

        return tuple(map(wrapped, key)) if isinstance(key, tuple) else wrapped(key)


@pytest.mark.parametrize("seed", range(4))
def test_any_index_reads_writes_and_has_the_gradients_that_numpy_gives(seed: int) -> None:
    draw = Draw(seed)
    for _ in range(150):
        shape = tuple(int(n) for n in draw.rng.integers(1, 5, size=draw.random.randint(0, 4)))
        x, cotangent = draw.rng.normal(size=shape), draw.rng.normal(size=shape)
        raw = draw.key(shape)
        key = draw.with_tensors(raw)
        try:
            wanted = x[raw]
        except IndexError:
            with pytest.raises(InterpError):
                tensor(x)[key]
            continue
        got = tensor(x)[key]
        assert got.shape == wanted.shape, (shape, raw)
        np.testing.assert_array_equal(got.numpy(), wanted)
        value = draw.rng.normal(size=wanted.shape)
        added = np.zeros(shape)
        np.add.at(added, raw, value)
        gradient = grad(lambda a: ops.sum(a[key] * value))(tensor(x))
        np.testing.assert_allclose(gradient.numpy(), added, atol=1e-12)
        np.testing.assert_allclose(ops.index_add(x, key, value).numpy(), x + added, atol=1e-12)

        written, moved, kept = x.copy(), x.copy(), cotangent.copy()
        direction = draw.rng.normal(size=wanted.shape)
        written[raw], moved[raw], kept[raw] = value, value + direction, 0
        handle = tensor(x)
        handle[key] = value
        np.testing.assert_array_equal(handle.numpy(), written)
        by_x, by_value = grad(lambda a, v: ops.sum(ops.index_set(a, key, v) * cotangent), argnums=(0, 1))(
            tensor(x), tensor(value)
        )
        np.testing.assert_array_equal(by_x.numpy(), kept)
        change = np.sum((moved - written) * cotangent)
        np.testing.assert_allclose(np.sum(by_value.numpy() * direction), change, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_indexing_runs_on_many_examples_at_once(seed: int) -> None:
    draw = Draw(seed)
    size, checked = 3, 0
    while checked < 40:
        shape = tuple(int(n) for n in draw.rng.integers(1, 4, size=draw.random.randint(1, 4)))
        key = draw.key(shape)
        key = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, np.ndarray) and part.dtype == bool for part in key):
            continue
        varies = [isinstance(part, np.ndarray) and draw.random.random() < 0.6 for part in key]
        places = [i for i, v in enumerate(varies) if v]
        x_varies = draw.random.random() < 0.7 or not places
        x = draw.rng.normal(size=(size, *shape) if x_varies else shape)
        axes = [draw.random.randint(0, key[i].ndim) for i in places]
        shuffled = [[draw.rng.permutation(key[i].reshape(-1)).reshape(key[i].shape) for _ in range(size)] for i in places]
        arrays = [np.stack(versions, axis) for versions, axis in zip(shuffled, axes)]

        def filled(parts: Any, key: Any = key, places: Any = places) -> Any:
            found = list(key)
            for i, part in zip(places, parts, strict=True):
                found[i] = part
            return tuple(found)

        lanes = [filled([a.take(b, axis) for a, axis in zip(arrays, axes)]) for b in range(size)]
        example = [x[b] if x_varies else x for b in range(size)]
        try:
            wanted = [e[lane] for e, lane in zip(example, lanes)]
        except IndexError:
            continue
        checked += 1
        in_axes = (0 if x_varies else None, *axes)
        value = draw.rng.normal(size=(size, *wanted[0].shape))
        handles = [tensor(x), *map(tensor, arrays)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # no operator may fall back to a loop
            got = vmap(lambda a, *p: a[filled(p)], in_axes)(*handles)
            setting = vmap(lambda v, a, *p: ops.index_set(a, filled(p), v), (0, *in_axes))(tensor(value), *handles)
            adding = vmap(lambda v, a, *p: ops.index_add(a, filled(p), v), (0, *in_axes))(tensor(value), *handles)
            same = vmap(lambda a, *p: ops.index_set(a, filled(p), value[0]), in_axes)(*handles)
            slope = vmap(lambda v, a, *p: grad(lambda b: ops.sum(b[filled(p)] * v))(a), (0, *in_axes))(
                tensor(value), *handles
            )
        np.testing.assert_array_equal(got.numpy(), np.stack(wanted))
        for b in range(size):
            written, repeated, added = example[b].copy(), example[b].copy(), np.zeros(shape)
            written[lanes[b]], repeated[lanes[b]] = value[b], value[0]
            np.add.at(added, lanes[b], value[b])
            np.testing.assert_array_equal(setting.numpy()[b], written)
            np.testing.assert_array_equal(same.numpy()[b], repeated)
            np.testing.assert_allclose(adding.numpy()[b], example[b] + added, atol=1e-12)
            np.testing.assert_allclose(slope.numpy()[b], added, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "index", "filled"),
    [
        ((50,), (Mark.ARRAY,), lambda i: (i,)),
        ((50, 40), (Mark.ARRAY, Mark.ARRAY), lambda i: (i, i[::-1] % 40)),
        ((50, 7), (Mark.ARRAY,), lambda i: (i,)),
        ((50, 7), (Mark.ARRAY,), lambda i: (i.reshape(20, -1),)),
        ((7, 50), (Slice(), Mark.ARRAY), lambda i: (slice(None), i)),
        ((50, 7, 40), (Mark.ARRAY, Slice(1), Mark.ARRAY), lambda i: (i, slice(1), i % 40)),
        ((50, 7), (Mark.ARRAY, 3), lambda i: (i - 50, 3)),
        ((50, 7), (Slice(None, None, 2), None, Mark.ARRAY), lambda i: (slice(None, None, 2), None, i % 7)),
        ((50000, 7), (Mark.ARRAY,), lambda i: (i,)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_adding_at_places_named_often_is_that_of_numpy(shape: Any, index: Any, filled: Any, dtype: str) -> None:
    place = filled(RNG.integers(0, 50, 1000))
    out = np.zeros(shape, dtype)
    value = RNG.integers(-3, 4, out[place].shape).astype(dtype)
    wanted = out.copy()
    np.add.at(wanted, place, value)
    add_at(out, index, place, value)
    np.testing.assert_array_equal(out, wanted)


def test_a_thousand_reads_give_one_scatter() -> None:
    x = tensor(RNG.normal(size=(1000, 3)))
    with Grad() as g:
        seen = []
        g.wrt(x, callback=seen.append)
        total = x[0]
        for i in range(1, 1000):
            total = total + x[i]
        g(total, tensor(np.ones(3)))
    np.testing.assert_array_equal(np.asarray(seen[0]), np.ones((1000, 3)))
    op, inputs = _merged([(ScatterAdd(((i,),)), [(3,), np.float64(i)]) for i in range(3)])
    assert op == ScatterAdd(((0,), (1,), (2,)))
    assert inputs == [(3,), 0.0, 1.0, 2.0]


class Count(Transformation):
    """Counts the operators that come through, by class."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def apply_transformation(self, op: Any, inputs: Any) -> Any:
        self.seen[type(op).__name__] = self.seen.get(type(op).__name__, 0) + 1
        return apply(op, *inputs)


def test_contributions_of_one_array_are_added_in_one_operator() -> None:
    x = tensor(RNG.normal(size=(30, 3)))
    weights = RNG.normal(size=30)

    def f(x: Any) -> Any:
        total = ops.sum(x[5:] * 2.0)
        for i in range(30):
            total = total + ops.sum(x[[i, 0]]) * weights[i]
        return total

    with Count() as count:
        got = grad(f)(x)
    assert count.seen["ScatterAdd"] == 1
    wanted = np.repeat(weights[:, None], 3, axis=1)
    wanted[0] += weights.sum()
    wanted[5:] += 2
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9)


def _merged(contributions: Any) -> Any:
    from interp import rules

    return rules.merge.require(contributions[0][0])(contributions)


def test_reading_keeps_the_index_and_the_shape_only() -> None:
    x, i = Spec((5, 3), "float32"), Spec((7,), "int64")
    for op, inputs, saved in [
        (GetItem((Slice(1),)), [x], (False, False, True)),
        (GetItem((Mark.ARRAY,)), [x, i], (False, True, False, True)),
        (SetItem((Mark.ARRAY,)), [x, Spec((3,), "float32"), i], (False, False, True, False, True)),
    ]:
        graph = make_backward_graph(op, inputs)
        assert graph is not None
        assert not graph.specific
        assert OptimizedBackwardGraph(graph, len(inputs)).save_for_backward == saved


def test_places_outside_are_errors_that_name_axis_and_size() -> None:
    x = tensor(np.zeros((3, 4)))
    with pytest.raises(IndexOutOfRangeError, match=r"index 4 is out of range for axis 1 of size 4"):
        x[0, 4]
    with pytest.raises(IndexOutOfRangeError, match=r"index -5 is out of range for axis 1 of size 4"):
        x[:, [0, -5]]
    with pytest.raises(IndexOutOfRangeError, match=r"index 7 is out of range for axis 0 of size 3"):
        x[tensor([0, 7])] = 1.0
    with pytest.raises(IndexOutOfRangeError, match="index 9"):
        ops.take(x, tensor([9]), axis=0)
    with pytest.raises(IndexOutOfRangeError, match="index 3 is out of range for axis 0 of size 3"):
        ops.index_add(x, tensor([3] * 600), 1.0)
    with pytest.raises(IndexError, match="too many indices: 3 for an array with 2 axes"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match=r"mask of shape \(4,\) does not fit"):
        x[np.ones(4, bool)]
    with pytest.raises(IndexError, match=r"mask of shape \(3,\) does not fit"):
        x[..., np.ones(3, bool)]
    with pytest.raises(ShapeError, match="do not broadcast"):
        x[[0, 1], [0, 1, 2]]
    with pytest.raises(DTypeError, match="float64"):
        x[np.array([0.0])]
    with pytest.raises(DTypeError, match="not 'a'"):
        x["a"]
    with pytest.raises(OperatorError, match="once only"):
        x[..., ...]


def test_writing_casts_within_a_kind_and_no_further() -> None:
    x = tensor(np.zeros(3, "float32"))
    x[0] = np.float64(1.5)
    x[1] = 2
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x.numpy(), [1.5, 2, 0])
    whole = tensor(np.zeros(3, "int64"))
    with pytest.raises(DTypeError, match="cannot be stored"):
        whole[0] = 1.5
    with pytest.raises(DTypeError, match="cannot be stored"):
        whole[0] = np.float64(1.5)
    with pytest.raises(ShapeError, match="cannot be stretched"):
        x[:2] = np.zeros(3)
    precise = tensor(np.zeros(1))
    precise[0] = 0.1
    assert precise.item() == 0.1


def test_a_write_may_overlap_what_it_reads_and_leaves_other_handles_alone() -> None:
    x = tensor(np.arange(5.0))
    before, part = x[:], x[1:]
    x[1:] = x[:-1]
    np.testing.assert_array_equal(x.numpy(), [0, 0, 1, 2, 3])
    np.testing.assert_array_equal(before.numpy(), np.arange(5.0))
    np.testing.assert_array_equal(part.numpy(), np.arange(1.0, 5.0))


def test_writes_are_differentiable_through_the_handle() -> None:
    def f(x: Any, v: Any) -> Any:
        x = x * 1.0
        x[0] = v * x[1]
        x[1] = x[0] * x[2]
        return ops.sum(x * x)

    by_x, by_v = grad(f, argnums=(0, 1))(tensor(np.array([1.0, 2.0, 3.0])), tensor(np.array(0.5)))
    # x0 = v x1 = 1, x1' = v x1 x2 = 3, x2 = 3: f = (v x1)^2 (1 + x2^2) + x2^2
    np.testing.assert_allclose(by_x.numpy(), [0.0, 2 * 0.25 * 2 * 10, 2 * 1 * 3 + 6])
    np.testing.assert_allclose(by_v.numpy(), 2 * 0.5 * 4 * 10)


def test_iterating_gives_the_rows() -> None:
    rows = [row.numpy() for row in tensor(np.arange(6.0).reshape(3, 2))]
    np.testing.assert_array_equal(rows, np.arange(6.0).reshape(3, 2))
    assert [x.item() for x in tensor([1.0, 2.0])] == [1.0, 2.0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_and_take_along_axis_are_those_of_numpy(axis: int) -> None:
    x, places = RNG.normal(size=(3, 4)), RNG.integers(-3, 3, (2, 2))
    np.testing.assert_array_equal(ops.take(x, places, axis=axis).numpy(), x.take(places, axis))
    order = np.argsort(x, axis)
    np.testing.assert_array_equal(ops.take_along_axis(x, order, axis=axis).numpy(), np.take_along_axis(x, order, axis))
    one = order.take([0], axis)
    np.testing.assert_array_equal(ops.take_along_axis(x, one, axis=axis).numpy(), np.take_along_axis(x, one, axis))
    put = x.copy()
    np.put_along_axis(put, one, 7.0, axis)
    np.testing.assert_array_equal(ops.put_along_axis(x, one, 7.0, axis=axis).numpy(), put)
    wide = np.zeros((1, 4), int) if axis == 0 else np.zeros((1, 1), int)
    np.testing.assert_array_equal(
        ops.take_along_axis(x, wide, axis=axis).numpy(), np.take_along_axis(x, wide, axis)
    )
    with pytest.raises(ShapeError):
        ops.take_along_axis(x, np.zeros((2, 2), int), axis=axis)


def test_taking_along_an_axis_is_recorded_for_all_shapes() -> None:
    op = GetItem((Mark.ALONG, Mark.ARRAY))
    graph = make_backward_graph(op, [Spec((3, 4), "float32"), Spec((3, 2), "int64")])
    assert graph is not None
    assert not graph.specific


def test_gather_and_scatter_are_each_other_backwards() -> None:
    x, places = RNG.normal(size=(3, 4)), np.array([[0, 1], [2, 3], [3, 0]])
    gathered = ops.gather(x, 1, places)
    np.testing.assert_array_equal(gathered.numpy(), np.take_along_axis(x, places, 1))
    np.testing.assert_array_equal(ops.scatter(x, 1, places, gathered).numpy(), x)
    np.testing.assert_array_equal(ops.gather(x, 0, places[:2] % 3).numpy(), x[places[:2] % 3, [[0, 1], [0, 1]]])
    with pytest.raises(ShapeError, match="longer"):
        ops.gather(x, 1, np.zeros((4, 1), int))
    with pytest.raises(ShapeError, match="axes"):
        ops.gather(x, 1, np.zeros(3, int))


def test_empty_arrays_and_numbers_can_be_indexed() -> None:
    assert tensor(np.zeros((0, 3)))[:, 1].shape == (0,)
    assert tensor(np.zeros(3))[[]].shape == (0,)
    assert tensor(2.0)[()].item() == 2.0
    assert tensor(2.0)[None].shape == (1,)
    assert tensor(2.0)[True].shape == (1,)
    assert tensor(2.0)[False].shape == (0,)
    assert ops.take(np.zeros((3, 0)), [], axis=0).shape == (0, 0)
    x = tensor(1.0)
    x[()] = 3.0
    assert x.item() == 3.0


def test_a_number_can_be_written_by_a_mask_that_varies_between_examples() -> None:
    x = RNG.normal(size=(3, 4, 2))
    got = vmap(lambda a: ops.index_set(a, a[:, 0] > 0.0, 7.0))(tensor(x))
    wanted = x.copy()
    wanted[x[:, :, 0] > 0] = 7.0
    np.testing.assert_array_equal(got.numpy(), wanted)
    handle = tensor(x)
    handle[handle > 0.0] = 0
    np.testing.assert_array_equal(handle.numpy(), np.minimum(x, 0))
    with pytest.raises(DTypeError, match="cannot be stored"):
        ops.index_set(tensor(np.arange(3)), tensor([True, False, True]), 0.5)
    with pytest.raises(IndexError, match="does not fit"):
        ops.index_set(tensor(x), tensor([True, False]), 0.5)
