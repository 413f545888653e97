"""The error function's inverse, and its scaled complement, by polynomials.

The inverse is M. Giles' approximation for single precision ("Approximating the erfinv function", 2010); of double
precision, Newton's method goes on from it. The complement is the one of "Numerical Recipes", whose error is 1.2e-7.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
_COMPLEMENT = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {aten.erfinv.default: _erfinv, aten.special_erfcx.default: _erfcx}


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return a polynomial, given from its highest power on."""
    found = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        found = found * x + coefficient
    return found


def _erfinv(x: Any) -> Any:
    """Return where the error function is `x`; it is infinite at -1 and 1, and no number outside of them."""
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    y = x.to(torch.float64 if dtype == torch.float64 else torch.float32)
    depth = -torch.log1p(-y * y)
    tail = torch.sqrt(depth.clamp(min=5.0)) - 3
    found = y * torch.where(depth < 5, _polynomial(_CENTRAL, depth.clamp(max=5.0) - 2.5), _polynomial(_TAIL, tail))
    if dtype == torch.float64:
        for _ in range(2):
            slope = 2 / math.sqrt(math.pi) * torch.exp(-found * found)
            found = found - (torch.erf(found) - y) / slope
    return torch.where(y.abs() == 1, y * math.inf, found).to(dtype)


def _erfcx(x: Any) -> Any:
    """Return `exp(x**2) * erfc(x)`, of which no part overflows where `x` is large."""
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    if dtype == torch.float64:
        return NotImplemented
    y = x.to(torch.float32)
    t = 1 / (1 + y.abs() / 2)
    found = t * torch.exp(_polynomial(_COMPLEMENT, t))
    return torch.where(y < 0, 2 * torch.exp(y * y) - found, found).to(dtype)
