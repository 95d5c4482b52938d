# SPDX-License-Identifier: Apache-2.0
"""Attacks by batches: who takes part in which step, in which process, and which parameters get noise."""

import shutil
import subprocess
import sys
import unittest
import warnings

from story import HERE, KEY, Case, Inner, dpmf, inner_loss, mechanism, torch

try:
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    from opacus import PrivacyEngine

    import dpmf.opacus
except ImportError:
    PrivacyEngine = None

STEPS, EPOCHS, EXAMPLES, BATCH = 12, 3, 24, 6


def designed():
    return mechanism(
        "bsr", STEPS, sigma=None, epsilon=3.0, delta=1e-5, participation="cyclic:%d,%d" % (EPOCHS, STEPS // EPOCHS)
    )


def numbers():
    """A data set whose examples know their number."""
    x = torch.randn(EXAMPLES, 5, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(x, torch.arange(EXAMPLES))


def ours(m=None, **options):
    m = m or designed()
    model = Inner(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = dpmf.torch.BatchSampler("cyclic:%d" % BATCH, numbers(), KEY, mechanism=m)
    options = {"sampler": sampler, "key": KEY, "loss": inner_loss, **options}
    private = dpmf.torch.make_private(model, optimizer, m, 1.0, **options)
    return model, optimizer, private, dpmf.torch.data_loader(numbers(), sampler)


@unittest.skipIf(torch is None, "torch is not installed")
class Drift(Case):
    def test_a_failed_step_is_skipped(self):
        """A training loop catches an exception (for example out of memory) and continues with the next batch.

        Before, all later examples moved by one row of noise: away from the steps that the participation allows them. Now a
        batch carries its step, and the step says that it is the wrong one.
        """
        model, _, private, loader = ours()
        batches = iter(loader)
        private.step(*next(batches))
        next(batches)  # its step failed
        self.refused(dpmf.StateError, "drawn for step 2", private.step, *next(batches))
        self.assertEqual(private.steps_taken, 1)
        for x, y in loader:  # a new iterator begins where the noise is
            private.step(x, y)
        self.assertEqual(private.steps_taken, STEPS)

    def test_two_batches_in_one_step(self):
        """Gradient accumulation over two batches of the loader: before, one row for both, and rows to spare for a second
        round of the data. Now the second is refused; parts of one batch are one step as ever.
        """
        model, _, private, loader = ours()
        batches = iter(loader)
        x, y = next(batches)
        private.accumulate(x[:2], y[:2])
        private.accumulate(x[2:], y[2:])
        self.refused(dpmf.StateError, "drawn for step 1", private.accumulate, *next(batches))
        private.step()
        self.assertEqual(private.steps_taken, 1)

    def test_a_batch_twice_in_one_step(self):
        """The same batch accumulated twice: every example counts double. Before: taken."""
        model, _, private, loader = ours()
        x, y = next(iter(loader))
        private.accumulate(x, y)
        self.refused(dpmf.StateError, "12 examples for step 0, and its batch has 6", private.accumulate, x, y)

    def test_parameters_without_noise(self):
        """add_param_group, or requires_grad_(True) on a frozen layer, after make_private.

        Before, the optimizer stepped such parameters with raw gradients, or with ones that are older. Now the parameters are
        looked at in every step.
        """
        model, optimizer, private, loader = ours()
        batches = iter(loader)
        private.step(*next(batches))
        model.more = torch.nn.Parameter(torch.zeros(2))
        optimizer.add_param_group({"params": [model.more]})
        self.refused(dpmf.StateError, "without noise", private.step, *next(batches))

        class Two(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(5, 4), torch.nn.Linear(4, EXAMPLES)

            def forward(self, x):
                return self.b(self.a(x))

        model, m = Two(), designed()
        model.a.requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sampler = dpmf.torch.BatchSampler("cyclic:%d" % BATCH, numbers(), KEY, mechanism=m)
        private = dpmf.torch.make_private(model, optimizer, m, 1.0, sampler=sampler, key=KEY)
        batches = iter(dpmf.torch.data_loader(numbers(), sampler))
        private.step(*next(batches))
        model.a.requires_grad_(True)
        frozen = model.a.weight.detach().clone()
        x, y = next(batches)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        self.refused(dpmf.StateError, "without noise", private.step, x, y)
        self.assertTrue(torch.equal(model.a.weight, frozen))

    def test_resumed_with_another_sampler(self):
        """A run stops at step 6 and is resumed, and the sampler has another key: BatchSampler's default, a new one in every process.

        Before, the checkpoint knew nothing of the sampler. The second half drew from all examples again, so that some took part
        twice under a mechanism for one participation: 2 was printed where epsilon was 3.56. Now a keyless sampler beside a key file is
        refused, the checkpoint has a keyed hash of all that the batches follow from, and another sampler is refused before the noise
        moves, under Opacus too.
        """
        m = mechanism("toeplitz", STEPS, sigma=None, epsilon=2.0, delta=1e-5, participation="single")

        def begin(key=KEY, what="shuffled:2", noise=KEY, **options):
            sampler = dpmf.torch.BatchSampler(what, numbers(), key, mechanism=m, **options)
            model = Inner(5)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            private = dpmf.torch.make_private(model, optimizer, m, 1.0, 2, sampler=sampler, key=noise, loss=inner_loss)
            return private, dpmf.torch.data_loader(numbers(), sampler)

        def attached(key=KEY, what="shuffled:2", noise=KEY, **options):
            sampler = dpmf.torch.BatchSampler(what, numbers(), key, mechanism=m, **options)
            net = torch.nn.Linear(5, EXAMPLES)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            loader = dpmf.torch.data_loader(numbers(), sampler)
            return dpmf.opacus.make_private(net, optimizer, loader, m, 1.0, key=noise).attached, loader

        for make in [begin] + ([attached] if PrivacyEngine is not None else []):
            run, loader = make()
            seen = []
            for x, y in loader if make is begin else ():
                run.step(x, y)
                seen += y.tolist()
                if run.steps_taken == 6:
                    break
            saved = run.optimizer.state_dict()
            for other in ({"key": dpmf.testing_key(9)}, {"label": "b"}, {"what": "cyclic:2"}, {"what": "shuffled:1"}):
                late, _ = make(**other)
                self.refused(dpmf.StateError, "another sampler", late.optimizer.load_state_dict, saved)
                self.assertEqual(late.noise.step, 0)
            self.refused(dpmf.StateError, "the sampler's key", make(key=None)[0].optimizer.state_dict)
            self.refused(dpmf.ArgumentError, "the sampler's key", make, key=None, noise=self.folder / "run.key")
            late, loader = make()
            late.optimizer.load_state_dict(saved)
            for x, y in loader if make is begin else ():
                late.step(x, y)
                seen += y.tolist()
            self.assertEqual(len(set(seen)), len(seen))
            self.assertNotIn(str(EXAMPLES), str(saved["dpmf"]["taken"]))  # add-remove adjacency hides the number of examples

    def test_old_states_and_the_datas_own_order(self):
        """Batches in the data's own order follow from no key, and need none to go on; other sizes of them are other batches."""
        _, optimizer, private, loader = ours()
        private.step(*next(iter(loader)))
        saved = optimizer.state_dict()
        keyless = dpmf.torch.BatchSampler("cyclic:%d" % BATCH, numbers(), mechanism=designed())
        late = ours(sampler=keyless)[2]
        late.optimizer.load_state_dict(saved)
        self.assertEqual(late.steps_taken, 1)
        saved["dpmf"]["taken"] = {}  # of a version that did not record it
        ours()[2].optimizer.load_state_dict(saved)
        saved["dpmf"]["taken"] = {"sampler": "cyclic:5", "units": EXAMPLES, "steps": STEPS}
        self.refused(dpmf.StateError, "cyclic:5", ours()[2].optimizer.load_state_dict, saved)

    def test_one_secret_sampler_for_two_runs(self):
        """A search over learning rates makes one BatchSampler, or several with one key, and a run for each rate.

        Before, all runs had the same Poisson batches, each with its own noise. Two such runs are one with less noise: epsilon 5.26
        where a ledger, which assumes that every run draws its own batches, had 2.53. Now the first step of the second run is refused,
        and nothing of it is released. The same run may go on, in a second object too.
        """
        m = dpmf.evaluate("identity", STEPS, sampling="poisson:0.25", epsilon=2.0, delta=1e-5)

        def sampler(label=None):
            return dpmf.torch.BatchSampler.for_mechanism(m, numbers(), dpmf.testing_key(71), label=label)

        def step(batches, key):
            model = Inner(5)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            private = dpmf.torch.make_private(model, optimizer, m, 1.0, sampler=batches, key=key, loss=inner_loss)
            private.step(*next(iter(dpmf.torch.data_loader(numbers(), batches))))
            return private

        def attached(batches, key):
            net = torch.nn.Linear(5, EXAMPLES)
            made = dpmf.opacus.make_private(
                net, torch.optim.SGD(net.parameters(), lr=0.1), dpmf.torch.data_loader(numbers(), batches), m, 1.0, key=key
            )
            x, y = next(iter(made.loader))
            made.criterion(made.model(x), y).backward()
            made.optimizer.step()

        one, key = sampler(), dpmf.testing_key(72)
        step(one, key).close()
        step(one, key).close()  # the same run once more: the same noise
        for batches in (one, sampler()):
            for second in [step] + ([attached] if PrivacyEngine is not None else []):
                self.refused(dpmf.StateError, "the same secret batches", second, batches, dpmf.testing_key(73))
        self.assertEqual(step(sampler("second"), dpmf.testing_key(73)).steps_taken, 1)
        in_order = dpmf.torch.BatchSampler("cyclic:%d" % BATCH, numbers(), KEY, mechanism=designed())
        for key in (key, dpmf.testing_key(73)):  # batches that are no secret may come as often as they like
            private, loader = ours(sampler=in_order, key=key)[2:]
            private.step(*next(iter(dpmf.torch.data_loader(numbers(), in_order))))

    def test_any_loader_without_a_sampler(self):
        """make_private without a sampler, and a loader that shuffles.

        Before, Private.epsilon was that of the design, 3, for any loader; by the actual participations it was more. Now a
        step without the examples' numbers is refused, a loader is counted, and epsilon is that of the actual run.
        """
        m = designed()
        model = Inner(5)
        private = dpmf.torch.make_private(
            model, torch.optim.SGD(model.parameters(), lr=0.1), m, 1.0, BATCH, key=KEY, loss=inner_loss
        )
        x, y = numbers()[:BATCH]
        self.assertRaises(dpmf.StateError, private.step, x, y)
        log = []
        loader = torch.utils.data.DataLoader(
            numbers(), batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(2)
        )
        model, _, private, _ = ours(sampler=loader, expected_batch=BATCH)
        for _ in range(EPOCHS):
            for x, y in loader:
                log += [(int(unit), private.steps_taken) for unit in y]
                private.step(x, y)
        wanted = m.observed_privacy(*zip(*log)).epsilon
        self.assertGreater(wanted, 3.1)
        self.assertAlmostEqual(private.epsilon, wanted, places=9)
        self.assertIn("the actual run", private.statement())

    def test_a_loader_that_is_read_ahead(self):
        """A prefetcher around the loader holds one batch while it reads the next, as those for GPUs do.

        Before, the batch that was read last was counted in the place of the one that was used: examples that were in all
        6 steps were counted once, and epsilon was 1.5 in place of 4. Now tensors know which batch of the loader they are;
        where they were moved or changed and forgot it, and more than one batch is out, the step is refused.
        """
        m = mechanism("identity", 6, sigma=None, epsilon=4.0, delta=1e-5, participation="full")

        class Batches:  # in every epoch the same examples first, and then others
            epoch = 0

            def __iter__(self):
                self.epoch += 1
                yield list(range(3))
                yield list(range(3 * self.epoch, 3 * self.epoch + 3))

            def __len__(self):
                return 2

        def ahead(batches):
            held = None
            for batch in batches:
                if held is not None:
                    yield held
                held = batch
            yield held

        for wrap in (lambda batches: batches, ahead):
            for moved in (False, True):
                loader = torch.utils.data.DataLoader(numbers(), batch_sampler=Batches())
                model, _, private, _ = ours(m, sampler=loader, expected_batch=3)
                refused = 0
                for _ in range(6):
                    for x, y in wrap(loader):
                        self.assertEqual(y.tolist(), [0, 1, 2])
                        try:
                            private.step(x.clone() if moved else x, y.clone() if moved else y)
                        except dpmf.StateError as error:
                            self.assertIn("cannot be counted", str(error))
                            refused += 1
                        break
                if moved and wrap is ahead:
                    self.assertEqual((refused, private.steps_taken), (6, 0))
                    private.discard()  # the caller says that they are never used: one batch at a time from here on
                    private.step(*[part.clone() for part in next(iter(loader))])
                else:
                    self.assertEqual(private.steps_taken, 6)
                    self.assertAlmostEqual(private.epsilon, 4.0, places=6)

    def test_going_back_forgets_who_took_part(self):
        """A counted run releases 12 steps, and then the checkpoint of step 0 is loaded, in the same process or after a crash.

        Before, the log of the checkpoint was all that was counted: epsilon 0, "No example has taken part yet", although 12 models were
        out. Now a process keeps the log of what it has released itself; and while the state file has rows that no log here knows,
        there is no epsilon.
        """
        m = mechanism("toeplitz", STEPS, sigma=None, epsilon=8.0, delta=1e-5, participation="full")
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))

        def make(key):
            model = Inner(5)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            return dpmf.torch.make_private(model, optimizer, m, 1.0, 4, key=key, loss=inner_loss)

        def train(private, steps):
            for _ in range(steps):
                private.step(x, torch.zeros(4), units=range(4))

        for key in (KEY, self.folder / "run.key"):
            private = make(key)
            saved = private.optimizer.state_dict()
            train(private, STEPS)
            self.assertAlmostEqual(private.epsilon, 8.0, places=6)
            private.optimizer.load_state_dict(saved)
            self.assertAlmostEqual(private.epsilon, 8.0, places=6)
            later = private.optimizer.state_dict()  # its log has the steps that were released after it
            private.close()
        private = make(self.folder / "run.key")  # after a crash
        private.optimizer.load_state_dict(saved)
        for ask in (private.privacy, private.statement, lambda: private.epsilon):
            self.refused(dpmf.StateError, "who took part in step 0 and 11 more is not known", ask)
        train(private, STEPS - 1)
        self.refused(dpmf.StateError, "who took part in step 11 is not known", private.privacy)
        train(private, 1)
        self.assertAlmostEqual(private.epsilon, 8.0, places=6)
        private.close()
        private = make(self.folder / "run.key")
        private.optimizer.load_state_dict(later)
        self.assertAlmostEqual(private.epsilon, 8.0, places=6)


@unittest.skipIf(PrivacyEngine is None, "opacus is not installed")
class Opacus(Case):
    def make(self, shuffle):
        model, engine = torch.nn.Linear(5, EXAMPLES), PrivacyEngine()
        loader = torch.utils.data.DataLoader(
            numbers(), batch_size=BATCH, shuffle=shuffle, generator=torch.Generator().manual_seed(2)
        )
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=loader,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
        )
        return model, optimizer, loader, engine

    def train(self, model, optimizer, loader):
        log, step = [], 0
        for _ in range(EPOCHS):
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                log += [(int(unit), step) for unit in y]
                step += 1
        return log

    def test_without_the_loader(self):
        """attach took an optimizer alone, and said 3 for every loader. Now it asks for the loader."""
        _, optimizer, _, _ = self.make(True)
        self.refused(dpmf.ArgumentError, "loader", dpmf.opacus.attach, optimizer, designed(), KEY)

    def test_a_loader_that_shuffles(self):
        """Before, 3 was printed where a unit's own steps give more (11.2 in the worst run). Now they are counted."""
        m = designed()
        model, optimizer, loader, engine = self.make(True)
        attached = dpmf.opacus.attach(optimizer, m, KEY, loader=loader, privacy_engine=engine)
        log = self.train(model, optimizer, loader)
        self.assertTrue(attached.accountant.counted)
        wanted = m.observed_privacy(*zip(*log)).epsilon
        self.assertGreater(wanted, 3.1)
        self.assertAlmostEqual(engine.get_epsilon(1e-5), wanted, places=9)
        model, optimizer, loader, engine = self.make(False)  # in the data's own order: as designed
        attached = dpmf.opacus.attach(optimizer, m, KEY, loader=loader, privacy_engine=engine)
        self.train(model, optimizer, loader)
        self.assertFalse(attached.accountant.counted)
        self.assertAlmostEqual(engine.get_epsilon(1e-5), 3.0, places=6)

    def test_attached_twice(self):
        """A second attach under a first, as a notebook's cell run again does: before, two streams, one of them unseen."""
        _, optimizer, loader, _ = self.make(False)
        dpmf.opacus.attach(optimizer, designed(), KEY, loader=loader)
        self.refused(dpmf.ArgumentError, "already", dpmf.opacus.attach, optimizer, designed(), KEY, loader=loader)

    def test_a_logical_batch_that_is_broken_off(self):
        """BatchMemoryManager gives a large batch in parts; the loop ends after the first part (an exception), and begins again.

        Before, the batch of the new iterator was taken for the next part of the old one: an example that was used in 12 steps was
        recorded in none of them, and epsilon was 1.9 where it was 8. Now the old batch is over when a new iterator begins: the step
        counts it and the new one.
        """
        from opacus.utils.batch_memory_manager import BatchMemoryManager

        class Batches:  # the first of two iterators has a batch of three parts, with examples that are never seen again
            begun = 0

            def __iter__(self):
                self.begun += 1
                first = 4 + 12 * (self.begun // 2)
                yield list(range(first, first + 12)) if self.begun % 2 else [0, 1, 2, 3]

            def __len__(self):
                return 1

        m = mechanism("identity", STEPS, sigma=None, epsilon=8.0, delta=1e-5, participation="full")
        count = 4 + 12 * STEPS
        x = torch.randn(count, 5, generator=torch.Generator().manual_seed(1))
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, torch.arange(count)), batch_sampler=Batches())
        net = torch.nn.Linear(5, count)
        made = dpmf.opacus.make_private(
            net, torch.optim.SGD(net.parameters(), lr=0.1), loader, m, 1.0, key=KEY, expected_batch=4
        )
        log = set()
        for epoch in range(2 * STEPS):
            with BatchMemoryManager(data_loader=made.loader, max_physical_batch_size=4, optimizer=made.optimizer) as parts:
                for x, y in parts:
                    made.optimizer.zero_grad()
                    made.criterion(made.model(x), y).backward()
                    log |= {(int(unit), made.attached.noise.step) for unit in y}
                    made.optimizer.step()
                    if epoch % 2 == 0:
                        break
        self.assertEqual(made.attached.noise.step, STEPS)
        counted = set(zip(*(part.tolist() for part in made.attached._taken.log())))
        self.assertEqual(log - counted, set())
        self.assertAlmostEqual(m.observed_privacy(*zip(*log)).epsilon, 8.0, places=6)
        self.assertGreaterEqual(made.engine.get_epsilon(1e-5), 8.0 - 1e-6)

    def test_skipped_steps_parameters_and_nan(self):
        """The same drifts under Opacus: a skipped batch, new parameters; and one example whose gradient is NaN, which went
        through Opacus' sums into the weights.
        """
        model, optimizer, loader, _ = self.make(False)
        attached = dpmf.opacus.attach(optimizer, designed(), KEY, loader=loader)
        batches = iter(loader)

        def step(x, y):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

        x, y = next(batches)
        x[2, 1] = float("nan")
        step(x, y)
        self.assertTrue(all(bool(torch.isfinite(p).all()) for p in model.parameters()))
        next(batches)
        self.refused(dpmf.StateError, "not the one", step, *next(batches))
        self.assertEqual(attached.noise.step, 1)
        frozen = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
        optimizer.param_groups[0]["params"].append(frozen)
        frozen.grad = torch.ones(3)  # torch's optimizers step every parameter with a gradient
        self.refused(dpmf.StateError, "without noise", step, x, y)


@unittest.skipIf(torch is None, "torch is not installed")
class Processes(Case):
    def test_several_processes(self):
        """Two processes train together, and the script sets neither rank= nor world=.

        Before, each took the whole batch and the all-reduce counted every example twice: twice the sensitivity under the
        same noise. Now each takes its part, from the process group; a sampler that disagrees with the group, one that was
        made for this process alone, and none at all are refused. The weights are, to the bit, those of one process.
        """
        (alone,) = self.together(1)
        self.assertEqual(self.together(2), [["refused"] * 3 + alone] * 2)

    def together(self, world, *more, code=0, folder=None):
        """Runs `world` processes and returns what each printed."""
        folder = folder or self.folder
        (folder / "store").unlink(missing_ok=True)
        processes = [
            subprocess.Popen(
                [sys.executable, str(HERE / "processes.py"), str(folder), str(rank), str(world), *map(str, more)],
                stdout=subprocess.PIPE,
            )
            for rank in range(world)
        ]
        said = [process.communicate(timeout=300)[0].decode().splitlines() for process in processes]
        self.assertEqual([process.returncode for process in processes], [code] * world, said)
        return said

    def test_samplers_that_differ(self):
        """Each process makes a sampler with its own key, while the noise has one key.

        Before, only the noise's keys were compared: both processes drew their own batches and took their part of them. 47
        participations in 10 steps were of an example that the other process had drawn too, which then moved the sum by two clip
        norms, and epsilon was printed as designed. Now the sampler's text, units, steps and label and a commitment to its
        key are compared, in both processes, and under Opacus too.
        """
        routes = ["torch"] + (["opacus"] if PrivacyEngine is not None else [])
        command = [sys.executable, str(HERE / "samplers.py"), str(self.folder)]
        processes = [subprocess.Popen(command + [str(rank), *routes], stdout=subprocess.PIPE) for rank in range(2)]
        said = [process.communicate(timeout=300)[0].decode().splitlines() for process in processes]
        refused = ["%s: the processes do not have the same sampler" % what for what in ("own keys", "own labels", "other data")]
        wanted = refused + ["the same: 0"] + (refused + ["the same: attached"] if PrivacyEngine is not None else [])
        self.assertEqual(said, [wanted, wanted])

    def test_resumed_together(self):
        """Two processes with a key file end without a message at step 4, and resume from the checkpoint of step 2.

        Before, each needed a state file of its own, and with one for both the second was locked out. Now the first process
        keeps the one of all: the same bits as one process that was never interrupted; and with other data a row that was
        used is refused, in both processes, so that neither waits for the other.
        """
        one = self.folder / "one"
        one.mkdir()
        for folder in (self.folder, one):
            (folder / "run.key").write_bytes(KEY)
            (folder / "run.key").chmod(0o600)
        with mechanism("bsr", 5).noise(7, 1.0, self.folder / "run.key", state_now=True):
            pass  # a state file before its first row: its copy has the same noise
        shutil.copy(self.folder / "run.key.state", one / "run.key.state")
        (alone,) = self.together(1, 0, folder=one)
        self.together(2, 4, code=9)
        self.assertEqual(self.together(2, 0, 1)[0][0], "refused at step 2")
        self.assertEqual(self.together(2, 0), [alone, alone])
        self.assertTrue((self.folder / "run.key.state").exists())


if __name__ == "__main__":
    unittest.main(warnings="ignore")
