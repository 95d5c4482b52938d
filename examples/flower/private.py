# SPDX-License-Identifier: Apache-2.0
"""A Flower app that protects each user with all its data: flwr run examples/flower. Run again, it resumes (docs/users.md)."""
import os

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvgM

import dpmf
import dpmf.flower

server, client = ServerApp(), ClientApp(mods=[dpmf.flower.clipping_mod])


@server.main()
def serve(grid, context):
    run = context.run_config
    mechanism = dpmf.design(users=run["users"], rounds=run["rounds"], per_round=run["per-round"], epsilon=run["epsilon"], delta=1e-6, dim=11)
    strategy = dpmf.flower.CorrelatedNoise(
        FedAvgM(server_momentum=0.9), mechanism, clip=0.5, cohort=run["per-round"], key=os.path.join(run["folder"], "run.key"))
    initial = ArrayRecord({"w": Array(np.zeros(10, np.float32)), "b": Array(np.zeros(1, np.float32))})
    result = strategy.start(grid, initial, timeout=60)
    print("epsilon by round:", {at: round(found["epsilon"], 3) for at, found in result.train_metrics_clientapp.items()})


@client.train()
def train(message, context):
    model = {name: array.numpy() for name, array in message.content["arrays"].items()}
    own = np.random.default_rng(context.node_id % 2**32)  # the user's own data, made up here
    x = own.normal(size=(50, 10)).astype(np.float32)
    for _ in range(5):
        error = x @ model["w"] + model["b"] - x.sum(1)
        model = {"w": model["w"] - 0.1 * x.T @ error / 50, "b": model["b"] - 0.1 * error.mean(keepdims=True)}
    content = {"arrays": ArrayRecord({name: Array(one) for name, one in model.items()}), "metrics": MetricRecord({"num-examples": 50})}
    return Message(RecordDict(content), reply_to=message)
