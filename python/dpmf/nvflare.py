# SPDX-License-Identifier: Apache-2.0
"""Correlated noise for NVFlare: a controller whose every round adds one row of noise to the sum of its clients' clipped updates.

    job = FedJob(name="private")
    job.to_server(dpmf.nvflare.CorrelatedNoise("run.dpmf", clip=1.0, cohort=100, key="/secret/run.key", model="model.npz"))

NVFlare makes its components from a job's text, so that every argument is a number or a path on the server. A filter or an
aggregator would see the updates too, but FedAvg's controller chooses the clients and waits for all of them; participation is a part of
the guarantee, which is why this is a controller. It is written for NVFlare 2.7 and later.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.workflows.model_controller import ModelController

from . import errors
from ._federation import Arrays, Federation
from ._library import real
from .federated import Exhausted
from .ledger import Ledger
from .make import load

__all__ = ["CorrelatedNoise"]

#: The name under which clients get the clip norm, in the model's meta.
CLIP = "dpmf-clip"


class CorrelatedNoise(ModelController):
    """A private FedAvg: model + learning rate x (noisy sum / cohort), with momentum.

    mechanism     the path of a mechanism file, from dpmf design --users U --rounds N --per-round M; its steps are the rounds
    clip          the l2 norm to which the server clips every client's whole update, in integers
    cohort        the clients of a round; also the divisor, which is fixed: the number of a client's examples is no weight
    key           the path of the key file, made if it is missing. Beside it: .state, .log (read it with dpmf account --log), .model
                  and .pending. A job that is submitted again with the same path resumes the run
    model         the path of the initial parameters in an .npz file; "": those of the persistor. Parameters of a client are not taken
    learning_rate, momentum    of the server
    timeout       seconds until a client that has not answered adds zeros
    wait          seconds to wait for a whole cohort of clients that may take part
    num_rounds    the run ends after this many of its rounds; 0: the mechanism's
    give_up       True: rounds whose row was drawn, and whose sum or model is lost, are left out. They are refused otherwise
    ledger        the path of a ledger file; max_epsilon: the run ends before a round with which epsilon would be larger

    Clients are known by the names of their certificates. Clients that were asked count as having taken part. Metrics of clients go
    nowhere; a model selector in the same job would use metrics without noise, outside the guarantee. NVFlare itself writes failures and
    the number of answers into the server's log: keep it as secret as the key. A client that fails, or sends NaN, other shapes or no arrays, adds zeros.
    """

    def __init__(
        self,
        mechanism: str,
        clip: float,
        cohort: int,
        key: str,
        model: str = "",
        learning_rate: float = 1.0,
        momentum: float = 0.0,
        timeout: float = 3600.0,
        wait: float = 60.0,
        num_rounds: int = 0,
        ledger: str = "",
        max_epsilon: Optional[float] = None,
        zero_above: Optional[float] = None,
        exact: bool = False,
        give_up: bool = False,
        task_name: str = AppConstants.TASK_TRAIN,
        persistor_id: str = AppConstants.DEFAULT_PERSISTOR_ID,
    ):
        super().__init__(persistor_id=persistor_id, ignore_result_error=True)  # a client that fails does not end the run
        self.mechanism, self.clip, self.cohort, self.key, self.model = mechanism, clip, cohort, key, model
        self.learning_rate, self.momentum = real(learning_rate, "learning_rate"), real(momentum, "momentum")
        if not 0.0 <= self.momentum < 1.0:
            raise errors.ArgumentError("momentum = %g, accepted: 0 to below 1" % self.momentum)
        if not real(timeout, "timeout") >= 1.0:
            raise errors.ArgumentError("timeout = %g, accepted: 1 second or more, because clients get lost" % timeout)
        self.timeout, self.wait, self.num_rounds, self.task_name = timeout, real(wait, "wait"), num_rounds, task_name
        self.ledger, self.max_epsilon, self.zero_above, self.exact, self.give_up = ledger, max_epsilon, zero_above, exact, give_up
        self._run: Any = None

    def _apply(self, mean: Arrays) -> Tuple[Arrays, Arrays]:
        moved: Arrays = dict(mean)
        if self.momentum:
            moved = {name: one + one.dtype.type(self.momentum) * self._run.more.get(name, np.zeros_like(one)) for name, one in mean.items()}
        then = {
            name: one + one.dtype.type(self.learning_rate) * moved[name] if name in moved else one for name, one in self._run.model.items()
        }
        return then, moved if self.momentum else {}

    def _initial(self) -> Arrays:
        if self.model:
            with np.load(self.model, allow_pickle=False) as file:
                found: Dict[str, Any] = dict(file)
        else:
            found = self.load_model().params
        if not found:
            raise errors.ArgumentError("model: there are no initial parameters. Those of a client are not taken: they would be a release without noise")
        return {name: np.asarray(one) for name, one in found.items()}

    def run(self) -> None:
        """The rounds that are left, until the mechanism's last, num_rounds or max_epsilon."""
        mechanism = load(self.mechanism)
        mechanism.confirm()
        last = self.num_rounds or mechanism.steps
        if not 1 <= last <= mechanism.steps:
            raise errors.ArgumentError("num_rounds = %d, accepted: 1 to %d, the mechanism's rounds, or 0" % (last, mechanism.steps))
        self._run = Federation(
            mechanism, self.clip, self.cohort, key=os.fspath(self.key), ledger=Ledger(self.ledger) if self.ledger else None, what="nvflare",
            max_epsilon=self.max_epsilon, zero_above=self.zero_above, exact=self.exact, give_up=self.give_up,
        )
        try:
            self._run.begin(self._initial(), self._apply, lambda arrays: None)
            while self._run.rounds.round < last and not self.abort_signal.triggered:
                if not self._round(last):
                    break
            self.info(self._run.rounds.statement() + "Metrics of clients are not passed on.")
        finally:
            self._run.close()

    def _connected(self) -> List[str]:
        return [client.name for client in self.engine.get_clients()]

    def _round(self, last: int) -> bool:
        """False: the run is over."""
        run = self._run
        at = run.rounds.round
        chosen = run.wait(self._connected, self.wait)
        model = FLModel(params_type=ParamsType.FULL, params=dict(run.model), start_round=0, current_round=at, total_rounds=last,
                        meta={CLIP: run.clip_norm})
        run.ask(chosen)
        if len(chosen) < run.cohort:
            self.warning("dpmf: round %d has fewer clients than the cohort: more noise for the signal, and the same guarantee" % (at + 1))
        answers = self.send_model_and_wait(
            task_name=self.task_name, data=model, targets=chosen, min_responses=len(chosen), timeout=int(self.timeout)
        ) if chosen else []
        if self.abort_signal.triggered:
            run.rounds.discard()
            return False
        for answer in answers:
            run.add(answer.meta.get("client_name", ""), lambda: dict(answer.params), whole=answer.params_type != ParamsType.DIFF)
        try:
            run.close_round(self._apply)
        except Exhausted as over:
            self.warning("dpmf: %s" % over)
            return False
        figures = run.figures()
        self.info("dpmf: round %d of %d, epsilon = %.17g at delta = %g" % (
            figures["round"], figures["rounds"], figures.get("epsilon", 0.0), figures.get("delta", 0.0)))
        if self.persistor:
            self.save_model(FLModel(params_type=ParamsType.FULL, params=dict(run.model), current_round=at))
        return True
