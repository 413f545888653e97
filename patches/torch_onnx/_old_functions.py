"""Operators of which functions of onnxscript before 0.7.2 have wrong numbers or axes, said by others."""

from collections.abc import Callable, Sequence
from typing import Any

import torch


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator; what is right as it is, they answer by `NotImplemented`."""
    aten = torch.ops.aten
    return {
        aten._conj.default: _conj,
        aten._fft_c2r.default: _fft_c2r,
        aten.isclose.default: _isclose,
        aten.linear.default: _linear,
        aten.pad.default: _pad,
        aten.prod.default: _prod,
        aten.scaled_dot_product_attention.default: _attention,
    }


def _conj(x: Any) -> Any:
    """Return the conjugate, for which 0.5.6 has no function."""
    return torch.view_as_complex(_conjugated(torch.view_as_real(x))) if x.is_complex() else x


def _fft_c2r(x: Any, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Any:
    """Return the real numbers that a half of their spectrum stands for, of which 0.5.6 takes the rest for zeros.

    Args:
        x: complex, with `last_dim_size // 2 + 1` frequencies along the last of `dim`.
        dim: the axes of frequencies.
        normalization: 0 for none, 1 for the root of the number of elements, 2 for their number.
        last_dim_size: the elements of the result along the last of `dim`.
    """
    *others, last = (axis % x.dim() for axis in dim)
    inverse = torch.ops.aten._fft_c2c.default
    parts = torch.view_as_real(inverse(x, others, normalization, False) if others else x)
    # The frequencies behind the half are the conjugates of those in it, backwards, without the first.
    mirrored = _conjugated(parts.narrow(last, 1, (last_dim_size - 1) // 2).flip(last))
    whole = torch.view_as_complex(torch.cat([parts, mirrored], last))
    return torch.view_as_real(inverse(whole, [last], normalization, False)).select(-1, 0)


def _conjugated(parts: Any) -> Any:
    """Return complex numbers by their parts, `(..., 2)`, with the second one negated."""
    return torch.stack([parts.select(-1, 0), -parts.select(-1, 1)], -1)


def _isclose(x: Any, y: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Return what is close, also NaN to NaN, which 0.6.2 leaves out."""
    if not equal_nan:
        return NotImplemented
    return torch.isclose(x, y, rtol, atol) | (torch.isnan(x) & torch.isnan(y))


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return the products with a weight of one axis, which 0.7.0 leaves an axis of one element."""
    if weight.dim() != 1:
        return NotImplemented
    product = torch.matmul(x, weight)
    return product if bias is None else product + bias


def _pad(x: Any, pad: Sequence[Any], mode: str = "constant", value: float | None = None) -> Any:
    """Return a tensor with a number around it, as many as sizes say; 0.4.0 writes no list of sizes and numbers."""
    if mode != "constant" or all(isinstance(count, int) for count in pad):
        return NotImplemented
    number = torch.full((), 0 if value is None else value, dtype=x.dtype, device=x.device)
    for place in range(0, len(pad), 2):
        x = _padded(x, x.dim() - 1 - place // 2, pad[place], pad[place + 1], number)
    return x


def _padded(x: Any, axis: int, before: Any, behind: Any, number: Any) -> Any:
    """Return a tensor with so many places more along an axis; where these are negative, with fewer."""
    size = x.shape[axis]
    places = torch.arange(size + before + behind, device=x.device) - before
    shape = [-1 if other == axis else 1 for other in range(x.dim())]
    is_known = ((places >= 0) & (places < size)).reshape(shape)
    return torch.where(is_known, x.index_select(axis, places.clamp(0, size - 1)), number)


def _prod(x: Any, *, dtype: Any = None) -> Any:
    """Return the product of all elements without axes, where 0.5.6 keeps them."""
    return x.reshape(-1).prod(0, dtype=dtype)


def _attention(query: Any, key: Any, value: Any, *args: Any, enable_gqa: bool = False, **kwargs: Any) -> Any:
    """Return attention whose keys are shared by groups of queries: 0.4.0 has none, 0.7.1 none of one query each.

    Queries are `(batch, heads, length, channels)`, and keys and values have as many heads or a part of them.
    """
    if not enable_gqa:
        return NotImplemented
    shared = [_repeated(item, query.shape[-3] // item.shape[-3]) for item in (key, value)]
    return torch.nn.functional.scaled_dot_product_attention(query, *shared, *args, **kwargs)


def _repeated(x: Any, times: int) -> Any:
    """Return each head so many times, one behind the other."""
    if times == 1:
        return x
    wide = x.unsqueeze(-3).expand(*x.shape[:-2], times, *x.shape[-2:])
    return wide.reshape(*x.shape[:-3], x.shape[-3] * times, *x.shape[-2:])
