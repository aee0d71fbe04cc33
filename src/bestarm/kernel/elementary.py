"""The logarithm and the exponential function of arrays, the same to the last bit on every processor.

NumPy's own choose their instructions by the processor, and differ in the last bit between two of them. These consist of
additions, multiplications and divisions, which are rounded alike everywhere. Their error is less than one unit in the
last place.

Reference: `e_log.c` and `e_exp.c` of fdlibm (Sun Microsystems, 1993), whose constants these are.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROOT_HALF = math.sqrt(0.5)
# Together they are log 2. The first has so few digits that its product with an exponent is exact.
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_ODD = (6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01)
_EXPONENTIAL = (
    *(1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05),
    *(-1.65339022054652515390e-06, 4.13813679705723846039e-08),
)


def _polynomial(x: Floats, coefficients: tuple[float, ...]) -> Floats:
    found = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        found = coefficient + x * found
    return found


def log(x: npt.ArrayLike) -> Floats:
    """The natural logarithm of numbers that are not negative: minus infinity of 0.

    >>> log([0.0, 1.0, 10.0]).tolist()
    [-inf, 0.0, 2.302585092994046]
    """
    x = np.asarray(x, np.float64)
    share, power = np.frexp(x)
    is_low = share < _ROOT_HALF
    away = np.where(is_low, 2.0 * share, share) - 1.0
    exponent = (power - is_low).astype(np.float64)
    # log(1 + away) by a series in `ratio`.
    ratio = away / (2.0 + away)
    square = ratio * ratio
    fourth = square * square
    rest = square * _polynomial(fourth, _ODD) + fourth * _polynomial(fourth, _EVEN)
    half = 0.5 * away * away
    found = ratio * (half + rest) + exponent * _LOG_2_LOW - half + away + exponent * _LOG_2_HIGH
    return np.where(x > 0.0, found, -np.inf)


def exp(x: npt.ArrayLike) -> Floats:
    """The exponential function, of numbers up to 700.

    >>> exp([0.0, 1.0, -10.0]).tolist()
    [1.0, 2.7182818284590455, 4.539992976248485e-05]
    """
    x = np.asarray(x, np.float64)
    power = np.rint(x / math.log(2.0))
    high, low = x - power * _LOG_2_HIGH, power * _LOG_2_LOW
    rest = high - low
    square = rest * rest
    c = rest - square * _polynomial(square, _EXPONENTIAL)
    return np.ldexp(1.0 + (rest * c / (2.0 - c) - low + high), power.astype(np.int64))
