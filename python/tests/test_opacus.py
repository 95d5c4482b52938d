# SPDX-License-Identifier: Apache-2.0
"""Opacus with this library's noise: its covariance over steps, checkpoints, and the epsilon that is reported."""

import io
import unittest
import warnings

import numpy as np
from support import KEY, Case, mechanism

import dpmf

try:
    import torch

    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    from opacus import PrivacyEngine
    from opacus.optimizers import DPOptimizer

    import dpmf.opacus
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

STEPS, WIDTH = 12, 20000


def make(m, clip=0.5, attach=True, batch=4, **options):
    """A linear model under Opacus: its loader in a fixed order, 12 batches of 4."""
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(48, 5), torch.randint(0, 3, (48,)))
    loader = torch.utils.data.DataLoader(data, batch_size=batch)
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=clip,
        poisson_sampling=False,
    )
    attached = None
    if attach:
        attached = dpmf.opacus.attach(optimizer, m, KEY, loader=loader, privacy_engine=engine, **options)
    return model, optimizer, loader, engine, attached


def train(model, optimizer, loader, first=0, last=STEPS):
    for t, (x, y) in enumerate(loader):
        if first <= t < last:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@unittest.skipIf(torch is None, "opacus is not installed")
class Opacus(Case):
    def test_the_noise_has_the_covariance_of_the_decoder(self):
        """Noise of a model whose gradients are zero: covariance W W' x scale^2; false alarm below 1e-9 an entry."""
        m = mechanism("tvblt", STEPS)
        p = torch.nn.Parameter(torch.zeros(WIDTH))
        optimizer = DPOptimizer(
            torch.optim.SGD([p], lr=1.0), noise_multiplier=3.0, max_grad_norm=2.0, expected_batch_size=4
        )
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4 * STEPS, 1)), batch_size=4)
        dpmf.opacus.attach(optimizer, m, KEY, loader=loader)
        x = []
        for _ in loader:
            before = p.detach().clone()
            p.grad_sample = torch.zeros(4, WIDTH)
            optimizer.step()
            optimizer.zero_grad()
            x.append((before - p.detach()).double().numpy() * 4)
        w = m.strategy.decoder() * 2.0 * 1.25 * m.sensitivity.value
        wanted, found = w @ w.T, np.stack(x) @ np.stack(x).T / WIDTH
        spread = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / WIDTH)
        self.assertLess(np.max(np.abs(found - wanted) / spread), 6.5)
        rows = m.noise(WIDTH, 2.0, KEY)
        np.testing.assert_allclose(np.stack(x), np.stack([rows.next() for _ in range(STEPS)]), atol=1e-4)

    def test_the_gradients_are_those_of_opacus(self):
        """Noise aside, Opacus' own step."""
        m = mechanism("tvblt", STEPS)
        model, optimizer, loader, _, _ = make(m)
        plain, its_optimizer, its_loader, _, _ = make(m, attach=False)
        rows = m.noise(18, 0.5, KEY)

        def add_noise():
            row = torch.from_numpy(rows.next()).split([p.numel() for p in its_optimizer.params])
            for p, part in zip(its_optimizer.params, row):
                p.grad = p.summed_grad + part.view_as(p)

        its_optimizer.add_noise = add_noise
        train(model, optimizer, loader)
        train(plain, its_optimizer, its_loader)
        torch.testing.assert_close(weights(model), weights(plain))

    def test_epsilon_is_that_of_the_whole_run(self):
        m = mechanism("bsr", STEPS, sigma=None, epsilon=3.0, delta=1e-5)
        for last in (0, 3, STEPS):
            model, optimizer, loader, engine, _ = make(m)
            train(model, optimizer, loader, last=last) if last else None
            self.assertAlmostEqual(engine.get_epsilon(1e-5), 3.0, places=6)
            self.assertEqual(len(engine.accountant), last)
        self.assertEqual(engine.accountant.mechanism(), "dpmf")

    def test_physical_batches_are_one_row(self):
        from opacus.utils.batch_memory_manager import BatchMemoryManager

        model, optimizer, loader, _, attached = make(mechanism("bsr", STEPS), batch=12)
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=5, optimizer=optimizer) as parts:
            sizes = []
            for x, y in parts:
                sizes.append(len(x))
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        self.assertEqual((attached.noise.step, len(sizes)), (4, 12))
        units, steps = attached._taken.log()
        self.assertEqual(units.tolist(), list(range(48)))
        self.assertEqual(steps.tolist(), [t for t in range(4) for _ in range(12)])

    def test_a_checkpoint_goes_on_with_the_same_weights(self):
        m = mechanism("tvblt", STEPS)
        whole, optimizer, loader, _, _ = make(m)
        train(whole, optimizer, loader)
        first, optimizer, loader, engine, _ = make(m)
        train(first, optimizer, loader, last=5)
        file = io.BytesIO()
        torch.save([first.state_dict(), optimizer.state_dict(), engine.accountant.state_dict()], file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        second, optimizer, loader, engine, _ = make(m)
        second.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        engine.accountant.load_state_dict(saved[2])
        self.assertEqual(len(engine.accountant), 5)
        train(second, optimizer, loader, first=5)
        self.assertTrue(torch.equal(weights(whole), weights(second)))
        bare = {name: part for name, part in saved[1].items() if name != "dpmf"}
        self.refused(dpmf.StateError, "no noise state", optimizer.load_state_dict, bare)
        self.refused(dpmf.StateError, "clip_norm", make(m, clip=0.25)[1].load_state_dict, saved[1])
        self.refused(dpmf.StateError, "sigma", make(mechanism("tvblt", STEPS, sigma=2.0))[1].load_state_dict, saved[1])
        self.refused(
            dpmf.StateError,
            "belongs to the mechanism",
            make(mechanism("bsr", STEPS))[3].accountant.load_state_dict,
            saved[2],
        )

    def test_other_optimizers_and_changed_settings_are_refused(self):
        m = mechanism("identity", 3)
        model, optimizer, loader, _, attached = make(m)
        self.refused(dpmf.ArgumentError, "DPOptimizer", dpmf.opacus.attach, torch.optim.SGD(model.parameters()), m)
        self.refused(dpmf.ArgumentError, "already", dpmf.opacus.attach, optimizer, m, loader=loader)
        x, y = next(iter(loader))
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.max_grad_norm = 1.0
        self.refused(dpmf.StateError, "max_grad_norm", optimizer.step)
        optimizer.max_grad_norm, optimizer.noise_multiplier = 0.5, 0.0
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        self.refused(dpmf.StateError, "noise_multiplier", optimizer.step)
        attached.detach()
        self.assertEqual(optimizer.noise_multiplier, 1.0)
        self.refused(dpmf.ArgumentError, "no sigma", dpmf.opacus.attach, optimizer, dpmf.evaluate("identity", 3))
        self.refused(dpmf.ArgumentError, "loader", dpmf.opacus.attach, optimizer, m)
        optimizer.zero_grad()
        model, optimizer, loader, _, _ = make(m)
        self.refused(dpmf.ArgumentError, "the mechanism has 3 steps", train, model, optimizer, loader)

    def test_one_call_is_the_two(self):
        m = mechanism("tvblt", STEPS, sigma=None, epsilon=3.0, delta=1e-5)
        model, optimizer, loader, _, _ = make(m)
        train(model, optimizer, loader)
        torch.manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(48, 5), torch.randint(0, 3, (48,)))
        other = torch.nn.Linear(5, 3)
        made = dpmf.opacus.make_private(
            other,
            torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9),
            torch.utils.data.DataLoader(data, batch_size=4),
            m,
            0.5,
            key=KEY,
        )
        train(made.model, made.optimizer, made.loader)
        self.assertTrue(torch.equal(weights(model), weights(made.model)))
        self.assertIn("exactly", made.attached.statement())


def make_ghost(m, batch=4, clip=0.5, sampler=None, **options):
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(48, 5), torch.randint(0, 3, (48,)))
    loader = torch.utils.data.DataLoader(data, batch_size=batch)
    if sampler is not None:
        loader = dpmf.torch.data_loader(data, dpmf.torch.BatchSampler(sampler, data, KEY, mechanism=m))
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return dpmf.opacus.make_private(model, optimizer, loader, m, clip, key=KEY, clipping="ghost", **options)


def train_ghost(made, loader=None):
    for x, y in loader or made.loader:
        made.optimizer.zero_grad()
        made.criterion(made.model(x), y).backward()
        made.optimizer.step()


@unittest.skipIf(torch is None, "opacus is not installed")
class Ghost(Case):
    def test_ghost_mode_gives_the_weights_of_the_exact_route(self):
        m = mechanism("tvblt", STEPS, sigma=None, epsilon=3.0, delta=1e-5)
        model, optimizer, loader, _, _ = make(m)
        train(model, optimizer, loader)
        for wrap in (True, False):
            made = make_ghost(m, wrap_model=wrap)
            train_ghost(made)
            torch.testing.assert_close(weights(model), weights(made.model), rtol=1e-4, atol=1e-5)
            self.assertIn("up to", made.attached.statement())

    def test_physical_batches_are_one_row(self):
        from opacus.utils.batch_memory_manager import BatchMemoryManager

        m = mechanism("bsr", STEPS)
        whole, parts = make_ghost(m, batch=12), make_ghost(m, batch=12)
        train_ghost(whole)
        with BatchMemoryManager(data_loader=parts.loader, max_physical_batch_size=5, optimizer=parts.optimizer) as loader:
            train_ghost(parts, loader)
        self.assertEqual(parts.attached.noise.step, 4)
        torch.testing.assert_close(weights(whole.model), weights(parts.model), rtol=1e-4, atol=1e-5)

    def test_a_sampler_says_the_expected_batch(self):
        m = mechanism("bsr", 8, participation="cyclic:2,4")
        made = make_ghost(m, sampler="cyclic:12")
        train_ghost(made)
        self.assertEqual((made.optimizer.expected_batch_size, made.attached.noise.step), (12, 8))
        self.assertFalse(made.attached.accountant.counted)

    def test_values_that_are_not_finite_raise_nothing(self):
        """Nothing is raised, nothing that is not finite is released."""
        made = make_ghost(mechanism("bsr", STEPS))
        for t, (x, y) in enumerate(made.loader):
            x[1, 2] = (float("nan"), float("inf"), 1e30, 1.0)[t % 4]
            made.optimizer.zero_grad()
            made.criterion(made.model(x), y).backward()
            made.optimizer.step()
        self.assertTrue(bool(torch.isfinite(weights(made.model)).all()))

    def test_what_is_missing_is_said(self):
        m = mechanism("bsr", STEPS)
        made = make_ghost(m)
        self.refused(dpmf.StateError, "no clipped gradients", made.optimizer.step)
        made.attached.detach()
        self.refused(dpmf.ArgumentError, "module", dpmf.opacus.attach, made.optimizer, m, loader=made.loader)
        self.refused(dpmf.ArgumentError, "clipping = 'flat'", dpmf.opacus.make_private, None, None, None, m, 1.0, clipping="flat")
        self.refused(dpmf.ArgumentError, "loader", dpmf.opacus.make_private, None, None, [], m, 1.0)


@unittest.skipIf(torch is None, "torch and opacus are not installed")
class Ledgers(Case):
    """Opacus' own optimizer with its steps in a ledger."""

    def test_steps_are_reserved_counted_and_refused(self):
        path = str(self.folder / "ledger.json")
        accountant = dpmf.opacus.LedgerAccountant(path, budget=(5.0, 1e-5))
        self.assertTrue(accountant.reserve(noise_multiplier=1.0, sample_rate=0.25, steps=3, name="first"))
        self.assertFalse(dpmf.Ledger(path).enter_account(1.0, name="first", sampling="poisson:0.25", steps=3))
        alone = dpmf.account(1.0, delta=1e-5, sampling="poisson:0.25", steps=3).epsilon
        self.assertEqual(accountant.get_epsilon(1e-5), alone)
        with self.assertRaises(dpmf.UnsupportedError):
            accountant.reserve(noise_multiplier=0.5, sample_rate=0.25, steps=100)
        self.assertEqual(len(dpmf.Ledger(path)), 1)

        torch.manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(16, 5), torch.randint(0, 3, (16,)))
        engine = PrivacyEngine(accountant="rdp")
        engine.accountant = accountant  # as Opacus' own are: history, hook and state
        model = torch.nn.Linear(5, 3)
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=4),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        taken = 0
        with self.assertRaises(dpmf.StateError):
            for _ in range(3):
                for x, y in loader:
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(x), y).backward()
                    before = [p.detach().clone() for p in model.parameters()]
                    optimizer.step()
                    taken += 1
        self.assertEqual((taken, len(accountant)), (3, 3))
        for p, q in zip(model.parameters(), before):  # the step that was not reserved moved nothing
            self.assertTrue(torch.equal(p, q))
        self.assertEqual(accountant.history, [(1.0, 0.25, 3)])
        again = dpmf.opacus.LedgerAccountant(path)
        again.load_state_dict(accountant.state_dict())
        self.assertFalse(again.reserve(noise_multiplier=1.0, sample_rate=0.25, steps=3, name="first"))
        with self.assertRaises(dpmf.StateError):
            again.step(noise_multiplier=1.0, sample_rate=0.25)
        self.assertEqual(len(dpmf.Ledger(path)), 1)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
