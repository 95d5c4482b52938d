# SPDX-License-Identifier: Apache-2.0
"""A mechanism as people look at it: in sentences, as plain numbers, in a notebook, in pictures."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, List, Optional

import numpy as np

from . import errors

if TYPE_CHECKING:
    from .mechanism import Mechanism

WIDTH, HEIGHT, POINTS = 360, 110, 180


class Display:
    """What Mechanism has for this."""

    # ---- in words ----

    def statement(self: Any, unit: Optional[str] = None) -> str:
        """The guarantee of the whole run in sentences: who is protected, how well, and by what; `unit` as in Privacy.statement.

        >>> from dpmf import evaluate
        >>> print(evaluate("toeplitz", 100, epsilon=1.0, delta=1e-6).statement().split(".")[0][:60])
        All noisy outputs of the run together - every intermediate m
        """
        if self.sigma is None:
            return "The mechanism is not calibrated: it has no sigma, and claims no guarantee.\n"
        if self.delta is None:
            return "The mechanism has sigma = %.7g and claims no (epsilon, delta); privacy(delta) computes one.\n" % self.sigma
        return self.privacy().statement(unit)

    def to_dict(self: Any) -> "dict[str, Any]":
        """What it is and its figures, as plain numbers and strings: for logs and JSON. `save` keeps all of it.

        >>> from dpmf import evaluate
        >>> figures = evaluate("identity", 4, sigma=2.0).to_dict()
        >>> figures["family"], figures["sigma"], figures["sensitivity"]["kind"]
        ('identity', 2.0, 'exact')
        """
        sensitivity, bound = self.sensitivity, self.lower_bound
        return {
            "family": self.family,
            "steps": self.steps,
            "workload": self.workload.text,
            "participation": self.participation.text,
            "sampling": self.sampling,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "most_participations": self.participation.count if self.sampling == "none" else None,
            "separation": self.participation.separation if self.sampling == "none" else None,
            "bands": self.bands,
            "buffers": self.buffers,
            "sigma": self.sigma,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sensitivity": {
                "value": sensitivity.value,
                "kind": sensitivity.kind,
                "method": sensitivity.method,
                "columns": sensitivity.columns,
            },
            "rms_loss": self.rms_loss,
            "max_loss": self.max_loss,
            "lower_bound": {"rms_loss": bound.rms_loss, "max_loss": bound.max_loss, "scope": bound.scope},
            "ratio": self.ratio,
            "made_by": self.made_by,
            "digest": self.digest,
        }

    def _repr_html_(self: Any) -> str:
        """For notebooks: the figures as a table, and the error over the steps as a picture."""
        return table_and_picture(self)

    # ---- pictures ----

    def plot_error(self: Any, axes: Any = None, **style: Any) -> Any:
        """Standard deviation of every step's answer, with matplotlib; gives the axes."""
        axes = _axes(axes)
        axes.plot(np.arange(self.steps), self.per_step_error, **{"label": self.family, **style})
        axes.set(xlabel="step", ylabel="standard deviation (clip norm 1)")
        return axes

    def plot_coefficients(self: Any, axes: Any = None, **style: Any) -> Any:
        """First column of C, with matplotlib; gives the axes."""
        axes = _axes(axes)
        axes.plot(self.strategy.column(0)[: self.steps], **{"label": self.family, **style})
        axes.set(xlabel="step", ylabel="first column of C")
        return axes


def _cell(value: Any) -> str:
    return html.escape("%.6g" % value if isinstance(value, float) else str(value))


def table_and_picture(mechanism: "Mechanism") -> str:
    """HTML with an SVG in it; nothing is loaded from elsewhere."""
    rows: List[str] = []
    figures = {**mechanism.to_dict(), "sensitivity": "%.6g (%s)" % (mechanism.sensitivity.value, mechanism.sensitivity.kind)}
    figures["unit"] = figures["unit"] or "not recorded"
    for name in ("steps", "workload", "participation", "unit", "sampling", "bands", "buffers", "sensitivity"):
        rows.append("<tr><th>%s</th><td>%s</td></tr>" % (name, _cell(figures[name])))
    for name in ("sigma", "epsilon", "delta", "rms_loss", "max_loss", "ratio"):
        if figures[name] is not None:
            rows.append("<tr><th>%s</th><td>%s</td></tr>" % (name.replace("_", " "), _cell(figures[name])))
    return '<div class="dpmf"><b>Mechanism: %s</b><table>%s</table>%s</div>' % (
        _cell(mechanism.family),
        "".join(rows),
        _picture(mechanism.per_step_error),
    )


def _picture(errors: np.ndarray) -> str:
    """The largest error of each part of the steps, so that a peak is not lost between two points."""
    parts = np.array([part.max() for part in np.array_split(errors, min(POINTS, len(errors)))])
    top = float(parts.max()) or 1.0
    at = np.linspace(4, WIDTH - 4, len(parts)) if len(parts) > 1 else np.array([WIDTH / 2])
    points = " ".join("%.1f,%.1f" % (x, HEIGHT - 4 - (HEIGHT - 24) * y / top) for x, y in zip(at, parts))
    return (
        '<svg width="%d" height="%d" role="img"><title>standard deviation of every step\'s answer (clip norm 1)</title>'
        '<text x="4" y="12" font-size="11" fill="currentColor">standard deviation by step, at most %.4g</text>'
        '<polyline points="%s" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>' % (WIDTH, HEIGHT, top, points)
    )


def _axes(axes: Any) -> Any:
    if axes is not None:
        if not callable(getattr(axes, "plot", None)):
            raise errors.ArgumentTypeError("axes is a %s, axes of matplotlib are accepted" % type(axes).__name__)
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise errors.UnsupportedError("matplotlib is not installed: pip install matplotlib, or give axes=") from None
    return pyplot.figure().add_subplot()
