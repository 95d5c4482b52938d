# SPDX-License-Identifier: Apache-2.0
"""Private training where one user, with all of its examples, is protected: python examples/users_torch.py

Made-up data of 300 users: user u has 1 to 40 points on both sides of a line. A step takes 30 users, at most 8 points of each.
"""

import torch

import dpmf
import dpmf.torch

generator = torch.Generator().manual_seed(1)
counts = torch.randint(1, 41, (300,), generator=generator)
ids = ["user-%03d" % u for u in range(300) for _ in range(int(counts[u]))]
x = torch.randn(len(ids), 10, generator=generator)
y = (x[:, 0] + x[:, 1] / 2 > 0).long()
data = torch.utils.data.TensorDataset(x, y)

model = torch.nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

# Every user takes part in 8 of 80 steps, 10 apart.
mechanism = dpmf.design(steps=80, epochs=8, epsilon=8, delta=1e-5, workload="momentum:0.9", unit="user")
key = dpmf.create_key()  # a path keeps it, so that the run can be resumed
sampler = dpmf.torch.BatchSampler("cyclic:30", data, key, mechanism=mechanism, users=ids, examples_per_user=8)
private = dpmf.torch.make_private(model, optimizer, mechanism, 1.0, sampler=sampler, key=key, unit="user")

for features, labels in dpmf.torch.data_loader(data, sampler):
    private.step(features, labels)

correct = (model(x).argmax(1) == y).double().mean()
print("%d users with %d examples, %.1f %% of them correct" % (sampler.users.count, len(ids), 100 * correct))
print(private.statement())
