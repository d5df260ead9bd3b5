"""From intervals to digits: correctly rounded decimals, floats and signs of any number that gives intervals of itself.

A number provides an interval [m ± r] (an Arb ball) at any precision, which is doubled until it decides the question.
Where that never terminates (a tie, a zero), the exact form decides it: `rational()` and `is_zero()`.
"""

from __future__ import annotations

import math
from typing import Protocol

from flint import arb, ctx, fmpq, fmpz

from glassformer.errors import InputError

MAX_BITS = 1 << 14  # numbers that agree to 4,900 digits are considered equal
START = 128  # precisions are START doubled, so that cached enclosures can be reused
PLAIN = 21  # numbers with more digits than this are written with an exponent


class Enclosable(Protocol):
    def ball_at(self, bits: int) -> arb: ...
    def rational(self) -> fmpq | None: ...
    def is_zero(self) -> bool: ...


def _bits(wanted: int) -> int:
    bits = START
    while bits < wanted:
        bits *= 2
    return bits


def ball(x: Enclosable, digits: int) -> arb:
    """Return an interval whose relative width is below 10^-digits (exactly 0 for zero)."""
    wanted = int(digits * 3.33) + 4
    bits = _bits(wanted + 32)
    while True:
        value = x.ball_at(bits)
        if value.rel_accuracy_bits() >= wanted or bits > MAX_BITS + wanted:
            return value
        if bits > 8 * wanted + 256 and x.is_zero():
            return arb(0)
        bits *= 2


def sign(x: Enclosable) -> int:
    """Return the sign of x: -1, 0 or 1."""
    q = x.rational()
    if q is not None:
        return (q > 0) - (q < 0)
    bits = START
    while bits <= MAX_BITS:
        value = x.ball_at(bits)
        if value > 0:
            return 1
        if value < 0:
            return -1
        if bits == 2 * START and x.is_zero():
            return 0
        bits *= 2
    return 0


def nearest_float(x: Enclosable) -> float:
    """Return the float64 nearest to x: both ends of a tight enough interval round to it."""
    q = x.rational()
    if q is not None:
        p, r = int(q.p), int(q.q)
        try:
            return p / r
        except OverflowError:
            return math.inf if p > 0 else -math.inf
    bits = START
    while True:
        with ctx.workprec(bits):
            value = x.ball_at(bits)
            if not value.is_finite() and bits <= MAX_BITS:  # a denominator not yet distinguished from 0
                bits *= 2
                continue
            low, high = _end(value.lower()), _end(value.upper())
        if low == high or bits > MAX_BITS:
            return (low + high) / 2 if low != high else low
        if bits == 4 * START and x.is_zero():
            return 0.0
        bits *= 2


def round_scaled(x: Enclosable, shift: int) -> int:
    """Round x·10^shift to the nearest integer, halves away from zero as taught at school."""
    q = x.rational()
    if q is not None:
        scaled = q * fmpq(10) ** shift
        return int((abs(scaled) + fmpq(1, 2)).floor()) * (1 if scaled >= 0 else -1)
    bits = _bits(40 + max(0, 7 * shift // 2))
    while True:
        with ctx.workprec(bits):
            value = x.ball_at(bits) * arb(10) ** shift
            nearest = (value + arb(fmpq(1, 2))).floor().unique_fmpz()
            if nearest is not None:
                return int(nearest)
            if bits > MAX_BITS:  # treated as a tie: away from zero
                return int((abs(value) + arb(fmpq(1, 2))).upper().floor().unique_fmpz() or 0) * sign(x)
        bits *= 2


def magnitude(x: Enclosable) -> int:
    """floor(log10 |x|) of a nonzero number."""
    q = x.rational()
    if q is not None:
        p, r = abs(int(q.p)), int(q.q)
        guess = len(str(p)) - len(str(r))
        return guess if fmpq(p, r) >= fmpq(10) ** guess else guess - 1
    bits = START
    while True:
        with ctx.workprec(bits):
            value = abs(x.ball_at(bits)).log() / arb.const_log10()
            whole = value.floor().unique_fmpz()
            if whole is not None:
                return int(whole)
            if bits > MAX_BITS:  # treated as a power of ten
                return int(value.upper().floor().unique_fmpz() or fmpz(0))
        bits *= 2


def decimal(x: Enclosable, places: int) -> str:
    """Format x with `places` digits after the point: 0.1967, -2.50; with an exponent from 10^21 on."""
    if x.is_zero():
        return _point(0, places)
    if not abs(x.ball_at(START)) < 10**PLAIN and magnitude(x) >= PLAIN:
        return significant(x, places + 1)
    return _point(round_scaled(x, places), places)


def significant(x: Enclosable, digits: int = 17) -> str:
    """Format x to `digits` significant digits, without trailing zeros: 0.5, 12.25, 3.4e-21."""
    if x.is_zero():
        return "0"
    power = magnitude(x)
    value = round_scaled(x, digits - 1 - power)
    if abs(value) >= 10**digits:  # 9.996 became 10.00
        power, value = power + 1, value // 10 if value > 0 else -(-value // 10)
    text = str(abs(value)).rstrip("0")
    minus = "-" if value < 0 else ""
    if power < -5 or power >= PLAIN:
        return f"{minus}{text[0]}{'.' + text[1:] if text[1:] else ''}e{power:+d}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    text = text.ljust(power + 1, "0")
    return f"{minus}{text[: power + 1]}{'.' + text[power + 1 :] if text[power + 1 :] else ''}"


def _end(value: arb) -> float:
    """Convert an exact ball to the nearest float from its own digits: flint's conversion need not round to nearest."""
    if not value.is_finite():
        raise InputError("a denominator cannot be distinguished from 0", "change the numbers a little")
    mantissa, power = (int(part) for part in value.man_exp())
    sign = 1.0 if mantissa > 0 else -1.0
    height = mantissa.bit_length() + power
    if height > 1100 or height < -1200:  # far outside the range of a float: do not write it out
        return sign * math.inf if height > 0 else sign * 0.0
    try:
        return float(mantissa * 2**power) if power >= 0 else mantissa / 2**-power
    except OverflowError:
        return sign * math.inf


def _point(value: int, places: int) -> str:
    text = str(abs(value)).rjust(places + 1, "0")
    minus = "-" if value < 0 else ""
    return f"{minus}{text[:-places]}.{text[-places:]}" if places else minus + text
