# SPDX-License-Identifier: Apache-2.0
"""Attacks on runs under Opacus, and by loaders: steps without noise, loaders that do not fit, divisors that reveal the data's size."""

import math
import unittest
import warnings
from unittest import mock

from story import KEY, Case, Inner, dpmf, inner_loss, mechanism, torch

try:
    from opacus import PrivacyEngine
    from opacus.optimizers import DPOptimizer

    import dpmf.audit
    import dpmf.opacus
except ImportError:
    PrivacyEngine = None

STEPS, EXAMPLES, BATCH = 12, 60, 10


def designed(**options):
    options = {"sigma": None, "epsilon": 2.0, "delta": 1e-5, "participation": "cyclic:2,6", **options}
    return mechanism("bsr", STEPS, **options)


def data(examples=EXAMPLES):
    generator = torch.Generator().manual_seed(1)
    return torch.utils.data.TensorDataset(
        torch.randn(examples, 20, generator=generator), torch.randint(0, 2, (examples,), generator=generator)
    )


def loader(shuffle=False, batch=BATCH):
    return torch.utils.data.DataLoader(data(), batch_size=batch, shuffle=shuffle)


def make(m, batches, **options):
    net = torch.nn.Linear(20, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return net, optimizer, dpmf.opacus.make_private(net, optimizer, batches, m, clip_norm=1.0, key=KEY, **options)


@unittest.skipIf(PrivacyEngine is None, "opacus is not installed")
class RawSteps(Case):
    def step(self, made, optimizer):
        x, y = next(iter(made.loader))
        optimizer.zero_grad()
        made.criterion(made.model(x), y).backward()
        optimizer.step()

    def test_the_old_optimizer(self):
        """A training loop keeps the name `optimizer`, which is the object that was given to make_private, not the one it returned.

        Before, that object stepped with raw gradients, no row of noise was used, and epsilon was printed as designed. Now it is
        disarmed: it steps inside a step of Opacus' optimizer that has added noise, and nowhere else.
        """
        for clipping in ("per-example", "ghost"):
            net, optimizer, made = make(designed(), loader(), clipping=clipping)
            before = net.weight.detach().clone()
            for old in (optimizer, made.optimizer.original_optimizer):
                self.refused(dpmf.StateError, "without noise", self.step, made, old)
            self.assertTrue(torch.equal(net.weight, before))
            self.step(made, made.optimizer)
            self.assertEqual(made.attached.noise.step, 1)
            self.assertFalse(torch.equal(net.weight, before))
            self.refused(dpmf.StateError, "without noise", self.step, made, optimizer)

    def test_steps_after_detach(self):
        """The noise is taken off in the middle of a run: before, engine.get_epsilon and the statement went on as designed."""
        _, optimizer, made = make(designed(), loader())
        self.step(made, made.optimizer)
        made.attached.detach()
        self.assertAlmostEqual(made.engine.get_epsilon(1e-5), 2.0)
        optimizer.step()  # the caller's again
        self.refused(dpmf.StateError, "after detach()", made.engine.get_epsilon, 1e-5)
        self.refused(dpmf.StateError, "after detach()", made.attached.statement)

    def test_an_engine_that_forgets(self):
        """The same model is trained in several runs, and the engine is asked for epsilon.

        Before, a new accountant took the place of one that had steps: 174.6 after Opacus' own steps became 2.0, and five runs of
        epsilon 2, which are 5.0 together, were 2.0.
        """
        net, engine = torch.nn.Linear(20, 2), PrivacyEngine()
        model, optimizer, batches = engine.make_private(
            module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), data_loader=loader(),
            noise_multiplier=0.3, max_grad_norm=1.0, poisson_sampling=False,
        )

        def epoch():
            for x, y in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()

        epoch()
        spent = engine.get_epsilon(1e-5)
        run = {"loader": batches, "privacy_engine": engine}
        self.refused(dpmf.ArgumentError, "has steps already", dpmf.opacus.attach, optimizer, designed(), KEY, **run)
        self.assertEqual(engine.get_epsilon(1e-5), spent)
        run["privacy_engine"] = other = PrivacyEngine()
        first = dpmf.opacus.attach(optimizer, designed(), KEY, **run)
        epoch()
        self.assertNotIn("earlier run", first.statement())
        first.detach()
        self.assertAlmostEqual(other.get_epsilon(1e-5), 2.0)
        again = (optimizer, designed(), dpmf.testing_key(8))
        self.refused(dpmf.ArgumentError, "has steps already", dpmf.opacus.attach, *again, **run)
        second = dpmf.opacus.attach(*again, loader=batches)
        epoch()
        self.refused(dpmf.StateError, "after detach()", other.get_epsilon, 1e-5)
        self.refused(dpmf.StateError, "after detach()", first.statement)
        self.assertIn("earlier run", second.statement())

    def test_one_engine_for_several_models(self):
        """All are made before one takes a step: the engine has the epsilon of the last alone, and refuses it once another has
        steps. An engine whose accountant is a ledger is refused, because the ledger would not see the run.
        """
        engine = PrivacyEngine()
        made = [make(designed(), loader(), privacy_engine=engine)[2] for _ in range(3)]
        self.step(made[2], made[2].optimizer)
        self.assertAlmostEqual(engine.get_epsilon(1e-5), 2.0)
        self.step(made[0], made[0].optimizer)
        self.refused(dpmf.StateError, "has replaced", engine.get_epsilon, 1e-5)
        self.assertIn("epsilon = 2", made[2].attached.statement())  # which is of that run
        engine.accountant = dpmf.opacus.LedgerAccountant(str(self.folder / "ledger.json"))
        self.refused(dpmf.ArgumentError, "has a ledger", make, designed(), loader(), privacy_engine=engine)

    def test_parameters_that_are_frozen_for_a_step(self):
        """Opacus takes an optimizer without trained parameters for one that needs no noise, and lets its step through.

        So gradients that are there when all parameters are frozen went out raw. Now such a step is refused too.
        """
        net, _, made = make(designed(), loader())
        before = net.weight.detach().clone()
        x, y = next(iter(made.loader))
        made.criterion(made.model(x), y).backward()
        for p in net.parameters():
            p.requires_grad_(False)
        self.refused(dpmf.StateError, "without noise", made.optimizer.step)
        self.assertTrue(torch.equal(net.weight, before))

    def test_two_wrappers_around_one_optimizer(self):
        """Two of Opacus' optimizers wrap the same one: before, both were accepted, each with its own stream and count of steps."""
        p = torch.nn.Parameter(torch.zeros(20))
        sgd = torch.optim.SGD([p], lr=0.1)
        first, second = (DPOptimizer(sgd, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=4) for _ in range(2))
        dpmf.opacus.attach(first, designed(), KEY, loader=loader())
        self.refused(dpmf.ArgumentError, "already", dpmf.opacus.attach, second, designed(), KEY, loader=loader())

    def test_weights_that_are_not_finite(self):
        """A learning rate takes the weights to infinity, or a model begins with NaN: every later gradient is NaN and adds 0.

        Before, such a run went silently to its end under Opacus, and its statement had no word about it.
        """
        for clipping in ("per-example", "ghost"):
            _, optimizer, made = make(designed(), loader(), clipping=clipping)
            optimizer.param_groups[0]["lr"] = float("inf")
            self.refused(dpmf.NumericalError, "not finite after step 0", self.step, made, made.optimizer)
            self.assertIn("the model is of no use", made.attached.statement())
            net, _, made = make(designed(), loader(), clipping=clipping)
            with torch.no_grad():
                net.bias[0] = float("nan")
            self.refused(dpmf.NumericalError, "bias is not finite before step 0", self.step, made, made.optimizer)
            self.assertEqual(made.attached.noise.step, 0)

    def test_batches_that_are_never_used(self):
        """A loop skips a batch of a counted loader. Before, the error named discard(), and there was none under Opacus."""
        _, _, made = make(designed(), loader(shuffle=True))
        batches = iter(made.loader)
        next(batches)

        def step():
            x, y = next(batches)
            made.optimizer.zero_grad()
            made.criterion(made.model(x), y).backward()
            made.optimizer.step()

        self.refused(dpmf.StateError, "call discard()", step)
        made.attached.discard()
        step()
        units, steps = made.attached._taken.log()
        self.assertEqual((len(set(units.tolist())), set(steps.tolist())), (BATCH, {0}))
        self.assertEqual(made.attached.noise.step, 1)

    def test_learning_rate_schedules_keep_working(self):
        """A scheduler puts its own step on the optimizer, before or after; the guard must let both through."""
        for early in (True, False):
            net, engine = torch.nn.Linear(20, 2), PrivacyEngine()
            model, optimizer, batches = engine.make_private(
                module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), data_loader=loader(),
                noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False,
            )
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if early else None
            attached = dpmf.opacus.attach(optimizer, designed(), KEY, loader=batches)
            schedule = schedule or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            for x, y in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                schedule.step()
            self.assertEqual(attached.noise.step, 6)
            self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.1 / 64)

    def test_an_audit_finds_raw_steps(self):
        """The same attack planted where the guard is taken off: canaries through Opacus with the old optimizer.

        The honest run stays below its claim, and the planted one is far above it.
        """
        m = designed()
        honest = dpmf.audit.opacus_run(m, 120, key=dpmf.testing_key(1))
        self.assertTrue(honest.ok, honest)
        whole = dpmf.opacus.make_private

        def planted(model, optimizer, *arguments, **options):
            made = whole(model, optimizer, *arguments, **options)
            made.attached._disarmed.remove()
            return made._replace(optimizer=optimizer)

        with mock.patch.object(dpmf.opacus, "make_private", planted):
            found = dpmf.audit.opacus_run(m, 120, key=dpmf.testing_key(1))
        self.assertFalse(found.ok, found)


@unittest.skipIf(PrivacyEngine is None, "opacus is not installed")
class GhostSums(Case):
    """Ghost clipping by Opacus: what one example of a batch adds to the released sum."""

    EXAMPLES, CLIP = 100, 0.5

    def released(self, x, y, criterion, step, net=None):
        """The noisy sum of one step, in clip norms, with noise that is always the same."""
        net = torch.nn.Linear(5, 1, bias=False) if net is None else net
        with torch.no_grad():
            for p in net.parameters():
                p.fill_(1.0)
        before = torch.cat([p.detach().reshape(-1).double() for p in net.parameters()])
        made = dpmf.opacus.make_private(
            net, torch.optim.SGD(net.parameters(), lr=1.0),
            torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x)),
            mechanism("identity", 1, sigma=None, epsilon=1.0, delta=1e-5), clip_norm=self.CLIP, key=KEY, clipping="ghost",
            criterion=criterion,
        )
        for inputs, targets in made.loader:
            made.optimizer.zero_grad()
            step(made, inputs, targets)
            made.optimizer.step()
        after = torch.cat([p.detach().reshape(-1).double() for p in net.parameters()])
        return (before - after) * len(x) / self.CLIP

    def moved(self, change, step, shape=(EXAMPLES, 1), criterion=None, net=lambda: None):
        """By how many clip norms does one example move the sum, whose gradient is 0 before `change`?"""
        found = []
        for changed in (False, True):
            generator = torch.Generator().manual_seed(0)
            x = 0.2 * torch.randn(self.EXAMPLES, 5, generator=generator)
            y = x.sum(1) + 0.1 * torch.randn(self.EXAMPLES, generator=generator)
            y[7] = x[7].sum()
            change(x, y) if changed else None
            found.append(self.released(x, y.reshape(shape), criterion or torch.nn.MSELoss(), step, net()))
        return float((found[0] - found[1]).norm())

    @staticmethod
    def far(x, y):
        y[7] += 10.0

    @staticmethod
    def plain(made, x, y):
        made.criterion(made.model(x), y).backward()

    def test_losses_with_a_dimension_too_many(self):
        """Regression with outputs (examples, 1), so that the losses have this shape too.

        Before, the factors (examples,) times these losses were a matrix: every loss was multiplied with the sum of all factors,
        nothing was clipped, and one example moved the sum by 201.5 clip norms.
        """
        for shape in ((self.EXAMPLES, 1), (self.EXAMPLES,)):
            net = (lambda: None) if len(shape) == 2 else lambda: torch.nn.Sequential(
                torch.nn.Linear(5, 1, bias=False), torch.nn.Flatten(0)
            )
            self.assertLess(self.moved(self.far, self.plain, shape, net=net), 1.001)

    def test_losses_that_are_not_one_for_each_example(self):
        """Losses of parts of an example, or one loss of the whole batch: a batch of one sequence gave the sum of its losses, with the
        factor of their mean; and a criterion that adds up itself gave every example the factors of all.
        """

        class Added(torch.nn.Module):
            reduction = "mean"

            def forward(self, outputs, targets):
                return (outputs - targets).square().mean()

        self.refused(dpmf.ArgumentError, "losses of shape ()", self.moved, self.far, self.plain, criterion=Added())
        x, y = torch.ones(1, 5), torch.zeros(9)

        def sequence(made, inputs, targets):
            made.criterion(made.model(inputs).reshape(-1), targets.reshape(-1)).backward()

        self.refused(
            dpmf.ArgumentError, "losses of shape (9,) for 1 examples", self.released, x, y.reshape(1, 9), torch.nn.MSELoss(), sequence,
            torch.nn.Linear(5, 9),
        )

    def test_another_loss_after_the_clipped_one(self):
        """An auxiliary loss has its own backward() before the step, or a loop writes into .grad: before, what it added was taken
        for clipped, and one example moved the sum by 63.3 clip norms.
        """

        def second(made, x, y):
            self.plain(made, x, y)
            made.model(x).sum().backward()

        def written(made, x, y):
            self.plain(made, x, y)
            for p in made.model.parameters():
                p.grad = torch.full_like(p, 1e3)

        for step in (second, written):
            self.refused(dpmf.StateError, "beside the clipped ones", self.moved, self.far, step)

    def test_another_loss_before_the_clipped_one(self):
        """The auxiliary loss first: its gradients are not in the sum, as under Opacus itself."""

        def first(made, x, y):
            made.model(x).sum().backward()
            self.plain(made, x, y)

        self.assertLess(self.moved(self.far, first), 1.001)

    def test_weights_that_are_used_outside_of_their_layer(self):
        """Hooks do not see a product with another layer's weight, or a penalty on the weights.

        The norms lacked that part, and the sums had it: one example moved them by 7.5 clip norms.
        """

        class Direct(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(5, 1, bias=False)

            def forward(self, x):
                return self.layer(1e-3 * x) + x @ self.layer.weight.t()

        def penalty(made, x, y):
            (made.criterion(made.model(x), y) + 10 * next(made.model.parameters()).square().sum()).backward()

        for net, step in ((Direct, self.plain), (lambda: None, penalty)):
            self.refused(dpmf.UnsupportedError, "weight is used without a call of its layer", self.moved, self.far, step, net=net)

    def test_norms_of_an_earlier_batch(self):
        """A layer is used by the first batch and not by the second. Before, the norms of the first stayed on its parameters, and an
        example of the first batch decided how strongly one of the second was clipped.
        """

        class Branch(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.both, self.first = torch.nn.Linear(5, 2), torch.nn.Linear(5, 2)
                self.steps = 0

            def forward(self, x):
                self.steps += 1
                return self.both(x) + (self.first(x) if self.steps == 1 else 0)

        found = []
        for secret in (0.0, 100.0):
            x, y = torch.ones(20, 5), torch.zeros(20, dtype=torch.long)
            x[7] = secret
            torch.manual_seed(1)
            net = Branch()
            made = dpmf.opacus.make_private(
                net, torch.optim.SGD(net.parameters(), lr=0.0),
                torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=10),
                mechanism("identity", 2, participation="single"), clip_norm=1.0, key=KEY, clipping="ghost",
            )
            for inputs, targets in made.loader:
                made.optimizer.zero_grad()
                self.plain(made, inputs, targets)
                made.optimizer.step()
            found.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
        self.assertTrue(torch.equal(*found))

    def test_a_statement_names_what_is_left_out(self):
        """One NaN takes its whole physical batch out of the sum, 100 clip norms here, and no route through Opacus' passes can avoid it.

        Before, the statement named the epsilon without this condition. The exact route leaves out the example alone.
        """
        x, y = torch.ones(self.EXAMPLES, 5), torch.zeros(self.EXAMPLES, 1)
        said = {}

        def step(made, inputs, targets):
            self.plain(made, inputs, targets)
            said["ghost"] = made.attached.statement()

        found = [self.released(x, y, torch.nn.MSELoss(), step)]
        x[7, 0] = float("nan")
        found.append(self.released(x, y, torch.nn.MSELoss(), step))
        self.assertGreater(float((found[0] - found[1]).norm()), self.EXAMPLES - 1)
        self.assertIn("Holds for data whose gradients are finite", said["ghost"])
        self.assertNotIn("Holds for data whose", make(designed(), loader())[2].attached.statement())

    def test_an_audit_of_ghost_clipping(self):
        """Canaries whose outputs have a dimension too many: before, the audit had no such run; and with Opacus' own product it
        finds them out.
        """
        m = designed()
        run = {"key": dpmf.testing_key(1), "clipping": "ghost"}
        honest = dpmf.audit.opacus_run(m, 120, **run)
        self.assertTrue(honest.ok, honest)
        with mock.patch.object(dpmf.opacus.attached.Factors, "scaled", lambda self, losses: self._factors * losses.reshape(-1, 1)):
            found = dpmf.audit.opacus_run(m, 120, **run)
        self.assertFalse(found.ok, found)


@unittest.skipIf(PrivacyEngine is None, "opacus is not installed")
class Loaders(Case):
    def warned(self, function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = function()
        return made, [str(w.message) for w in caught if "not those that the mechanism assumes" in str(w.message)]

    def attach(self, m, poisson=False, **how):
        net, engine = torch.nn.Linear(20, 2), PrivacyEngine()
        model, optimizer, batches = engine.make_private(
            module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), data_loader=loader(**how),
            noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=poisson,
        )
        dpmf.opacus.attach(optimizer, m, KEY, loader=batches, privacy_engine=engine)
        return model, optimizer, batches, engine

    def run_all(self, made):
        model, optimizer, batches, engine = made
        while len(engine.accountant) < STEPS:
            for x, y in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                if len(engine.accountant) == STEPS:
                    break
        return engine.get_epsilon(1e-5)

    def test_loaders_that_do_not_fit(self):
        """A mechanism for batches in a fixed order, 6 an epoch, under loaders that shuffle, draw at random, or have half the batches.

        Before, all of them were counted without a word: a mechanism of epsilon 8 ended at 11 to 39, and get_epsilon was 0 before
        the first step, also in the documentation's example "of the whole run". Now attach warns with the epsilon that the
        whole run can come to, which the actual run then stays below, and there is no epsilon before anything has happened.
        """
        m = designed()
        for how in ({"shuffle": True}, {"batch": 2 * BATCH}, {"poisson": True}):
            made, said = self.warned(lambda: self.attach(m, **how))
            self.assertEqual(len(said), 1, how)
            self.assertIn("(cyclic:2,6)", said[0])
            most = float(said[0].partition("epsilon = ")[2].split()[0])
            self.refused(dpmf.StateError, "no example has taken part yet", made[3].get_epsilon, 1e-5)
            found = self.run_all(made)
            self.assertGreater(found, 2.0)
            self.assertLessEqual(found, most * 1.001)
        made, said = self.warned(lambda: self.attach(m))
        self.assertEqual(said, [])
        self.assertAlmostEqual(made[3].get_epsilon(1e-5), 2.0)  # of the whole run, from the start
        self.assertAlmostEqual(self.run_all(made), 2.0)

    def test_the_same_in_torch(self):
        """dpmf.torch.make_private with any DataLoader counts too, and warns too."""
        net = torch.nn.Linear(20, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        _, said = self.warned(
            lambda: dpmf.torch.make_private(net, optimizer, designed(), 1.0, BATCH, sampler=loader(shuffle=True), key=KEY)
        )
        self.assertEqual(len(said), 1)


@unittest.skipIf(torch is None, "torch is not installed")
class Divisors(Case):
    def test_the_divisor_reveals_the_number_of_examples(self):
        """Under add-remove adjacency neighbours have N and N + 1 examples, and a sampler's expected batch is N q.

        Before, sums were divided by it: the size of the noise told 150 examples from 151 in 30 of 30 runs, which a guarantee
        of epsilon 1 allows in 22. Now the divisor is a number from the caller, and the updates of both data sets are alike.
        """
        for sampling in ("poisson:0.1", "allocation:1,4", "balls-in-bins:4"):
            m = dpmf.evaluate("identity", 4, sampling=sampling, adjacency="add-remove", epsilon=1, delta=1e-5)
            spread = {}
            for n in (150, 151):
                model = Inner(4000)
                optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
                examples = torch.utils.data.TensorDataset(torch.zeros(n, 4000), torch.zeros(n))
                sampler = dpmf.torch.BatchSampler.for_mechanism(m, examples, KEY)
                options = {"sampler": sampler, "key": KEY, "loss": inner_loss}
                self.refused(
                    dpmf.ArgumentError, "add-remove", dpmf.torch.make_private, model, optimizer, m, 1.0, **options
                )
                private = dpmf.torch.make_private(model, optimizer, m, 1.0, 16, **options)
                for x, y in dpmf.torch.data_loader(examples, sampler):
                    private.step(x, y)
                private.close()
                spread[n] = float(model.w.detach().double().std())
            self.assertEqual(spread[150], spread[151], sampling)
            self.assertAlmostEqual(spread[150] * 16 / (m.sigma * m.sensitivity.value * 2), 1.0, delta=6 / math.sqrt(8000))

    def test_loaders_that_move_other_examples(self):
        """Any loader with fixed batches: an example more moves the others, which add-remove adjacency does not allow for.

        Before, only this library's samplers were checked for it, and a loader was counted under the mechanism's epsilon.
        """
        m = mechanism("identity", 4, sigma=None, epsilon=1.0, delta=1e-5, adjacency="add-remove", participation="cyclic:1,4")
        model = Inner(20)
        options = {"sampler": torch.utils.data.DataLoader(data(), batch_size=15), "key": KEY, "loss": inner_loss}
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        self.refused(dpmf.ArgumentError, "add-remove", dpmf.torch.make_private, model, optimizer, m, 1.0, 15, **options)

    def test_the_grid_of_the_sums(self):
        """The grid that gradients are rounded to follows from the largest batch that can come, which is N under these samplers.

        It is a power of two, and so two numbers of examples beside one meant two grids in the released digits.
        """
        m = dpmf.evaluate("identity", 4, sampling="poisson:0.001", adjacency="add-remove", epsilon=1, delta=1e-5)
        grids = set()
        for n in (2**20, 2**20 + 1, 2**22):
            model = Inner(3)
            sampler = dpmf.torch.BatchSampler.for_mechanism(m, n, KEY)
            private = dpmf.torch.make_private(
                model, torch.optim.SGD(model.parameters(), lr=1.0), m, 1.0, 1000, sampler=sampler, key=KEY, loss=inner_loss
            )
            grids.add(private._sum.grid)
            private.close()
        self.assertEqual(len(grids), 1)

    @unittest.skipIf(PrivacyEngine is None, "opacus is not installed")
    def test_the_same_under_opacus(self):
        """Opacus divides by the data's size over the number of batches; its loaders of fixed batches are refused anyway."""
        m = dpmf.evaluate("identity", 4, sampling="poisson:0.1", adjacency="add-remove", epsilon=1, delta=1e-5)
        batches = dpmf.torch.data_loader(data(), dpmf.torch.BatchSampler.for_mechanism(m, data(), KEY))
        self.refused(dpmf.ArgumentError, "add-remove", make, m, batches)
        _, _, made = make(m, batches, expected_batch=8)
        self.assertEqual(made.optimizer.expected_batch_size, 8)

    @unittest.skipIf(PrivacyEngine is None, "opacus is not installed")
    def test_parts_of_a_secret_batch(self):
        """A batch that does not fit is taken in parts of 8, with one backward() for each and one step for all.

        Opacus divides by the number of parts too: the size of the noise told how large the secret batch was, and was half or a
        third of what it should be. Now parts give what the whole batch gives.
        """
        m = dpmf.evaluate("identity", 8, sampling="poisson:0.2", adjacency="add-remove", epsilon=1, delta=1e-5)
        found, parts = [], set()
        for most in (EXAMPLES, 8):
            drawn = dpmf.torch.BatchSampler.for_mechanism(m, data(), KEY)
            torch.manual_seed(1)
            net, _, made = make(m, dpmf.torch.data_loader(data(), drawn), expected_batch=12)
            for x, y in made.loader:
                made.optimizer.zero_grad()
                pieces = list(zip(x.split(most), y.split(most)))
                parts.add(len(pieces))
                for inputs, targets in pieces:
                    made.criterion(made.model(inputs), targets).backward()
                made.optimizer.step()
            found.append(net.weight.detach().clone())
        self.assertGreater(len(parts), 1)
        torch.testing.assert_close(*found)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
