# SPDX-License-Identifier: Apache-2.0
"""Correlated noise for Opacus: its hooks and data loading, this library's clipping, noise and accounting.

    made = dpmf.opacus.make_private(model, optimizer, loader, mechanism, clip_norm=1.0, key="run.key")

or, where PrivacyEngine.make_private is called already, beside it:

    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader,
                                                   noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False)
    dpmf.opacus.attach(optimizer, mechanism, key="run.key", loader=loader, privacy_engine=engine)

The noise multiplier given to Opacus is replaced by the mechanism's. Batches must be drawn as the mechanism assumes
(`mechanism.participation`, `mechanism.sampling`): a loader in a fixed order for cyclic participation, for one. The loader is
checked against that; one that cannot be is counted, and the reported epsilon is that of the actual run.

Ghost clipping (grad_sample_mode="ghost") is accepted with a weaker statement, `Attached.statement`: norms are Opacus' own, and
they and the sums are in floating point. The criterion gives one loss for each example, and weights are used by calls of their
layers alone. An example whose gradient is not finite has the factor 0; where its NaN gets into the sum of
its physical batch nevertheless, that sum is left out, because releasing it or refusing it would tell of the example. What is
left out is then more than one example's part, so that the guarantee holds for data without such values only; dpmf.torch's
own ghost route computes such batches again without the example.
"""

from .accountants import Accountant, LedgerAccountant
from .attached import Attached
from .make import Made, attach, make_private

__all__ = ["Accountant", "Attached", "LedgerAccountant", "Made", "attach", "make_private"]
