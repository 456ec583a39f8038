"""Channels traded for resolution and back."""

from __future__ import annotations

from typing import Any

from interp import ShapeError, Tensor

from ..axes import as_handle
from ..manipulation import permute_dims, reshape

__all__ = ["pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(x: Any, /, upscale_factor: int) -> Tensor:
    """(..., C * r * r, H, W) to (..., C, H * r, W * r): channels become the pixels of r by r squares.

    Raises ShapeError where the channels cannot be divided so. Source: Shi et al., "Real-time single image and video
    super-resolution using an efficient sub-pixel convolutional neural network", 2016.

    >>> pixel_shuffle([[[1.0]], [[2.0]], [[3.0]], [[4.0]]], 2)
    tensor([[[1., 2.],
             [3., 4.]]])
    """
    handle = as_handle(x)
    r = int(upscale_factor)
    if handle.ndim < 3 or r < 1 or handle.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: {handle.shape} has no (..., C * {r} * {r}, H, W)")
    *lead, channels, height, width = handle.shape
    n = len(lead)
    apart = reshape(handle, (*lead, channels // (r * r), r, r, height, width))
    paired = permute_dims(apart, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(paired, (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: Any, /, downscale_factor: int) -> Tensor:
    """(..., C, H * r, W * r) to (..., C * r * r, H, W): undoes `pixel_shuffle`.

    Raises ShapeError where height and width cannot be divided so.

    >>> pixel_unshuffle([[[1.0, 2.0], [3.0, 4.0]]], 2).shape
    (4, 1, 1)
    """
    handle = as_handle(x)
    r = int(downscale_factor)
    if handle.ndim < 3 or r < 1 or handle.shape[-2] % r or handle.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle: {handle.shape} has no (..., C, H * {r}, W * {r})")
    *lead, channels, height, width = handle.shape
    n = len(lead)
    apart = reshape(handle, (*lead, channels, height // r, r, width // r, r))
    paired = permute_dims(apart, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(paired, (*lead, channels * r * r, height // r, width // r))
