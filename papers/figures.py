# SPDX-License-Identifier: Apache-2.0
"""Figures that take more than one run of the program: noise of training runs, stamps, a shortcut of a paper.

The noise of a training run is compared as McKenna 2024 does: noise multiplier x RMS loss, for n steps, k epochs and b bands.

    amplified       sigma(epsilon, delta; ceil(n/b) steps of the Poisson-subsampled Gaussian with probability k b/n)
                    x RMS loss of the best Toeplitz C of b bands, columns normalized     (Propositions 2.1 and 2.2)
    not amplified   sigma(epsilon, delta; one Gaussian) x RMS loss with the sensitivity of k passes

Noise multipliers under sampling are proven upper bounds. Each function takes the program first; FUNCTIONS has those
that the data files name, with the arguments that they are given there.
"""
import math
import operator

DELTA = 1e-8  # of all figures of McKenna 2024 that depend on privacy


# ---- losses of banded strategies, single participation ----

def toeplitz_loss(program, steps, bands):
    """RMS loss of the best Toeplitz C of this many bands, with its columns normalized afterwards."""
    return program.ask("optimize --family banded-toeplitz --bands %d --steps %d --normalize after"
                       % (bands, steps))["rms_loss"]


def banded_optimum(program, steps, bands):
    """Bounds of the least RMS loss of this many bands. Above 4096 steps the last digits would take most of the time."""
    tolerance = "" if steps <= 4096 else " --tolerance 1e-3" if bands <= 16 else " --tolerance 0.1"
    return program.ask("optimize --family banded --bands %d --steps %d%s" % (bands, steps, tolerance))["optimum"]


def banded_loss(program, steps, bands):
    return banded_optimum(program, steps, bands)["upper"]


def square_root_loss(program, steps, bands):
    return program.ask("evaluate --family bsr --bands %d --steps %d" % (bands, steps))["rms_loss"]


def toeplitz_over_banded(program, steps, bands):
    return toeplitz_loss(program, steps, bands) / banded_loss(program, steps, bands)


def toeplitz_over_lower_bound(program, steps, bands):
    return toeplitz_loss(program, steps, bands) / banded_optimum(program, steps, bands)["lower"]


def banded_over_lower_bound(program, steps, bands):
    found = banded_optimum(program, steps, bands)
    return found["upper"] / found["lower"]


def square_root_over_banded(program, steps, bands):
    return square_root_loss(program, steps, bands) / banded_loss(program, steps, bands)


def square_root_over_toeplitz(program, steps, bands):
    return square_root_loss(program, steps, bands) / toeplitz_loss(program, steps, bands)


# ---- noise of training runs ----

def gaussian_sigma(program, epsilon, compositions=1):
    return program.ask("account --epsilon %r --delta %r --compositions %d" % (epsilon, DELTA, compositions))["sigma"]


def tried_bands(steps, epochs):
    """Powers of two below steps/epochs, and steps/epochs."""
    most = steps // epochs
    return [2 ** i for i in range(most.bit_length()) if 2 ** i < most] + [most]


def rule_bands(epsilon, steps, epochs):
    """epsilon sqrt(n)/k bands (McKenna 2024, Section 4), as a power of two that is possible."""
    rule, bands = epsilon * math.sqrt(steps) / epochs, 1
    while bands * 1.5 < rule and 2 * bands <= steps // epochs:
        bands *= 2
    return bands


def noise(program, epsilon, steps, epochs, bands):
    """RMS of the noise in the sum of clipped gradients, amplified; `bands`: a number, "best", "all" or "rule".

    "full batch": full batches in all steps, with independent noise. The batches of k epochs have k/n of the data, so that
    k/n of this noise is the same in the average gradient.
    """
    if bands == "full batch":
        return gaussian_sigma(program, epsilon, steps) * toeplitz_loss(program, steps, 1) * epochs / steps
    if bands == "best":
        return min(noise(program, epsilon, steps, epochs, tried) for tried in tried_bands(steps, epochs))
    if bands == "all":  # nothing is gained from sampling
        bands = steps // epochs
    if bands == "rule":
        bands = rule_bands(epsilon, steps, epochs)
    sampling = "block-cyclic:%r,%d" % (epochs / steps, bands)
    sigma = program.ask("account --epsilon %r --delta %r --compositions %d --sampling %s"
                        % (epsilon, DELTA, steps, sampling))["sigma"]
    return sigma * toeplitz_loss(program, steps, bands)


def best_bands(program, epsilon, steps, epochs):
    return min(tried_bands(steps, epochs), key=lambda tried: noise(program, epsilon, steps, epochs, tried))


def noise_ratio(program, epsilon, steps, epochs, bands, over):
    return noise(program, epsilon, steps, epochs, bands) / noise(program, epsilon, steps, epochs, over)


# ---- the same of other mechanisms, which are made for passes in a fixed order ----

RIVALS = {"tree": "evaluate --family tree-online", "square root": "evaluate --family toeplitz",
          "BLT": "optimize --family blt --buffers 5", "BLT, 2 buffers": "optimize --family blt --buffers 2"}


def stamped_total(block, stamps):
    """Total squared loss of a strategy for prefix sums that is restarted this many times, from the answer for one stamp.

    Stamp s has in every step the error of the sums of the s - 1 complete stamps before it, too. Each unit has its part of
    the participations in every stamp, so the squared sensitivities add up.
    """
    squares = [error * error for error in block["per_step_error"]]  # with the sensitivity
    complete = len(squares) * squares[-1] * stamps * (stamps - 1) / 2
    return stamps * (stamps * sum(squares) + complete)


def rival_loss(program, rival, steps, epochs):
    if rival == "stamping":  # the optimum of one epoch: within 1e-4, by a stream of 8 nodes, as any length is wanted
        block = program.ask("optimize --family tvblt --buffers 8 --steps %d --per-step" % (steps // epochs))
        return math.sqrt(stamped_total(block, epochs) / steps)
    passes = "single" if epochs == 1 else "cyclic:%d,%d" % (epochs, steps // epochs)
    return program.ask("%s --steps %d --participation %s" % (RIVALS[rival], steps, passes))["rms_loss"]


def rival_noise(program, rival, epsilon, steps, epochs):
    if rival == "DP-SGD":
        return noise(program, epsilon, steps, epochs, 1)
    if rival == "not amplified":  # normalized columns of steps/epochs bands do not overlap in the steps of one unit
        return gaussian_sigma(program, epsilon) * toeplitz_loss(program, steps, steps // epochs) * math.sqrt(epochs)
    return gaussian_sigma(program, epsilon) * rival_loss(program, rival, steps, epochs)


def rival_over_best(program, rival, epsilon, steps, epochs):
    return rival_noise(program, rival, epsilon, steps, epochs) / noise(program, epsilon, steps, epochs, "best")


def rival_over_unamplified(program, rival, epsilon, steps, epochs):
    return (rival_noise(program, rival, epsilon, steps, epochs)
            / rival_noise(program, "not amplified", epsilon, steps, epochs))


def best_over_next_best(program, epsilon, steps, epochs):
    """Over the best of the others that are not the paper's own."""
    return 1 / min(rival_over_best(program, rival, epsilon, steps, epochs)
                   for rival in ["DP-SGD", "stamping", *RIVALS])


# ---- the error taken as settled after m steps (McKenna 2024, Appendix I) ----

def dot(a, b):
    return sum(map(operator.mul, a, b))


def settled_error(c, steps, m):
    """E = sum_{i<m} w_i^2 + (n - m) x^2 with w = C^-1 1 and x = 1/sum c, which w tends to, and its gradient.

    With v = C^-T (2 w) over the first m steps, dE/dc_j = -sum_i v_i w_{i-j} - 2 (n - m) x^3.
    """
    bands, x, turned = len(c), 1 / sum(c), c[:0:-1]

    def solve(right):
        out = [0.0] * (bands - 1)  # zeros before the first step
        for i, value in enumerate(right):
            out.append((value - dot(turned, out[i:])) / c[0])
        return out[bands - 1:]

    w = solve([1.0] * m)
    v = solve([2 * value for value in reversed(w)])[::-1]
    gradient = [-dot(v[j:], w) - 2 * (steps - m) * x ** 3 for j in range(bands)]
    return dot(w, w) + (steps - m) * x * x, gradient


def minimize(function, at, flat=1e-11, remembered=20):
    """L-BFGS: where the gradient of `function`, which returns its value and gradient, is at most `flat`."""
    value, gradient = function(at)
    pairs = []
    for _ in range(500):
        if math.sqrt(dot(gradient, gradient)) <= flat:
            return at
        step, scales = [-g for g in gradient], []
        for s, y, sy in reversed(pairs):
            scales.append(dot(s, step) / sy)
            step = [p - scales[-1] * q for p, q in zip(step, y)]
        if pairs:
            s, y, sy = pairs[-1]
            step = [sy / dot(y, y) * p for p in step]
        for (s, y, sy), scale in zip(pairs, reversed(scales)):
            change = scale - dot(y, step) / sy
            step = [p + change * q for p, q in zip(step, s)]
        slope, length = dot(step, gradient), 1.0
        while True:
            there = [p + length * q for p, q in zip(at, step)]
            found, found_gradient = function(there)
            if found <= value + 1e-4 * length * slope + 1e-15 * abs(value):
                break
            length /= 2
            if length < 1e-10:
                raise ArithmeticError("no descent at a gradient of %g" % math.sqrt(dot(gradient, gradient)))
        s = [p - q for p, q in zip(there, at)]
        y = [p - q for p, q in zip(found_gradient, gradient)]
        if dot(s, y) > 0:
            pairs = pairs[1 - remembered:] + [(s, y, dot(s, y))]
        at, value, gradient = there, found, found_gradient
    raise ArithmeticError("no minimum in 500 steps")


def settled_over_best(program, steps, bands, m):
    """Max loss of the coefficients that are best if the error is taken as settled, over the least max loss."""
    best = program.ask("optimize --family banded-toeplitz --bands %d --steps %d --loss max" % (bands, steps))

    def logarithm(c):  # of |c|^2 E, which does not depend on the scale of c
        if c[0] <= 0 or sum(c) <= 0:
            return math.inf, c
        square = dot(c, c)
        error, gradient = settled_error(c, steps, m)
        return math.log(square * error), [2 * p / square + q / error for p, q in zip(c, gradient)]

    found = minimize(logarithm, best["parameters"]["coefficients"])
    return program.ask("evaluate --family banded-toeplitz --bands %d --steps %d" % (bands, steps),
                       coefficients=found)["max_loss"] / best["max_loss"]


FUNCTIONS = {function.__name__: function for function in [
    banded_loss, toeplitz_over_banded, toeplitz_over_lower_bound, banded_over_lower_bound, square_root_over_banded,
    square_root_over_toeplitz, noise, best_bands, noise_ratio, rival_over_best, rival_over_unamplified,
    best_over_next_best, settled_over_best]}
