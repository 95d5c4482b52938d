# SPDX-License-Identifier: Apache-2.0
"""Attacks on the gradients of single examples: one example changes those of the others, or leaves by another door."""

import unittest
import warnings

from story import KEY, Case, dpmf, mechanism, torch

try:
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    import opacus

    import dpmf.opacus
except ImportError:
    opacus = None

CLIP = 0.1


def whole(steps=2, **options):
    """A mechanism in which every example may be in every step."""
    return mechanism("identity", steps, sigma=None, epsilon=1.0, delta=1e-5, participation="full", **options)


def make(model, expected=10, **options):
    m = options.pop("m", None) or whole()
    sgd = torch.optim.SGD(model.parameters(), lr=options.pop("lr", 0.0))
    return dpmf.torch.make_private(model, sgd, m, options.pop("clip", CLIP), expected, **{"key": KEY, **options})


def sum_of(private, x, y, units):
    """The sum that the step would release with its noise, in clip norms."""
    units = list(units)
    private.accumulate(x[units], y[units], units=units)
    found = private._sum.whole.double() * (private._sum.grid / private.clip_norm)
    private.discard()
    return found


def moved(private, x, y, left_out):
    """How far the sum moves when one example is left out."""
    everybody = range(len(x))
    others = [i for i in everybody if i != left_out]
    return float((sum_of(private, x, y, everybody) - sum_of(private, x, y, others)).norm())


@unittest.skipIf(torch is None, "torch is not installed")
class Roundings(Case):
    def test_small_layers_in_batches_of_varying_sizes(self):
        """A kernel rounds every other row otherwise, and one made-up example had the same bits in both: who left moved the others."""
        for act in (torch.nn.Tanh, torch.nn.Sigmoid, torch.nn.ReLU):
            torch.manual_seed(2)
            model = torch.nn.Sequential(torch.nn.Linear(6, 5), act(), torch.nn.Linear(5, 3))
            generator = torch.Generator().manual_seed(3)
            x, y = torch.randn(12, 6, generator=generator) * 3, torch.randint(0, 3, (12,), generator=generator)
            private = make(model, m=mechanism(sigma=None, epsilon=4.0, delta=1e-5))
            self.assertFalse(private._taken.steady)
            for place in (0, 5, 11):
                self.assertLessEqual(moved(private, x, y, place), 1.0)


@unittest.skipIf(opacus is None, "opacus is not installed")
class LowPrecision(Case):
    def data(self, count=300):
        generator = torch.Generator().manual_seed(0)
        return torch.randn(count, 50, generator=generator), torch.randint(0, 10, (count,), generator=generator)

    def model(self):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(50, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))

    def test_ghost_clipping_of_normalised_gradients_that_underflow(self):
        """The norm of y^2 x is 0 in floats; multiplied by clip/gamma first, y^2 is a float again: it moved the sum by 8 clip norms."""

        def sums(**options):
            model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False))
            torch.nn.init.zeros_(model[0].weight)
            private = make(model, 8, clip=1.0, loss=lambda o, y: (o.reshape(-1) * y * y).sum(), **options)
            x, y = torch.zeros(8, 1), torch.full((8,), 1e-25)
            x[0] = 1e38
            return float(sum_of(private, x, y, range(8)).norm())

        for gamma in (2.0**-10, 0.01, None):
            self.assertLess(sums(normalize=gamma, clipping="ghost"), 0.01)
        for gamma in (2.0**-100, 2.0**-11):
            self.refused(dpmf.UnsupportedError, "from 2^-10 on", lambda: sums(normalize=gamma, clipping="ghost"))
            self.assertEqual(sums(normalize=gamma, clipping="auto"), 0.0)

    def test_ghost_clipping_under_autocast(self):
        """A training loop runs its step under bfloat16 autocast, as loops for speed do.

        Before, norms and the second backward pass of ghost clipping had 8 bits: on ordinary data one example moved the sum
        by 1.002 to 1.64 clip norms, more with larger batches, and the noise was made for 1. Now both passes are in float32.
        """
        x, y = self.data()
        private = make(self.model(), len(x), clipping="ghost")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for left_out in (0, 150, 299):
                self.assertLess(moved(private, x, y, left_out), 1.0)
            private.step(x, y, units=range(len(x)))
        self.assertRegex(private.statement(), r"one example moved the sum by (0\.99999|1 )")

    def test_models_that_compute_in_few_bits_themselves(self):
        """bfloat16 parameters, or a model that enters autocast in its own forward pass: the same, and now refused by name.

        The route with every example's own gradient takes both: it sums what came out, in integers.
        """
        x, y = self.data(20)
        half = self.model().bfloat16()
        self.refused(dpmf.UnsupportedError, "bfloat16", make, half, clipping="ghost")
        self.assertLessEqual(moved(make(half), x.bfloat16(), y, 3), 1.0)

        class Narrow(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return self.inner(x).float()

        private = make(Narrow(self.model()), clipping="ghost")
        self.refused(dpmf.UnsupportedError, "a Linear is torch.bfloat16", private.step, x, y, units=range(20))
        self.assertEqual(private.steps_taken, 0)
        self.assertLessEqual(moved(make(Narrow(self.model())), x, y, 3), 1.0)

    def test_ghost_clipping_by_opacus_under_autocast(self):
        """The same in Opacus' own loop, whose forward pass the caller runs: refused before anything is summed."""
        x, y = self.data(20)
        net = self.model()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20)
        made = dpmf.opacus.make_private(
            net, torch.optim.SGD(net.parameters(), lr=0.1), loader, whole(), clip_norm=CLIP, key=KEY, clipping="ghost"
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = made.criterion(made.model(x), y)
        self.refused(dpmf.UnsupportedError, "bfloat16", loss.backward)


class RunningMean(torch.nn.Module if torch is not None else object):
    """Subtracts a running mean of its own making: no layer that torch or Opacus knows as one with statistics."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        return x - self.mean


class Counting(RunningMean):
    """Writes a number that no example has a part in."""

    def forward(self, x):
        with torch.no_grad():
            self.calls += 1
        return x


@unittest.skipIf(torch is None, "torch is not installed")
class OtherDoors(Case):
    def data(self, secret=0.0):
        generator = torch.Generator().manual_seed(0)
        x, y = torch.randn(20, 5, generator=generator), torch.randint(0, 2, (20,), generator=generator)
        x[7, 0] = secret
        return x, y

    def test_layers_with_statistics_of_their_own(self):
        """A layer keeps a running mean of its inputs in a buffer, which state_dict() publishes with the model.

        Before, ghost clipping wrote the raw mean there: with 10^6 in one example the published buffer was 5904.9 in place of
        0.01. Now buffers are compared before and after the gradients, and a changed one is put back and refused by name. (The
        route with every example's own gradient was closed by torch.)
        """
        if opacus is None:
            self.skipTest("opacus is not installed")
        x, y = self.data(secret=1e6)
        net = torch.nn.Sequential(RunningMean(5), torch.nn.Linear(5, 2))
        private = make(net, clipping="ghost")
        self.refused(dpmf.UnsupportedError, "writes into 0.mean", private.step, x, y, units=range(20))
        self.assertEqual(net.state_dict()["0.mean"].tolist(), [0.0] * 5)
        self.assertEqual(private.steps_taken, 0)

    def test_counters_that_the_caller_declares_public(self):
        """A layer counts its calls. It is refused as well: the number of calls can follow the number of examples.

        The caller can declare the buffer public, and the statement then names it.
        """
        if opacus is None:
            self.skipTest("opacus is not installed")
        x, y = self.data()
        net = torch.nn.Sequential(Counting(5), torch.nn.Linear(5, 2))
        self.refused(dpmf.UnsupportedError, "0.calls", make(net, clipping="ghost").step, x, y, units=range(20))
        self.refused(dpmf.ArgumentError, "'0.call' is no buffer", make, net, public_buffers="0.call")
        net = torch.nn.Sequential(Counting(5), torch.nn.Linear(5, 2))
        private = make(net, clipping="ghost", public_buffers="*.calls")
        private.step(x, y, units=range(20))
        self.assertIn("the buffers 0.calls, which", private.statement())

    def test_statistics_under_opacus(self):
        """The same layer in Opacus' own loop: the step is refused, and the buffer is as it was."""
        if opacus is None:
            self.skipTest("opacus is not installed")
        x, y = self.data(secret=1e6)
        for route in ("per-example", "ghost"):
            net = torch.nn.Sequential(RunningMean(5), torch.nn.Linear(5, 2))
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20)
            sgd = torch.optim.SGD(net.parameters(), lr=0.1)
            made = dpmf.opacus.make_private(net, sgd, loader, whole(), clip_norm=CLIP, key=KEY, clipping=route)

            def step(made=made):
                made.criterion(made.model(x), y).backward()
                made.optimizer.step()

            next(iter(made.loader))
            self.refused(dpmf.UnsupportedError, "mean", step)
            self.assertEqual(net.state_dict()["0.mean"].tolist(), [0.0] * 5)

    def test_statistics_in_a_parameter(self):
        """A layer keeps its running mean in a frozen parameter, written through .data, as codebooks and centres are.

        Before, parameters were compared by torch's count of writes, which does not see .data: ghost clipping and both routes of
        Opacus published the raw mean, with 10^6 in one example 5904.9. Now parameters are compared by their bytes; a large frozen
        one, of which there is no copy, by checksums.
        """
        if opacus is None:
            self.skipTest("opacus is not installed")

        class Centre(torch.nn.Module):
            def __init__(self, size):
                super().__init__()
                self.mean = torch.nn.Parameter(torch.zeros(size), requires_grad=False)

            def forward(self, x):
                self.mean.data[:5].mul_(0.9).add_(0.1 * x.detach().mean(0))
                return x - self.mean[:5]

        x, y = self.data(secret=1e6)
        for size in (5, (1 << 20) + 3):
            net = torch.nn.Sequential(Centre(size), torch.nn.Linear(5, 2))
            private = make(net, clipping="ghost")
            words = "writes into 0.mean" if size == 5 else "The data is still in 0.mean: load it again"
            self.refused(dpmf.UnsupportedError, words, private.step, x, y, units=range(20))
            self.assertEqual(bool(net[0].mean.any()), size > 5)
            self.assertEqual(private.steps_taken, 0)
        for route in ("per-example", "ghost"):
            net = torch.nn.Sequential(Centre(5), torch.nn.Linear(5, 2))
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20)
            sgd = torch.optim.SGD(net[1].parameters(), lr=0.1)
            made = dpmf.opacus.make_private(net, sgd, loader, whole(), clip_norm=CLIP, key=KEY, clipping=route)

            def step(made=made):
                made.criterion(made.model(x), y).backward()
                made.optimizer.step()

            next(iter(made.loader))
            self.refused(dpmf.UnsupportedError, "mean", step)
            self.assertFalse(bool(net[0].mean.any()))

    def test_checksums_see_every_change(self):
        """One bit, two numbers that changed places, the sign of a zero, in any type and at the end of a tensor."""
        from dpmf.torch.parameters import checksums

        for kind in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8):
            first = torch.arange(70).to(kind)
            other = first.clone()
            other[-1], other[0] = first[0], first[-1]
            self.assertTrue(torch.equal(checksums(first), checksums(first.clone())))
            self.assertFalse(torch.equal(checksums(first), checksums(other)), kind)
        self.assertFalse(torch.equal(checksums(torch.zeros(3)), checksums(-torch.zeros(3))))
        self.assertTrue(torch.equal(checksums(torch.zeros(0)), checksums(torch.zeros(0))))

    def test_embeddings_that_scale_what_they_see(self):
        """Embedding(max_norm=1) scales, in the forward pass and in place, the rows of the words that it sees.

        Before, the step was refused, but the weights stayed as the pass had left them: they showed which words the batch had, to
        anybody who gets the model. Now they are put back, trained or frozen, as the buffers are.
        """

        class Words(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.out = torch.nn.Embedding(50, 4, max_norm=1.0), torch.nn.Linear(4, 2)
                with torch.no_grad():
                    self.words.weight.mul_(10)

            def forward(self, x):
                return self.out(self.words(x).mean(1))

        for clipping in ["per-example"] + (["ghost"] if opacus is not None else []):
            for trained in (True, False):
                net = Words()
                net.words.requires_grad_(trained)
                before = net.words.weight.detach().clone()
                private = make(net, clipping=clipping)
                x, y = torch.arange(30).reshape(10, 3), torch.zeros(10, dtype=torch.int64)
                with self.assertRaises((dpmf.UnsupportedError, RuntimeError)):
                    private.step(x, y, units=range(10))
                self.assertTrue(torch.equal(net.words.weight, before), (clipping, trained))

    def test_a_running_maximum(self):
        """A layer keeps the largest number that it has seen in a buffer, as observers of quantization do.

        Before, buffers were compared by value: with no example above the maximum the run went to its end, and one example above it
        ended the run, in the step of that example. Now the first write is refused, also one that changes nothing.
        """
        if opacus is None:
            self.skipTest("opacus is not installed")

        class Largest(torch.nn.Module):
            def __init__(self, in_place):
                super().__init__()
                self.in_place = in_place
                self.register_buffer("largest", torch.tensor(6.0))

            def forward(self, x):
                found = torch.maximum(self.largest, x.detach().max())
                if self.in_place:
                    self.largest.copy_(found)
                else:
                    self.largest = found
                return x

        for secret in (0.0, 7.0):
            for in_place in (True, False):
                x, y = self.data(secret)
                net = torch.nn.Sequential(Largest(in_place), torch.nn.Linear(5, 2))
                private = make(net, clipping="ghost")
                self.refused(dpmf.UnsupportedError, "writes into 0.largest", private.step, x, y, units=range(20))
                self.assertEqual(float(net[0].largest), 6.0)

    def test_weights_that_are_not_finite(self):
        """A learning rate takes the weights to NaN, or a model begins with NaN in a frozen layer.

        Before, every later gradient was NaN and added 0: the run went silently to its end, spent its privacy, and printed
        its statement. Now the step says so. The weights have their noise, so that this reveals nothing of an example.
        """
        x, y = self.data()
        net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 2))
        private = make(net, lr=1e38, clip=100.0)
        self.refused(dpmf.NumericalError, "not finite after step 0", private.step, x, y, units=range(20))
        self.refused(dpmf.NumericalError, "not finite before step 1", private.step, x, y, units=range(20))
        self.assertEqual(private.steps_taken, 1)
        self.assertIn("the model is of no use", private.statement())
        net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 2))
        net[0].requires_grad_(False)
        private = make(net)
        with torch.no_grad():
            net[0].weight[1, 1] = float("nan")
        self.refused(dpmf.NumericalError, "0.weight is not finite before step 0", private.step, x, y, units=range(20))
        self.assertEqual(private.steps_taken, 0)


def left_out(private, x, y, i):
    """Does leaving out example i move the sum by what it adds alone, to the bit?"""
    others = [j for j in range(len(x)) if j != i]
    unit = private.clip_norm / private._sum.grid
    found = [(sum_of(private, x, y, units) * unit).round().long() for units in (range(len(x)), others, [i])]
    return torch.equal(found[0] - found[1], found[2])


@unittest.skipIf(torch is None, "torch is not installed")
class Company(Case):
    """The others in a batch must not change the gradient of an example."""

    def kink(self):
        """(model, data): the first layer's outputs are 0 in real numbers, so that roundings alone decide about ReLU.

        The last example is a vector of zeros, whose own gradient is 0.
        """
        torch.manual_seed(1)
        dim, wide = 1024, 64
        net = torch.nn.Sequential(
            torch.nn.Linear(dim, wide, bias=False), torch.nn.ReLU(), torch.nn.Linear(wide, 2, bias=False)
        )
        with torch.no_grad():
            row = torch.randn(dim // 2)
            net[0].weight.copy_(torch.cat([row, -row]).expand(wide, dim))
            net[2].weight.copy_(torch.tensor([[1.0], [-1.0]]).expand(2, wide))
        product = torch.func.vmap(lambda x: torch.nn.functional.linear(x.unsqueeze(0), net[0].weight))
        for few in (3, 1, 7, 15, 31, 127, 128):  # sizes at which products are known to change their way
            for _ in range(100):
                half = torch.randn(dim // 2)
                x = torch.cat([half, half]).expand(few + 1, dim).contiguous()
                if bool(((product(x)[:few] > 0) != (product(x[:few].clone()) > 0)).any()):
                    x[few] = 0
                    return net, x
        self.skipTest("products of this machine round in the same way for all sizes that were tried")

    def test_roundings_of_the_others(self):
        """One example more in a batch changes how torch's matrix product rounds all other rows.

        At a kink of ReLU that flips their gradients: an example of gradient 0 moved the sum by as many clip norms as there
        are others (128 in one case), where the statement said "exactly". Now passes have sizes in which neither the size nor
        the place changes a bit.
        """
        net, x = self.kink()
        y = torch.zeros(len(x), dtype=torch.long)
        private = make(net)
        self.assertEqual(moved(private, x, y, len(x) - 1), 0.0)

    def test_ordinary_data_of_all_sizes(self):
        """A CNN and a perceptron, batches of 1 to 40, with chunks of every kind: what an example adds is the same to the bit."""
        generator = torch.Generator().manual_seed(1)
        y = torch.randint(0, 3, (40,), generator=generator)
        for chunk in (None, 7):
            torch.manual_seed(2)
            for net, shape in (
                (torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3)), (30,)),
                (torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(144, 3)), (1, 8, 8)),
            ):
                private = make(net, clip=1.0, chunk=chunk, expected=12)
                for count in (2, 3, 4, 5, 9, 17, 40):
                    x = torch.randn(count, *shape, generator=generator)
                    for i in (0, count // 2, count - 1):
                        self.assertTrue(left_out(private, x, y[:count], i), (count, i))

    def test_a_places_own_roundings(self):
        """A kernel that rounds by the place in the batch, as products do on several threads: it is noticed, and examples go
        one at a time.
        """
        from dpmf.torch.places import Places

        def by_place(rows):
            return [torch.ones(rows, 3) + torch.arange(rows)[:, None] * (2.0**-20 if rows > 4 else 0.0)]

        self.assertEqual(Places(1).rows(40, 100, by_place), (4, 4))
        self.assertEqual(Places(1).rows(40, 100, lambda rows: [torch.arange(3.0 * rows).view(rows, 3)]), (1, 1))
        self.assertEqual(Places(1).rows(40, 100, lambda rows: [torch.ones(rows, 3) + (rows < 8)]), (40, 40))
        self.assertEqual(Places(1).rows(5, 100, lambda rows: [torch.ones(rows, 3) + (rows < 8)]), (5, 8))
        self.assertEqual(Places(16).rows(21, 100, lambda rows: [torch.ones(rows, 3)]), (21, 32))
        self.assertEqual(Places(16).rows(21, 100, lambda rows: None), (1, 1))

    def test_masks_of_the_others(self):
        """Dropout, with Poisson sampling: an example more or less is in the batch.

        Before, masks came one after the other from torch's generator, whose state is in the checkpoint and was called "not
        secret". To anybody who knew it, leaving out the first example moved the masks of all behind it, and the sum by 7.9
        clip norms. Now a mask is a function of the key, the step and the example.
        """
        generator = torch.Generator().manual_seed(1)
        x, y = torch.randn(60, 20, generator=generator), torch.randint(0, 2, (60,), generator=generator)

        class Branching(torch.nn.Module):
            def forward(self, x):  # cannot be mapped over examples
                return x * 2 if bool(x.sum() > 0) else x

        for more in ([], [Branching()]):
            torch.manual_seed(1)
            net = torch.nn.Sequential(
                torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Dropout(0.5), *more, torch.nn.Linear(50, 2)
            )
            for route in ("per-example", "ghost") if opacus is not None and not more else ("per-example",):
                private = make(net, clipping=route)
                for i in (0, 30):
                    torch.manual_seed(5)
                    everybody = sum_of(private, x, y, range(60))
                    torch.manual_seed(5)  # the attacker's: the state of the checkpoint
                    others = sum_of(private, x, y, [j for j in range(60) if j != i])
                    self.assertLess(float((everybody - others).norm()), 1 + 1e-5, (route, more, i))
                    torch.manual_seed(6)
                    self.assertTrue(torch.equal(everybody, sum_of(private, x, y, range(60))), route)
                private.step(x, y, units=range(60))
                self.assertFalse(torch.equal(everybody, sum_of(private, x, y, range(60))))  # other masks in another step
                private.close()

    def test_a_checkpoint_has_no_generator(self):
        """What is called public: no state of a generator, from which all masks that come would follow."""
        net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
        private = make(net)
        private.step(torch.randn(4, 5), torch.zeros(4, dtype=torch.long), units=range(4))
        self.assertNotIn("random", private.state_dict()["dpmf"])
        if opacus is not None:
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(4, 5)), batch_size=4)
            net = torch.nn.Linear(5, 2)
            sgd = torch.optim.SGD(net.parameters(), lr=0.1)
            made = dpmf.opacus.make_private(net, sgd, loader, whole(), clip_norm=CLIP, key=KEY)
            self.assertNotIn("random", made.optimizer.state_dict()["dpmf"])
            torch.manual_seed(1)
            one = torch.get_rng_state()
            made.attached.load_state_dict(made.optimizer.state_dict())
            self.assertFalse(torch.equal(one, torch.get_rng_state()))  # masks follow from the key and the step

    def test_generators_of_the_models_own(self):
        """A layer draws from a generator that it keeps: its numbers move on with every example, so it is refused."""

        class Noisy(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.generator = torch.Generator().manual_seed(1)

            def forward(self, x):
                return x + torch.rand(x.shape, generator=self.generator)

        private = make(torch.nn.Sequential(Noisy(), torch.nn.Linear(5, 2)))
        y = torch.zeros(4, dtype=torch.long)
        self.refused(dpmf.UnsupportedError, "a generator of its own", private.step, torch.randn(4, 5), y, units=range(4))

    def test_augmentation_and_workers(self):
        """Random choices in the data set and in collate_fn.

        Before, those of a batch came one after the other, and in worker processes those of collate_fn were the same for
        every key: the workers were seeded with 0. Now an example's own are a function of the key, the step and the example,
        and those of a batch of the key and the step.
        """
        from dpmf.torch.batches import Batch, Examples

        noisy = Examples(Augmented(), b"secret")
        whole_batch, others = noisy.__getitems__(Batch([3, 1, 2], 4)), noisy.__getitems__(Batch([1, 2], 4))
        self.assertTrue(torch.equal(torch.stack(whole_batch[1:]), torch.stack(others)))
        self.assertFalse(torch.equal(others[0], noisy.__getitems__(Batch([1, 2], 5))[0]))
        found = {}
        for seed in (1, 2):
            for workers in (0, 1):
                torch.manual_seed(3)
                sampler = dpmf.torch.BatchSampler("poisson:0.5", 50, dpmf.testing_key(seed), steps=2)
                loader = dpmf.torch.data_loader(Augmented(), sampler, drawn_in_collate, num_workers=workers)
                found[seed, workers] = torch.cat(list(loader))
        self.assertTrue(torch.equal(found[1, 0], found[1, 1]))
        self.assertFalse(torch.equal(found[1, 1], found[2, 1]))

    def test_padding_to_the_longest(self):
        """A collate function pads to the longest example of the batch, and the model has no mask.

        One long example then changes what all others are: the sum moved by 40 to 76 clip norms, under "exactly". No library
        sees that in one batch. Now a shape that differs from that of the batch before is refused, unless the caller takes
        the responsibility, and the statement names the condition.
        """
        net = torch.nn.Linear(1, 2)
        short, long, y = torch.randn(6, 3, 1), torch.randn(6, 9, 1), torch.zeros(6, 3, dtype=torch.long)

        def loss(outputs, targets):
            return outputs.mean() + 0 * targets.sum()

        private = make(net, loss=loss)
        private.step(short, y, units=range(6))
        self.refused(dpmf.ArgumentError, "fixed_shapes=False", private.step, long, y, units=range(6))
        self.assertEqual(private.steps_taken, 1)
        saved, again = private.state_dict(), make(net, loss=loss)
        again.load_state_dict(saved)  # a resumed run knows them too
        self.refused(dpmf.ArgumentError, "[9, 1]", again.step, long, y, units=range(6))

    def test_the_length_of_one_example(self):
        """fixed_shapes=False, and one example is longer than all others: does the output of the run show that it is there?

        Before, a warning, the statement and the checkpoint, which is no secret, showed that shapes had varied, and the checkpoint
        had the last ones. Now all of them are the same for any lengths; the warning, about a missing mask, comes with the first batch.
        """

        def loss(outputs, targets):
            return outputs.sum() + 0 * targets.sum()

        found, y = [], torch.zeros(6, dtype=torch.int64)
        for length in (3, 9):
            torch.manual_seed(1)
            private = make(torch.nn.Linear(1, 2), loss=loss, fixed_shapes=False)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                private.step(torch.zeros(6, 3, 1), y, units=range(6))
                private.step(torch.zeros(6, length, 1), y, units=range(6, 12))
            state = {name: part for name, part in private.optimizer.state_dict()["dpmf"].items() if "shape" in name}
            found.append(([str(one.message) for one in heard], private.statement(), state))
        self.assertEqual(found[0], found[1])
        self.assertEqual(len(found[0][0]), 1)
        self.assertIn("no input is called a mask", found[0][0][0])
        self.assertIn("Shapes of examples could vary", found[0][1])
        again = make(torch.nn.Linear(1, 2), loss=loss)  # resumed with fixed shapes: the steps before had others, perhaps
        again.load_state_dict(private.state_dict())
        self.assertIn("Shapes of examples could vary", again.statement())


class Augmented(torch.utils.data.Dataset if torch is not None else object):
    """Examples with a random number."""

    def __len__(self):
        return 50

    def __getitem__(self, i):
        return torch.rand(2) + 10 * i


def drawn_in_collate(examples):
    return torch.rand(1)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
