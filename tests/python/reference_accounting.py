#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""delta(epsilon) of composed Poisson-subsampled Gaussian mechanisms to 32 digits, by arithmetic of 90 digits and more.

    reference_accounting.py > tests/data/accounting.csv      all 300 rows, some minutes with python-flint
    reference_accounting.py --check K tests/data/accounting.csv   recompute K rows spread over the file and compare

Needs mpmath; takes python-flint instead where it is installed, which is ten times as fast.

Rows:  how;direction;sigma;q;n;epsilon;ln_delta     sigma, q and epsilon mean the doubles that they read as

direct    n <= 3, from the definition: one step in closed form (the loss is monotone in the outcome), then
          delta_n(e) = integral of P(x) delta_(n-1)(e - L(x)) dx by the tanh-sinh rule, split where the loss that is
          left is beyond the range of L; the steps become smaller until 32 digits agree (30 for n = 3).
contour   delta = 1/pi Im integral of M(z)^n e^(-z e) / (z (z+1)) dz from the saddle upwards, along a path that bends to
          the right where that helps; M is entire but for rounding, so that the path does not matter. Both trapezoid
          rules converge geometrically. The step of z is halved until 32 digits agree; M is compared with half its step.
"""
import random
import sys

try:
    import flint
    from flint import acb, arb
except ImportError:
    flint = None
import mpmath
from mpmath import mp

if flint:
    def R(x): return arb(x)
    def C(x, y): return acb(x, y)
    def exp(x): return x.exp()
    def log(x): return x.log()
    def sqrt(x): return x.sqrt()
    def sinh(x): return x.sinh()
    def cosh(x): return x.cosh()
    def erfc(x): return x.erfc()
    def pi(): return arb.pi()
    def mid(x): return x.mid()
    def text(x): return x.mid().str(40, radius=False)
    def precision(bits): flint.ctx.prec = bits
else:
    def R(x): return mp.mpf(x)
    def C(x, y): return mp.mpc(x, y)
    exp, log, sqrt, sinh, cosh, erfc = mp.exp, mp.log, mp.sqrt, mp.sinh, mp.cosh, mp.erfc
    def pi(): return +mp.pi
    def mid(x): return x
    def text(x): return mp.nstr(x, 40)
    def precision(bits): mp.prec = bits

DIGITS = 32
CONTOURS = 400  # tried; many would take too long, and are left out


class Pair:
    def __init__(self, direction, sigma, q, n):
        self.direction, self.n = direction, n
        self.sigma, self.q = R(sigma), R(q)
        self.grids = {}

    # ---- one step ----
    def ratio(self, x, sign=1):
        """N(+-1, sigma^2) mixed into N(0, sigma^2), over N(0, sigma^2)"""
        return 1 - self.q + self.q * exp((sign * 2 * x - 1) / (2 * self.sigma ** 2))

    def loss(self, x):
        if self.direction == "remove":
            return log(self.ratio(x))
        if self.direction == "add":
            return -log(self.ratio(x))
        return log(self.ratio(x)) - log(self.ratio(x, -1))

    def tail(self, x):
        """the normal upper tail"""
        return erfc(x / (self.sigma * sqrt(R(2)))) / 2

    def outcome(self, ratio):
        return self.sigma ** 2 * log((ratio - 1 + self.q) / self.q) + R(1) / 2

    def one(self, odds):
        """delta of one step at epsilon = ln odds (of any sign)"""
        q = self.q
        if self.direction == "remove":
            if odds <= 1 - q:
                return 1 - odds
            x = self.outcome(odds)
            return (1 - q - odds) * self.tail(x) + q * self.tail(x - 1)
        if self.direction == "add":
            if 1 / odds <= 1 - q:
                return R(0)
            x = self.outcome(1 / odds)
            return self.tail(-x) - odds * ((1 - q) * self.tail(-x) + q * self.tail(1 - x))
        # (a + c y) / (a + c / y) = odds with y = e^(x / sigma^2)
        a, c = 1 - q, q * exp(-1 / (2 * self.sigma ** 2))
        b = a * (1 - odds)
        root = sqrt(b * b + 4 * c * c * odds)
        y = (root - b) / (2 * c) if b < 0 else 2 * c * odds / (root + b)
        x = self.sigma ** 2 * log(y)
        return a * (1 - odds) * self.tail(x) + q * self.tail(x - 1) - odds * q * self.tail(x + 1)

    def density(self, x):
        plain = exp(-x * x / (2 * self.sigma ** 2)) / (self.sigma * sqrt(2 * pi()))
        return plain if self.direction == "add" else plain * self.ratio(x)

    def breaks(self, odds, steps):
        """where the loss left for `steps` steps passes the end of its range"""
        if self.direction == "replace" or self.q == 1:
            return []
        edge = (1 - self.q) ** steps
        ratio = odds / edge if self.direction == "remove" else 1 / (odds * edge)
        return [self.outcome(ratio)] if ratio > 1 - self.q else []

    def direct(self, odds, steps, fine):
        if steps == 1:
            return self.one(odds)
        reach, sigma = 16 * self.sigma, float(self.sigma)
        low, high = -reach - 1, 1 + reach
        cuts = [low] + [mid(x) for x in self.breaks(odds, steps - 1) if low < x < high] + [high]

        def term(x):
            x = mid(x)
            return mid(self.density(x) * self.direct(mid(odds * exp(-self.loss(x))), steps - 1, fine))
        if len(cuts) == 2 and self.direction == "replace":  # analytic from end to end: the plain trapezoid rule
            h = fine * min(0.07 * sigma, 0.05 * sigma ** 2)
            count = int(float(high - low) / h)
            return mid(sum((term(low + R(h) * k) for k in range(count + 1)), R(0)) * R(h))
        widest = fine * min(0.5 * sigma, 0.35 * sigma ** 2)
        return sum((tanh_sinh(term, a, b, widest) for a, b in zip(cuts, cuts[1:])), R(0))

    # ---- the moment generating function of the loss under P ----
    def grid(self, t, step):
        """(weight, log ratio, log mirrored ratio) at the points of a trapezoid rule, enough for Re z = t"""
        if (t, step) in self.grids:
            return self.grids[t, step]
        h, reach = R(step), 19 * self.sigma + 1
        low, high = -reach, reach + (t if self.direction != "add" else 0)
        if self.direction == "replace":
            low = low - t
        rows = []
        for k in range(int(float(low) / step) - 1, int(float(high) / step) + 2):
            x = h * k
            weight = -x * x / (2 * self.sigma ** 2) + log(h / (self.sigma * sqrt(2 * pi())))
            rows.append((mid(weight), mid(log(self.ratio(x))),
                         mid(log(self.ratio(x, -1))) if self.direction == "replace" else None))
        self.grids[t, step] = rows
        return rows

    def moment(self, z, t, step, moments=0):
        """E[e^(zL)], or its first derivatives for a real z"""
        sums = [C(0, 0) if moments == 0 else R(0) for _ in range(moments + 1)]
        for weight, ratio, mirrored in self.grid(t, step):
            loss = {"remove": ratio, "add": -ratio}.get(self.direction)
            loss = ratio - mirrored if loss is None else loss
            base = weight + ratio if self.direction != "add" else weight
            term = exp(base + z * loss)
            for i in range(moments + 1):
                sums[i] += term
                if i < moments:
                    term = term * loss
        return sums if moments else sums[0]

    def step(self, s, scale):
        """of x, for scale e-folds of accuracy at Im z = s; a power of two, so that grids are shared"""
        sigma = float(self.sigma)
        want = 6.28 / (abs(s) / sigma ** 2 + max((2 * scale) ** 0.5 / sigma, scale / (3.14 * sigma ** 2)))
        return 2.0 ** int(mpmath.floor(mpmath.log(want, 2)))

    def shape(self, t):
        """n (ln M)', '', ''' at t, and n ln M"""
        m = self.moment(R(t), t, self.step(0, 60), 3)
        a, b, c = m[1] / m[0], m[2] / m[0], m[3] / m[0]
        return [float(mid(self.n * v)) for v in (log(m[0]), a, b - a * a, c - 3 * a * b + 2 * a ** 3)]


def tanh_sinh(f, a, b, widest):
    """The step in the middle is `widest` at most."""
    half, centre = (b - a) / 2, (a + b) / 2
    h = R(min(1 / 24, widest / (1.5708 * float(half))))
    total, k = half * h * pi() / 2 * f(centre), 0
    while True:
        k += 1
        v = h * k
        inner = pi() / 2 * sinh(v)
        gap = 1 / (exp(inner) * cosh(inner))  # 1 - tanh
        if float(gap) < 1e-42:
            return mid(total)
        weight = h * pi() / 2 * cosh(v) / cosh(inner) ** 2 * half
        x = half * gap
        total += weight * (f(b - x) + f(a + x))


def saddle_for(pair, log_delta):
    """(epsilon, t) by the saddle point's own approximation"""
    low, high = 1e-4, 1e-4
    def value(t):
        k, k1, k2, _ = pair.shape(t)
        eps = k1 - 1 / t - 1 / (t + 1)
        return k - t * eps - mp.log(t * (t + 1)) - mp.log(2 * mp.pi * (k2 + t ** -2 + (t + 1) ** -2)) / 2, eps
    while value(high)[0] > log_delta and high < 3e3:
        high *= 2
    low = high / 2
    for _ in range(14):
        t = (low + high) / 2
        if value(t)[0] > log_delta:
            low = t
        else:
            high = t
    return value(t)[1], t


def saddle_at(pair, epsilon):
    low = high = 1e-4
    def slope(t):
        return pair.shape(t)[1] - 1 / t - 1 / (t + 1) - epsilon
    while slope(high) < 0:
        high *= 2
        if high > 1e5:
            return None
    low = high / 2
    for _ in range(12):
        t = (low + high) / 2
        if slope(t) < 0:
            low = t
        else:
            high = t
    return t


def contour(pair, epsilon, t):
    """ln delta, or None where more than the work allowed is needed"""
    _, k1, k2, k3 = pair.shape(t)
    g2 = k2 + t ** -2 + (t + 1) ** -2
    g3 = k3 - 2 * t ** -3 - 2 * (t + 1) ** -3
    u = g2 ** -0.5
    bend, knee = 0.0, R(1)
    if g3 > 0:
        bend = 0.4
        knee = R(max(3 * bend * g2 / g3, 2 * u))
    c, eps, n = R(6), R(epsilon), pair.n
    low_t = t
    values, work = [], 0

    def term(v):
        nonlocal work
        s = R(u) * c * sinh(v / c)
        root = sqrt(s * s + knee * knee)
        x = R(t) + R(bend) * (root - knee)
        z = C(mid(x), mid(s))
        dz = C(mid(R(bend) * s / root), R(1)) * mid(R(u) * cosh(v / c))
        reach = 2.0 ** int(mpmath.ceil(mpmath.log(float(mid(x)) + 1, 2)))
        step = pair.step(float(mid(s)), 125)
        m = pair.moment(z, reach, step)
        work += len(pair.grid(reach, step))
        return exp(n * log(m) - z * eps) / (z * (z + 1)) * dz, (z, reach, step, m)

    def size(x):
        return float(mp.log(abs(mp.mpf(abs(complex(x))))) if abs(complex(x)) > 0 else -mp.inf)

    level_h, total, first, last, probes = R(1) / 4, None, None, None, []
    while True:
        k, added = (0 if total is None else 1), R(0)
        while True:
            f, probe = term(level_h * k)
            f_im = f.imag
            added += f_im / 2 if k == 0 else f_im
            if k == 0 and first is None:
                first = abs(f)
            if total is None and k % 12 == 0:
                probes.append(probe)
            if last is None and not abs(f) > first * R(10) ** -(DIGITS + 12):
                last = level_h * k
            if last is not None and level_h * (k + 1) > last:
                break
            if work > 600000:
                return None
            k += 1 if total is None else 2
        total = mid(added) if total is None else mid(total + added)
        values.append(mid(total * level_h / pi()))
        if len(values) > 1 and abs(values[-1] - values[-2]) < abs(values[-1]) * R(10) ** -DIGITS:
            break
        if len(values) > 6:
            return None
        level_h = level_h / 2
    for z, reach, step, m in probes:
        other = pair.moment(z, reach, step / 2)
        if not abs(other - m) * n < abs(m) * R(10) ** -(DIGITS + 2) + R(10) ** -(DIGITS + 8):
            return None
    return log(values[-1]) if values[-1] > 0 else None


def evaluate(how, direction, sigma, q, n, epsilon):
    precision(420 if how == "contour" else 260)
    pair = Pair(direction, sigma, q, n)
    if how == "direct":
        fine, last = 1.0 if n < 3 else 0.5, None
        while fine > 0.05:
            delta = pair.direct(exp(R(epsilon)), n, fine)
            if n == 1 or last is not None and abs(delta - last) < delta * R(10) ** -(DIGITS - 2 * (n == 3)):
                return log(mid(delta)) if delta > 0 else None
            fine, last = fine / (2 if n < 3 else 1.4), delta
        return None
    t = saddle_at(pair, epsilon)
    return None if t is None else contour(pair, epsilon, t)


def short(x, digits=6):
    return float(f"{float(x):.{digits}g}")


def rows():
    """the cases: (how, direction, sigma, q, n, epsilon)"""
    rng = random.Random(20240229)
    log_uniform = lambda a, b: float(mpmath.exp(rng.uniform(float(mpmath.log(a)), float(mpmath.log(b)))))
    directions = ("remove", "add", "replace")
    for i in range(60):  # n = 1, 2, 3; n = 3 is dear
        n = 1 if i < 18 else 2 if i < 57 else 3
        yield "direct", directions[i % 3], short(log_uniform(.3 if n < 3 else 1, 5)), (1.0 if i % 9 == 8 and n == 1 else short(log_uniform(1e-3, .9))), n, \
            log_uniform(1e-9, 1e-2)
    for direction in directions[:2]:
        for sigma, q, n in ((1.0, 1e-3, 10 ** 6), (10.0, 1e-3, 10 ** 5), (.8, .2, 100)):
            yield "contour", direction, sigma, q, n, 1e-25
    for k, (sigma, n) in enumerate(((5.0, 10), (50.0, 1000), (100.0, 10 ** 5), (1.0, 3), (.5, 1), (30.0, 10 ** 4))):
        for direction in directions:
            yield "contour", direction, sigma, 1.0, n, (1e-2, 1e-5, 1e-10, 1e-15, 1e-20, 1e-25)[k]
    for i in range(1, CONTOURS + 1):
        yield "contour", directions[i % 3], short(log_uniform(.3, 100)), short(log_uniform(1e-6, 1)), \
            int(log_uniform(4, 1e6)), log_uniform(1e-25 if i % 4 == 0 else 1e-12, 1e-2)
    rng.seed(1)
    for i in range(80):
        yield "direct", directions[i % 3], short(log_uniform(.4 if i % 3 < 2 else .8, 20)), short(log_uniform(1e-4, .9)), \
            1 if i < 15 else 2, log_uniform(1e-15, 1e-2)


def generate():
    for how, direction, sigma, q, n, delta in rows():
        precision(160)
        pair = Pair(direction, sigma, q, n)
        epsilon, _ = saddle_for(pair, float(mpmath.log(delta)))
        epsilon = short(epsilon, 7)
        value = evaluate(how, direction, sigma, q, n, epsilon) if epsilon > 0 else None
        if value is None or not -60 < float(value) < -4.5:
            print("left out:", how, direction, sigma, q, n, epsilon, value, file=sys.stderr, flush=True)
            continue
        print(how, direction, repr(sigma), repr(q), n, repr(epsilon), text(value), sep=";", flush=True)


def check(count, path):
    with open(path, encoding="ascii") as file:
        lines = [line.strip().split(";") for line in file if line.strip()]
    wrong = 0
    # three steps take minutes without python-flint
    lines = [line for line in lines if flint or not (line[0] == "direct" and line[4] == "3")]
    for i in range(count):
        how, direction, sigma, q, n, epsilon, value = lines[(2 * i + 1) * len(lines) // (2 * count)]
        again = evaluate(how, direction, float(sigma), float(q), int(n), float(epsilon))
        bad = again is None or not abs(again - R(value)) < R(10) ** -29 * abs(again)
        wrong += bad
        if bad:
            print("differs:", how, direction, sigma, q, n, epsilon, value, again)
    print(f"{count} rows recomputed, {wrong} differ")
    return wrong != 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--check":
        sys.exit(check(int(sys.argv[2]), sys.argv[3]))
    generate()
