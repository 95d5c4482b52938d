# SPDX-License-Identifier: Apache-2.0
"""Correlated-noise mechanisms for differential privacy.

    mechanism = dpmf.design(steps=1000, epochs=4, epsilon=8, delta=1e-5, workload="momentum:0.9")
    noise = mechanism.noise([w.shape for w in weights], clip_norm=1.0, key="run.key")
    noise.add_(gradient_sums)                 # at every step, to the sums of the clipped gradients

Beside it there are `dpmf.torch`, `dpmf.federated`, `dpmf.opacus`, `dpmf.jax` and `dpmf.interchange`.
"""
from ._abi import DPMF_VERSION as __version__
from .compose import compose, read_losses, write_losses
from .counter import Counter
from .design import Candidate, Design, design
from .errors import (ArgumentError, ArgumentTypeError, CancelledError, ClosedError, Error, FileError, FormatError, NumericalError,
                     OutOfMemoryError, StateError, UnsupportedError)
from .keys import create_key, testing_key
from .lazy import LazyNoise
from .ledger import Ledger
from .make import Spectrum, evaluate, evaluate_spectrum, load, optimize, save
from .mechanism import Certificate, Check, LowerBound, Mechanism, Sensitivity, Verification
from .noise import NO_STATE, NoiseStream
from .parametric import optimize_parametric
from .plan import Plan, PlanPoint, plan
from .privacy import Privacy, account, best_of, calibrate
from .problem import Family, Participation, Strategy, Workload, families
from .query import Answer, bands, deviation, query
from .risk import Risk, calibrate_risk, risk
from .sampler import Sampler
from .users import UserSampler, at_most

__all__ = [
    "Answer", "ArgumentError", "ArgumentTypeError", "CancelledError", "Candidate", "Certificate", "Check", "ClosedError",
    "Counter", "Design", "Error", "Family", "FileError", "FormatError", "LazyNoise", "Ledger", "LowerBound", "Mechanism",
    "NO_STATE",
    "NoiseStream", "NumericalError", "OutOfMemoryError",
    "Participation", "Plan", "PlanPoint", "Privacy", "Risk", "Sampler", "Sensitivity", "Spectrum", "StateError", "Strategy", "UnsupportedError", "UserSampler",
    "Verification",
    "Workload", "__version__", "account", "at_most", "bands", "best_of", "calibrate", "calibrate_risk", "compose", "create_key", "design", "deviation", "evaluate",
    "evaluate_spectrum",
    "families", "load", "optimize", "optimize_parametric", "plan", "query", "read_losses", "risk", "save",
    "testing_key", "write_losses",
]
