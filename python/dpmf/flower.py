# SPDX-License-Identifier: Apache-2.0
"""Correlated noise for Flower: a strategy around another one, private for each client with all its data.

    strategy = dpmf.flower.CorrelatedNoise(FedAvg(), mechanism, clip=1.0, cohort=100, key="run.key")
    result = strategy.start(grid, ArrayRecord(model.state_dict()))          # run it again: it resumes

Written for the message API of Flower 1.20 and later (flwr.serverapp.strategy). The older one of flwr.server.strategy can take
the initial parameters from a random client, which is a release without noise, and is refused.
"""

from __future__ import annotations

import os
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp.strategy import FedAvgM, Result, Strategy

from . import errors
from ._clients import client_name
from ._federation import Arrays, Federation
from ._library import flag, integer, real
from .federated import Exhausted
from .figures import rounded_up

if TYPE_CHECKING:
    from flwr.serverapp import Grid

    from .ledger import Ledger
    from .mechanism import Mechanism

__all__ = ["CorrelatedNoise", "clipping_mod"]

#: The name under which clients get the clip norm.
CLIP = "dpmf-clip"

#: Strategies that look at single updates or at the metrics of clients, neither of which leave the noisy sum.
SINGLE = ("Krum", "MultiKrum", "Bulyan", "FedMedian", "FedTrimmedAvg", "QFedAvg", "FedXgbBagging", "FedXgbCyclic")
NOISY = ("DifferentialPrivacyServerSideFixedClipping", "DifferentialPrivacyClientSideFixedClipping",
         "DifferentialPrivacyServerSideAdaptiveClipping", "DifferentialPrivacyClientSideAdaptiveClipping", "CorrelatedNoise")


class Chosen:
    """The grid as the inner strategy sees it: with the clients of this round alone."""

    def __init__(self, grid: Any, nodes: List[int]):
        self._grid, self._nodes = grid, nodes

    def get_node_ids(self) -> List[int]:
        return list(self._nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def to_numpy(record: ArrayRecord) -> Arrays:
    return {name: np.asarray(array.numpy()) for name, array in record.items()}


def to_record(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(one, order="C")) for name, one in arrays.items()})


def check_strategy(strategy: Any) -> None:
    if not isinstance(strategy, Strategy):
        raise errors.ArgumentTypeError(
            "strategy is a %s of %s, one of flwr.serverapp.strategy is accepted: the older API takes the initial parameters from a "
            "random client, without noise" % (type(strategy).__name__, type(strategy).__module__)
        )
    kinds = {kind.__name__ for kind in type(strategy).__mro__}
    for names, why in ((SINGLE, "it looks at the updates or metrics of single clients, and only their noisy sum may be used"),
                       (NOISY, "it clips and adds noise itself, which would not be counted here")):
        found = kinds & set(names)
        if found:
            raise errors.UnsupportedError("strategy: %s is not accepted: %s" % (sorted(found)[0], why))


class CorrelatedNoise(Strategy):
    """A strategy whose every round adds one row of correlated noise to the sum of the clipped updates of its clients.

    strategy      any strategy that uses the mean of the updates alone (FedAvg, FedAvgM, FedProx, FedAdam, FedYogi, ...). It gets
                  the current model + (noisy sum) / cohort as if it were one client's answer
    mechanism     from dpmf.design(users=, rounds=, per_round=, ...); its steps are the rounds
    clip          the l2 norm to which the server clips every client's whole update, in integers, also where clients have clipped it themselves
    cohort        the clients of a round; also the divisor, which is fixed: weights by num-examples are ignored, because they depend on
                  the data and break the bound on the sum. A round with fewer clients has the same guarantee
    key           the path of the key file, made if it is missing. Beside it: .state, .log (read it with dpmf account --log),
                  .model and .pending. Start again with the same path, and the run resumes
    client_of     the client's lasting id, from the node id; None: the node id itself. A SuperNode without a registered key gets another
                  node id whenever it is started, and is then another client: register keys, or map ids here. A node for which it
                  gives None is not asked
    wait          seconds to wait for a whole cohort of clients that may take part; then the round begins with those who may
    evaluate      True: federated evaluation by the inner strategy. Its metrics leave without noise and are in no guarantee
    give_up       True: rounds whose row was drawn, and whose sum or model is lost, are left out. They are refused otherwise
    ledger, max_epsilon, zero_above, exact, threads    as in dpmf.Ledger and dpmf.federated.Rounds

    Who is asked follows from the mechanism's participation. Cyclic: fixed groups in turn. min-sep: those who were waiting longest, no
    client earlier than allowed. Clients that were asked count as having taken part. Metrics of clients, their failures and the number of
    answers are not passed on; a client that fails, or sends NaN, other shapes or no arrays, adds zeros.
    """

    def __init__(
        self,
        strategy: Strategy,
        mechanism: "Mechanism",
        clip: float,
        cohort: int,
        *,
        key: "Union[str, os.PathLike[str]]",
        client_of: Optional[Callable[[int], Any]] = None,
        wait: float = 60.0,
        evaluate: bool = False,
        ledger: "Optional[Ledger]" = None,
        max_epsilon: Optional[float] = None,
        zero_above: Optional[float] = None,
        exact: bool = False,
        threads: int = 0,
        give_up: bool = False,
    ):
        check_strategy(strategy)
        self.strategy = strategy
        self._wait, self._evaluate = real(wait, "wait"), bool(flag(evaluate, "evaluate"))
        self._client_of = client_of or str
        self._run = Federation(
            mechanism, clip, cohort, key=key, ledger=ledger, what="flower", max_epsilon=max_epsilon, zero_above=zero_above,
            exact=exact, threads=threads, give_up=give_up,
        )
        self._names: Dict[int, str] = {}  # the clients of this round by their node
        self._round = 0  # the last one of Flower's that was configured

    # ---- the inner strategy ----

    def _apply(self, mean: Arrays) -> Tuple[Arrays, Arrays]:
        """The inner strategy's step, which sees the noisy mean as the model of a single client."""
        then = {name: one + mean[name] if name in mean else one for name, one in self._run.model.items()}
        content = RecordDict({
            getattr(self.strategy, "arrayrecord_key", "arrays"): to_record(then),
            "metrics": MetricRecord({getattr(self.strategy, "weighted_by_key", "num-examples"): 1}),
        })
        at = self._run.rounds.round  # from 1, as Flower counts: the row has been drawn
        current = to_record(self._run.model)
        if hasattr(self.strategy, "current_arrays"):  # a resumed strategy has none, or those of the start
            self.strategy.current_arrays = current if isinstance(self.strategy, FedAvgM) else to_numpy(current)
        arrays, _ = self.strategy.aggregate_train(at, [Message(content=content, dst_node_id=0, message_type="train")])
        if arrays is None:
            raise errors.StateError("the strategy %s made no model of the noisy sum" % type(self.strategy).__name__)
        made = to_numpy(arrays)
        kept = {name: made[name].astype(one.dtype) if name in mean else one for name, one in self._run.model.items()}
        return kept, self._inner_arrays()

    def _inner_arrays(self) -> Arrays:
        """What the inner strategy remembers: its attributes that are arrays, or lists or dictionaries of them."""
        found: Arrays = {}
        for name, value in sorted(vars(self.strategy).items()):
            parts = {"": value} if isinstance(value, np.ndarray) else dict(enumerate(value)) if isinstance(value, list) else value
            kinds = (np.ndarray, np.generic)  # a difference of arrays without dimensions is a number of NumPy
            if isinstance(parts, dict) and parts and name != "current_arrays" and all(isinstance(one, kinds) for one in parts.values()):
                kind = "array" if isinstance(value, np.ndarray) else type(value).__name__
                found.update({"%s/%s/%s" % (kind, name, part): np.asarray(one) for part, one in parts.items()})
        return found

    def _restore(self, arrays: Arrays) -> None:
        held: Dict[str, Any] = {}
        for path, one in arrays.items():
            kind, name, part = path.split("/", 2)
            if kind == "array":
                held[name] = one
            elif kind == "list":
                held.setdefault(name, []).append(one)
            else:
                held.setdefault(name, {})[part] = one
        for name, value in held.items():
            setattr(self.strategy, name, value)

    # ---- a round ----

    def _begin(self, arrays: ArrayRecord) -> ArrayRecord:
        """The model of the run, which a resumed one has in its files."""
        if self._run._rounds is None:
            self._run.begin(to_numpy(arrays), self._apply, self._restore)
        return to_record(self._run.model)

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: "Grid") -> Iterable[Message]:
        """Asks the clients of the round, with the model that the run has: `arrays` are those of the start, or the last result."""
        arrays = self._begin(arrays)
        if self._run.rounds.over:
            raise Exhausted("the mechanism has %d rounds, and all have been taken: the run is over" % self._run.rounds.rounds)
        nodes: Dict[str, int] = {}

        def available() -> List[str]:
            nodes.clear()
            for node in grid.get_node_ids():
                client = self._client_of(node)
                if client is not None:
                    nodes.setdefault(client_name(client), node)  # a client with two nodes is asked once
            return list(nodes)

        chosen = self._run.wait(available, self._wait)
        self._names = {nodes[name]: name for name in chosen}
        config[CLIP] = self._run.clip_norm
        messages = self._messages(server_round, arrays, config, grid) if chosen else []
        self._run.ask([self._names[message.metadata.dst_node_id] for message in messages])
        if len(messages) < self._run.cohort:
            log(WARNING, "dpmf: round %d has fewer clients than the cohort: more noise for the signal, and the same guarantee",
                self._run.rounds.round + 1)
        return messages

    def _messages(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> List[Message]:
        """The inner strategy's, for the chosen clients and no others."""
        given = {"fraction_train": 1.0, "min_train_nodes": len(self._names), "min_available_nodes": len(self._names)}
        held = {name: getattr(self.strategy, name) for name in given if hasattr(self.strategy, name)}
        try:
            for name in held:
                setattr(self.strategy, name, given[name])
            found = list(self.strategy.configure_train(server_round, arrays, config, Chosen(grid, list(self._names))))  # type: ignore[arg-type]
        finally:
            for name, value in held.items():
                setattr(self.strategy, name, value)
        first = {message.metadata.dst_node_id: message for message in reversed(found)}
        return [message for node, message in first.items() if node in self._names]

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Tuple[Optional[ArrayRecord], Optional[MetricRecord]]:
        """The next model, and epsilon for the rounds so far: that of the actual participations, as `dpmf account --log` has it."""
        for reply in replies:
            name = self._names.get(reply.metadata.src_node_id)
            if name is not None:
                self._run.add(name, lambda: answer(reply, self._run.model))
        model = to_record(self._run.close_round(self._apply))
        figures = self._run.figures()
        log(INFO, "dpmf: round %d of %d, epsilon = %s at delta = %g", figures["round"], figures["rounds"],
            rounded_up(figures.get("epsilon", 0.0)), figures.get("delta", self._run.mechanism.delta or 0.0))
        return model, MetricRecord(figures)

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: "Grid") -> Iterable[Message]:
        return self.strategy.configure_evaluate(server_round, arrays, config, grid) if self._evaluate else []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Optional[MetricRecord]:
        return self.strategy.aggregate_evaluate(server_round, replies) if self._evaluate else None

    # ---- the whole run ----

    @property
    def epsilon(self) -> Optional[float]:
        """Of the rounds so far; None before the first."""
        return self._run.figures().get("epsilon")

    def statement(self) -> str:
        """The guarantee in sentences, and what is outside it."""
        return self._run.rounds.statement() + (
            "Metrics of clients are not passed on. %s\n"
            % ("Federated evaluation is on: its metrics have no noise and are not covered." if self._evaluate else "There is no federated evaluation.")
        )

    def summary(self) -> None:
        m = self._run.mechanism
        log(INFO, "\t├──> dpmf: %s, %d rounds, %s; clip %g, cohort %d; designed for epsilon = %s at delta = %s", m.family, m.steps,
            m.participation.text, self._run.clip_norm, self._run.cohort, m.epsilon, m.delta)
        self.strategy.summary()

    def start(  # type: ignore[override]
        self,
        grid: "Grid",
        initial_arrays: ArrayRecord,
        num_rounds: Optional[int] = None,
        timeout: float = 3600,
        train_config: Optional[ConfigRecord] = None,
        evaluate_config: Optional[ConfigRecord] = None,
        evaluate_fn: Optional[Callable[[int, ArrayRecord], Optional[MetricRecord]]] = None,
    ) -> Result:
        """Runs the rounds up to `num_rounds` (None: the mechanism's), counted from the run's first, of which earlier processes did some.

        It ends early, with the model so far, where a round would pass max_epsilon. A client that does not answer within `timeout`
        seconds adds zeros. evaluate_fn should be given public data: it is outside the guarantee.
        """
        most = self._run.mechanism.steps
        last = most if num_rounds is None else integer(num_rounds, "num_rounds")
        if not 1 <= last <= most:
            raise errors.ArgumentError("num_rounds = %d, accepted: 1 to %d, the mechanism's rounds" % (last, most))
        self.summary()
        result = Result(arrays=self._begin(initial_arrays))
        train_config, evaluate_config = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
        while self._run.rounds.round < last:
            at = self._run.rounds.round + 1
            log(INFO, "[ROUND %d/%d]", at, last)
            replies = grid.send_and_receive(messages=self.configure_train(at, result.arrays, train_config, grid), timeout=timeout)
            try:
                arrays, figures = self.aggregate_train(at, replies)
            except Exhausted as over:
                log(WARNING, "dpmf: %s", over)
                break
            assert arrays is not None and figures is not None
            result.arrays, result.train_metrics_clientapp[at] = arrays, figures
            if self._evaluate:
                asked = self.configure_evaluate(at, result.arrays, evaluate_config, grid)
                found = self.aggregate_evaluate(at, grid.send_and_receive(messages=asked, timeout=timeout))
                if found is not None:
                    result.evaluate_metrics_clientapp[at] = found
            found = evaluate_fn(at, result.arrays) if evaluate_fn is not None else None
            if found is not None:
                result.evaluate_metrics_serverapp[at] = found
        log(INFO, "%s", self.statement())
        return result

    def close(self) -> None:
        """Wipes the key; the state file learns that all rows arrived."""
        self._run.close()


def answer(reply: Message, model: Arrays) -> Arrays:
    """The arrays of an answer. It raises for one that has none, which the caller takes for zeros."""
    if reply.has_error():
        raise ValueError
    records = list(reply.content.array_records.values())
    if len(records) != 1 or set(records[0]) != set(model):
        raise ValueError
    return to_numpy(records[0])


def clipping_mod(message: Message, context: Any, call_next: Callable[[Message, Any], Message]) -> Message:
    """For ClientApp(mods=[dpmf.flower.clipping_mod]): the update is clipped before it leaves the client, and metrics stay there.

    It protects clients from what the network and logs see of a large update. The guarantee does not rely on it: the server clips
    every update again.
    """
    given = next(iter(message.content.array_records.values()), None) if message.has_content() else None
    configs = list(message.content.config_records.values()) if message.has_content() else []
    clip = next((one[CLIP] for one in configs if CLIP in one), None)
    reply = call_next(message, context)
    if given is None or clip is None or not message.metadata.message_type.startswith("train") or reply.has_error():
        return reply
    before = to_numpy(given)
    for record_name, record in list(reply.content.array_records.items()):
        after = to_numpy(record)
        floats = [name for name in after if name in before and after[name].dtype.kind == "f" and after[name].shape == before[name].shape]
        updates = {name: after[name].astype(np.float64) - before[name] for name in floats}
        norm = float(np.sqrt(sum(float(np.vdot(one, one)) for one in updates.values())))
        if not np.isfinite(norm):
            updates = {name: np.zeros_like(one) for name, one in updates.items()}
        elif norm > float(clip):  # type: ignore[arg-type]
            updates = {name: one * (float(clip) / norm) for name, one in updates.items()}  # type: ignore[arg-type]
        after.update({name: (before[name] + one).astype(after[name].dtype) for name, one in updates.items()})
        reply.content[record_name] = to_record(after)
    for name, metrics in list(reply.content.metric_records.items()):
        reply.content[name] = MetricRecord({"num-examples": 1} if "num-examples" in metrics else {})
    return reply
