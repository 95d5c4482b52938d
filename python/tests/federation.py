# SPDX-License-Identifier: Apache-2.0
"""Federated runs that are killed, shared by the tests and by the process that they start.

federation.py KIND FOLDER KILLS    prepares FOLDER/reference and runs it undisturbed, then runs FOLDER/0, FOLDER/1, ... with the same key
                                   and noise, killed at random moments, KILLS times or more; KIND is rounds or torch

Each attempt is a child that was forked before anything was computed, and is ended by a timer's signal, wherever it is then. A run
writes what it releases to FOLDER/.../released.
"""

import hashlib
import importlib
import os
import pathlib
import pickle
import random
import shutil
import signal
import sys
import time

import numpy as np
from support import KEY, compile_c

import dpmf
from dpmf.federated import Rounds

try:
    import torch

    import dpmf.torch
except ImportError:
    torch = None

USERS, ROUNDS = 8, 24
#: Of an update.
SHAPES = [(3, 4), 5]
#: Kills go on until attempts have begun at this many different rounds.
SPREAD = 6


def make_mechanism(steps=ROUNDS):
    return dpmf.evaluate("bsr", steps, "momentum:0.9", "cyclic:%d,4" % (steps // 4), bands=4, epsilon=8.0, delta=1e-5, unit="user")


def make_users(count=USERS):
    generator = torch.Generator().manual_seed(3)
    sizes = [3 + 2 * (i % 4) for i in range(count)]
    return [(torch.randn(n, 10, generator=generator), torch.randint(0, 3, (n,), generator=generator)) for n in sizes]


def make_model(dropout=0.25, seed=5):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(16, 3))


def make_run(key=KEY, users=None, model=None, optimizer=None, rates=None, **options):
    users, model = make_users() if users is None else users, make_model() if model is None else model
    server = (optimizer or torch.optim.SGD)(model.parameters(), **(rates or {"lr": 1.0, "momentum": 0.9}))
    m = options.pop("mechanism", None) or make_mechanism()
    if "sampler" not in options:
        options["sampler"] = dpmf.torch.BatchSampler("cyclic:2", len(users), mechanism=m)
    if "train_user" not in options:
        options = {"local_steps": 4, "local_rate": 0.2, "local_batch": 2, **options}
    return dpmf.torch.make_federated(model, server, m, options.pop("clip_norm", 0.5), users, key=key, **options)


def weights_of(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


class Torch:
    """A run of make_federated and its checkpoint."""

    def __init__(self, folder):
        self.run = make_run(folder / "run.key")
        self.rounds = self.run.rounds

    def round(self):
        self.run.round()
        return weights_of(self.run.model).numpy().tobytes()

    def state(self):
        return {"model": self.run.model.state_dict(), "optimizer": self.run.optimizer.state_dict()}

    def load(self, state):
        self.run.model.load_state_dict(state["model"])
        self.run.optimizer.load_state_dict(state["optimizer"])


class Plain:
    """A run of Rounds; its model is the sum of what was released."""

    def __init__(self, folder):
        self.rounds = Rounds(make_mechanism(), 20000, 0.5, divisor=2, key=folder / "run.key")
        self.model = np.zeros(20000)

    def round(self):
        t = self.rounds.round
        for i in (0, 1):
            user = 2 * (t % 4) + i
            target = np.random.default_rng(user).normal(size=20000)
            self.rounds.add(user, (target - self.model).astype(np.float32))
        self.model += self.rounds.finish()[0]
        return self.model.tobytes()

    def state(self):
        return {"model": self.model, "rounds": self.rounds.state_dict()}

    def load(self, state):
        self.model = state["model"]
        self.rounds.load_state_dict(state["rounds"])


def update_of(client, t, shapes=SHAPES, dtype=np.float32):
    seed = int.from_bytes(hashlib.sha256(b"%s %d" % (client.encode(), t)).digest()[:8], "little")
    draw = np.random.default_rng(seed)
    return [draw.normal(size=shape).astype(dtype) for shape in shapes]


#: A round's server in C: server MECHANISM UPDATES KEY STATE writes the sums, then what is released.
SERVER = """
#include <dpmf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    uint8_t key[DPMF_KEY_SIZE];
    int64_t sums[12][17];
    float released[12][17], row[17], update[17];
    double grid;
    dpmf_mechanism *mechanism = NULL;
    dpmf_noise *noise = NULL;
    dpmf_noise_options options = dpmf_noise_options_defaults();
    FILE *file = fopen(argv[2], "rb");
    if (argc != 5 || file == NULL) return 1;
    for (int i = 0; i < DPMF_KEY_SIZE; i++) {
        const char digits[3] = {argv[3][2 * i], argv[3][2 * i + 1], 0};
        key[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    options.state = argv[4];
    if (dpmf_mechanism_load(argv[1], &mechanism) != DPMF_OK || dpmf_clip_grid(0.5, 1 << 20, &grid) != DPMF_OK) return 2;
    if (dpmf_noise_create(mechanism, 17, 0.5, key, &options, &noise) != DPMF_OK) return 3;
    memset(sums, 0, sizeof sums);
    for (int t = 0; t < 12; t++) {
        for (int user = 0; user < 2; user++) {
            const dpmf_segment part = {update, 17};
            if (fread(update, sizeof update, 1, file) != 1) return 4;
            if (dpmf_clip_add(0.5, 0, grid, DPMF_FLOAT32, 1, 1, &part, sums[t], NULL) != DPMF_OK) return 5;
        }
        if (dpmf_noise_next(noise, row) != DPMF_OK) return 6;
        for (int i = 0; i < 17; i++)
            released[t][i] = (float)(((double)sums[t][i] * grid + (double)row[i]) / 2.0);
    }
    fwrite(sums, sizeof sums, 1, stdout);
    fwrite(released, sizeof released, 1, stdout);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
    fclose(file);
    return 0;
}
"""


def copies(mechanism, folder, names):
    """{name: a folder with the mechanism, a key and a state file without a row}: all of them have the same noise."""
    found, first = {}, folder / names[0]
    first.mkdir()
    dpmf.NoiseStream(mechanism, 17, 0.5, first / "key", replay=True, state_now=True).close()
    mechanism.save(first / "run.dpmf")
    for name in names:
        found[name] = folder / name
        if name != names[0]:
            shutil.copytree(first, folder / name)
    return found


def c_server(mechanism, folder, updates):
    """(the sums on the grid, what is released), a row for each of 12 rounds of 2 clients, whose updates are in `updates`."""
    flat = [np.concatenate([part.reshape(-1) for part in update]) for of_round in updates for update in of_round.values()]
    (folder / "updates").write_bytes(np.stack(flat).astype(np.float32).tobytes())
    with open(folder / "key", "rb") as file:
        key = file.read()
    found = compile_c(SERVER, folder)(folder / "run.dpmf", folder / "updates", key.hex(), folder / "key.state")
    half = 12 * 17 * 8
    return np.frombuffer(found[:half], np.int64).reshape(12, 17), np.frombuffer(found[half:], np.float32).reshape(12, 17)


def run(kind, folder):
    """From the checkpoint, where there is one, to the end; what a round releases is written before the next begins."""
    server = {"torch": Torch, "rounds": Plain}[kind](folder)
    saved = folder / "checkpoint"
    if saved.exists():
        server.load(pickle.loads(saved.read_bytes()))
    else:
        save(saved, server.state())
    with open(folder / "begun", "a", encoding="ascii") as file:
        file.write("%d\n" % server.rounds.round)
    while not server.rounds.over:
        t = server.rounds.round
        line = "%d %s\n" % (t, hashlib.sha256(server.round()).hexdigest())
        with open(folder / "released", "ab", buffering=0) as file:
            file.write(line.encode())
        time.sleep(0.01)  # so that kills also hit between a release and its checkpoint
        save(saved, server.state())


def save(path, state):
    new = path.with_suffix(".new")
    new.write_bytes(pickle.dumps(state))
    os.replace(new, path)


def attempt(kind, folder, seconds):
    """True: it came to its end; False: the timer's signal ended it."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            if seconds:
                signal.setitimer(signal.ITIMER_REAL, seconds)
            run(kind, folder)
            os._exit(0)
        except BaseException as error:
            print("%s: %s" % (type(error).__name__, error), file=sys.stderr, flush=True)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        if os.WEXITSTATUS(status):
            raise SystemExit("an attempt failed")
        return True
    return False


def prepare(folder, dim):
    """A key and a state file without a row: both runs must have the same noise."""
    folder.mkdir(parents=True)
    dpmf.NoiseStream(make_mechanism(), dim, 0.5, folder / "run.key", replay=True, state_now=True).close()


def main(kind, folder, kills):
    folder, kills, done, runs = pathlib.Path(folder), int(kills), 0, 0
    if torch is not None:
        importlib.import_module("torch._dynamo")  # an optimizer's first state loads it, which takes longer than all rounds

    prepare(folder / "reference", 20000 if kind == "rounds" else 10 * 16 + 16 + 16 * 3 + 3)
    begun = folder / "begun"
    shutil.copytree(folder / "reference", begun)
    start = time.monotonic()
    attempt(kind, folder / "reference", 0)
    whole = time.monotonic() - start
    draw = random.Random()
    resumed = set()
    while done < kills or len(resumed) < SPREAD:  # a slow machine spends most of an attempt before its first round
        one = folder / str(runs)
        shutil.copytree(begun, one)
        while not attempt(kind, one, draw.uniform(0.0, whole / 3) + 1e-4):
            done += 1
        resumed.update((one / "begun").read_text(encoding="ascii").split())
        runs += 1
    print("%d kills in %d runs of %.2f s" % (done, runs, whole))


if __name__ == "__main__":
    main(*sys.argv[1:])
