# SPDX-License-Identifier: Apache-2.0
"""A small run with dropout, key file, state file and checkpoints, for the stories about going back.

runs.py FOLDER      trains on from FOLDER/run.pt where there is one, a checkpoint every 3 steps; notes a digest of every
                    released model in FOLDER/released, and says a line for each step
"""

import hashlib
import os
import pathlib
import sys

import story
import torch

import dpmf
import dpmf.torch

STEPS = 12


class Augmented(torch.utils.data.Dataset):
    """Examples with random noise, as augmentation has it."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, i):
        x, y = self.inner[i]
        return x + torch.randn(x.shape), y


def data(changed=False, augment=False):
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(48, 6, generator=generator), torch.randint(0, 3, (48,), generator=generator)
    if changed:  # the label too: it is seen in the biases' gradient, also where dropout leaves nothing of the features
        x[13] += 1
        y[13] = (y[13] + 1) % 3
    inner = torch.utils.data.TensorDataset(x, y)
    return Augmented(inner) if augment else inner


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def make(folder, changed=False, augment=False, workers=0, state="run.state"):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    m = story.mechanism("bsr", STEPS, sigma=None, epsilon=8.0, delta=1e-5)
    torch.manual_seed(5)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    key, examples = folder / "run.key", data(changed, augment)
    sampler = dpmf.torch.BatchSampler("cyclic:4", examples, key, mechanism=m)
    options = {} if state is None else {"state": folder / state}
    private = dpmf.torch.make_private(model, optimizer, m, 1.0, sampler=sampler, key=key, **options)
    return model, private, dpmf.torch.data_loader(examples, sampler, num_workers=workers)


def save(model, private, path):
    torch.save({"model": model.state_dict(), "optimizer": private.optimizer.state_dict()}, str(path) + ".new")
    os.replace(str(path) + ".new", path)


def resume(folder, **options):
    seed = torch.initial_seed()
    model, private, loader = make(folder, **options)
    torch.manual_seed(seed)  # as the process had it: no random number of the run depends on it
    path = pathlib.Path(folder) / "run.pt"
    if path.exists():
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        private.optimizer.load_state_dict(saved["optimizer"])
    return model, private, loader


def run(folder, until=STEPS, save_at=None, **options):
    """Trains to a step, from a checkpoint where there is one; gives the weights."""
    model, private, loader = resume(folder, **options)
    for x, y in loader:
        private.step(x, y)
        if private.steps_taken == save_at:
            save(model, private, pathlib.Path(folder) / "run.pt")
        if private.steps_taken == until:
            break
    private.close()
    return weights(model)


def main(folder):
    torch.set_num_threads(1)
    folder = pathlib.Path(folder)
    torch.manual_seed(int.from_bytes(os.urandom(6), "little"))
    model, private, loader = resume(folder)
    if not (folder / "run.pt").exists():
        save(model, private, folder / "run.pt")
    if private.steps_taken == 0:
        save(model, private, folder / "start.pt")
    print("ready", flush=True)
    for x, y in loader:
        private.step(x, y)
        with open(folder / "released", "a") as file:
            file.write("%d %s\n" % (private.steps_taken, hashlib.sha256(weights(model).numpy().tobytes()).hexdigest()))
        print(private.steps_taken, flush=True)
        if private.steps_taken % 3 == 0:
            save(model, private, folder / "run.pt")
    torch.save(weights(model), folder / "weights.pt")


if __name__ == "__main__":
    main(sys.argv[1])
